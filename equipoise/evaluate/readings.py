"""What judges said, one reading a line: the votes behind judgements, or their scores
where no votes were kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.types import Judgement, Match, PlayerId, Vote


@dataclass(frozen=True, slots=True)
class Said:
    """`voter` gave `seat` of `match` this value, or preferred it to `other`, shown
    second, with this probability.
    """

    voter: str
    match: Match
    seat: str
    other: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a voter thinks of one answer: its score, or the probability that it beats
    the answer of `other`.

    Repeated readings of one voter, and both orders of a comparison, are one: their
    mean.
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
    def rival(self) -> str:
        """The name of the player that it was compared with; "" where it was not."""
        return self.match.seats[self.other].name if self.other else ""


def voter_of(vote: Vote) -> str:
    """The judge's name; for a player of the run its name without the generation."""
    return PlayerId.parse(vote.by).name if "@" in vote.by else vote.by


def readings(
    matches: Mapping[str, Match], judgements: Sequence[Judgement], utility: str
) -> list[Said]:
    """Every vote; of a judgement without votes, each seat's `utility` as said by the
    judge itself.

    Raises ValueError for a judgement whose match is not among `matches`.
    """
    found: list[Said] = []
    for judgement in judgements:
        if judgement.match not in matches:
            raise ValueError(
                f"judgement {judgement.id} is of match {judgement.match}, which is not among the matches given"
            )
        match = matches[judgement.match]
        if judgement.votes:
            found += [
                Said(voter_of(vote), match, vote.seat, vote.other, vote.value)
                for vote in judgement.votes
            ]
        else:
            scores = judgement.by_seat(utility)
            found += [
                Said(judgement.judge, match, seat, "", scores[seat])
                for seat in match.seats
                if seat in scores
            ]
    return found


def opinions(said: Sequence[Said]) -> list[Opinion]:
    """One opinion a voter and answer; of a comparison one of each of its two answers, p
    and 1 − p.
    """
    of_answer: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    matches: dict[str, Match] = {}
    for one in said:
        if one.value is None:
            continue
        matches[one.match.id] = one.match
        of_answer[one.voter, one.match.id, one.seat, one.other].append(one.value)
        if one.other:
            of_answer[one.voter, one.match.id, one.other, one.seat].append(
                round(1 - one.value, 12)
            )  # 1 − 0.9 is to tie with 0.1
    return [
        Opinion(
            voter, matches[match], seat, other, round(float(np.mean(values)), 12)
        )  # 1 − 0.9 is to tie with 0.1
        for (voter, match, seat, other), values in of_answer.items()
    ]


def both_orders(said: Sequence[Said]) -> Iterator[tuple[Said, float, float]]:
    """(a comparison, P(a beats b) with a shown first, with b shown first) where a voter
    was read in both orders.
    """
    known: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    first: dict[tuple[str, str, str, str], Said] = {}
    for one in said:
        if one.other and one.value is not None:
            key = (one.voter, one.match.id, one.seat, one.other)
            known[key].append(one.value)
            first.setdefault(key, one)
    for (voter, match, a, b), values in known.items():
        back = known.get((voter, match, b, a))
        if back and a < b:
            yield (
                first[voter, match, a, b],
                float(np.mean(values)),
                1 - float(np.mean(back)),
            )
