"""Readings and opinions of judges: the votes behind judgements, or their scores where no votes were
kept.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from equipoise.blocks.section import finite_or_none
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import Interval, mean_interval
from equipoise.payoffs.judge_agreement import correlations, krippendorff_alpha
from equipoise.types import Judgement, Match, Vote

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
    """The opinion of a voter on one answer: its score, or the probability that it beats the answer
    of `other`.

    Repeated readings of one voter, and both orders of a comparison, are one opinion: their mean.
    """

    voter: str
    match: Match
    seat: str
    other: str
    value: float

    @property
    def answer(self) -> tuple[str, str, str]:
        """The answer, or the pair of them in this order, that the opinion is of."""
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
    name, _, generation = vote.by.rpartition("@")
    return name if generation.isdigit() and name else vote.by


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
    """One opinion a voter and answer; of a comparison one of each answer, p and 1 − p."""
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


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of two judges on the same matches.

    `spearman` and `kendall` (tau-b): of the scores of the `answers` that both scored.
    `same_winner`: of the two-seat pairs in which both judges prefer one answer, the share in which
    it is the same, with an interval that counts matches; `tied`: the pairs in which only one of
    them does, or neither. None: too few to say.
    """

    answers: int
    spearman: float | None
    kendall: float | None
    same_winner: Estimate | None
    tied: int


class VoterAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """Krippendorff's alpha of `voters` over `units`, the answers or pairs that at least two of them
    judged; None where it is not defined.
    """

    alpha: float | None
    alpha_ordinal: float | None
    units: int
    voters: int


def agreement_between(
    first: Sequence[Judgement], second: Sequence[Judgement], utility: str = "score"
) -> Agreement:
    """Compare two judges on the same matches.

    Raises ValueError for a match judged twice.
    """
    both = _common(_by_match(first, utility), _by_match(second, utility))
    answers = [pair for seats in both.values() for pair in seats]
    a_n, b_n = np.array(answers).reshape(-1, 2).T
    same: list[bool] = []
    clusters: list[str] = []
    tied = 0
    for match, winners in _winners(both):
        if 0 in winners:
            tied += 1
        else:
            same.append(winners[0] == winners[1])
            clusters.append(match)
    share = mean_interval(np.array(same, float), clusters, share=True)
    return Agreement(
        answers=len(answers),
        spearman=spearman(a_n, b_n),
        kendall=finite_or_none(correlations(a_n, b_n).kendall) if len(a_n) > 2 else None,
        same_winner=estimate(share),
        tied=tied,
    )


def _winners(
    both: Mapping[str, Sequence[tuple[float, float]]],
) -> Iterator[tuple[str, tuple[float, float]]]:
    """(match, which of two seats each judge prefers) for every two seats of a match: 1 the one, −1
    the other, 0 neither.
    """
    for match, seats in both.items():
        for i, (first_i, second_i) in enumerate(seats):
            for first_j, second_j in seats[:i]:
                yield match, (np.sign(first_i - first_j), np.sign(second_i - second_j))


def _by_match(judgements: Sequence[Judgement], utility: str) -> dict[str, dict[str, float]]:
    """Match -> seat -> its score."""
    scores: dict[str, dict[str, float]] = {}
    for judgement in judgements:
        if judgement.match in scores:
            raise ValueError(
                f"match {judgement.match} is judged twice in one list; give the "
                "judgements of one judge"
            )
        scores[judgement.match] = judgement.by_seat(utility)
    return scores


def _common(
    first: Mapping[str, Mapping[str, float]], second: Mapping[str, Mapping[str, float]]
) -> dict[str, list[tuple[float, float]]]:
    """Match -> both judges' scores of each seat that both scored."""
    return {
        match: [
            (score, second[match][seat]) for seat, score in scores.items() if seat in second[match]
        ]
        for match, scores in first.items()
        if match in second
    }


def voter_agreement(opinions: Sequence[Opinion]) -> VoterAgreement | None:
    """Of the voters over the answers, or pairs, that at least two of them judged; None where there
    is no such answer.
    """
    voters = sorted({opinion.voter for opinion in opinions})
    answers = dict.fromkeys(opinion.answer for opinion in opinions)
    row = {name: j for j, name in enumerate(voters)}
    column = {answer: u for u, answer in enumerate(answers)}
    rating_JU = np.full((len(row), len(column)), np.nan)
    for opinion in opinions:
        rating_JU[row[opinion.voter], column[opinion.answer]] = opinion.value
    shared = int(((~np.isnan(rating_JU)).sum(0) > 1).sum())
    if not shared:
        return None
    return VoterAgreement(
        alpha=finite_or_none(krippendorff_alpha(rating_JU)),
        alpha_ordinal=finite_or_none(krippendorff_alpha(rating_JU, "ordinal")),
        units=shared,
        voters=len(voters),
    )


def spearman(a_n: np.ndarray, b_n: np.ndarray) -> float | None:
    """Spearman's rank correlation; None for fewer than three values, or one side constant."""
    return finite_or_none(correlations(a_n, b_n).spearman) if len(a_n) > 2 else None


def estimate(interval: Interval) -> Estimate | None:
    """The interval for the record; None where it is of nothing."""
    return Estimate.of(interval) if interval.n else None
