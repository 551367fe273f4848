"""What judges gave, one reading a line: the votes behind judgements, or their scores where no votes
were kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.types import Judgement, Match, PlayerId, Vote

DECIMALS = 12  # to which probabilities are rounded, so that 1 − 0.9 ties with 0.1


@dataclass(frozen=True, slots=True)
class Reading:
    """`voter` gave `seat` of `match` this value or, where there is an `other` seat, preferred it to
    that one, which was shown second, with this probability.
    """

    voter: str
    match: Match
    seat: str
    other: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a voter thinks of one answer: its score, or the probability that it beats the answer of
    `other`.

    Repeated readings of one voter, and both orders of a comparison, are one opinion: their mean.
    """

    voter: str
    match: Match
    seat: str
    other: str
    value: float

    @property
    def answer(self) -> tuple[str, str, str]:
        """Which answer, or which pair of them in this order, the opinion is of."""
        return self.match.id, self.seat, self.other

    @property
    def player(self) -> str:
        """The name of the player that gave the answer."""
        return self.match.seats[self.seat].name

    @property
    def other_player(self) -> str:
        """The name of the player that it was compared with; "" where it was not."""
        return self.match.seats[self.other].name if self.other else ""


def voter_of(vote: Vote) -> str:
    """The judge's name; for a player of the run its name without the generation."""
    return PlayerId.parse(vote.by).name if "@" in vote.by else vote.by


def readings(
    matches: Mapping[str, Match], judgements: Sequence[Judgement], utility: str
) -> list[Reading]:
    """Every vote; of a judgement without votes, each seat's `utility` as the judge itself gave it.

    Raises ValueError for a judgement whose match is not among `matches`.
    """
    every: list[Reading] = []
    for judgement in judgements:
        match = matches.get(judgement.match)
        if match is None:
            raise ValueError(
                f"judgement {judgement.id} is of match {judgement.match}, which is not "
                "among the matches given"
            )
        every += _of_votes(match, judgement) or _of_scores(match, judgement, utility)
    return every


def _of_votes(match: Match, judgement: Judgement) -> list[Reading]:
    return [
        Reading(voter_of(vote), match, vote.seat, vote.other, vote.value)
        for vote in judgement.votes
    ]


def _of_scores(match: Match, judgement: Judgement, utility: str) -> list[Reading]:
    scores = judgement.by_seat(utility)
    return [
        Reading(judgement.judge, match, seat, "", scores[seat])
        for seat in match.last_turns()  # who never moved gave nothing to judge
        if seat in scores
    ]


def opinions(readings: Sequence[Reading]) -> list[Opinion]:
    """One opinion a voter and answer; of a comparison one of each of its two answers, p and 1 −
    p.
    """
    values: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    matches: dict[str, Match] = {}
    for reading in readings:
        if reading.value is None:
            continue
        match = reading.match
        matches[match.id] = match
        values[reading.voter, match.id, reading.seat, reading.other].append(reading.value)
        if reading.other:
            values[reading.voter, match.id, reading.other, reading.seat].append(
                round(1 - reading.value, DECIMALS)
            )
    return [
        Opinion(voter, matches[match], seat, other, round(float(np.mean(given)), DECIMALS))
        for (voter, match, seat, other), given in values.items()
    ]


def both_orders(readings: Sequence[Reading]) -> Iterator[tuple[Reading, float, float]]:
    """(a comparison, P(a beats b) with a shown first, with b shown first) where a voter was read in
    both orders.
    """
    values: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    first: dict[tuple[str, str, str, str], Reading] = {}
    for reading in readings:
        if reading.other and reading.value is not None:
            key = (reading.voter, reading.match.id, reading.seat, reading.other)
            values[key].append(reading.value)
            first.setdefault(key, reading)
    for (voter, match, a, b), shown_first in values.items():
        shown_second = values.get((voter, match, b, a))
        if shown_second and a < b:
            yield (
                first[voter, match, a, b],
                float(np.mean(shown_first)),
                1 - float(np.mean(shown_second)),
            )
