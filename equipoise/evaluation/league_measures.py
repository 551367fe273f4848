"""Measures of a league, every generation of every player against every other one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import ClassVar, Self

import msgspec
import numpy as np

from equipoise.blocks.league_sections import (
    caution,
    equilibrium_section,
    payoffs_section,
    ratings_section,
)
from equipoise.blocks.section import Section, finite_or_none
from equipoise.evaluation.base import Arena, Scores
from equipoise.evaluation.measures import (
    SCORE,
    History,
    Measures,
    Quantity,
    Records,
    curves,
    measured_section,
    no_default,
)
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.cycles import cycle_share, cyclic_triples, cyclic_warning
from equipoise.payoffs.intervals import Interval, mean_interval, payoff_interval
from equipoise.payoffs.table import PayoffTable, preference
from equipoise.ratings.base import Rating, table_outcomes
from equipoise.solvers.exploitability import exploitability
from equipoise.types import PlayerId


class RatingRecord(msgspec.Struct, frozen=True):
    """A player's rating as it is recorded: None for what is not known."""

    name: str
    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, rating: Rating) -> RatingRecord:
        """The rating for the record."""
        return cls(rating.name, *map(finite_or_none, (rating.value, rating.low, rating.high)))

    @property
    def rating(self) -> Rating:
        """The rating to compute with: NaN for what is not known."""
        value, low, high = (
            math.nan if number is None else number for number in (self.value, self.low, self.high)
        )
        return Rating(self.name, value, low, high)


def _largest_gains(measures: LeagueMeasures) -> dict[str, float]:
    """Player -> the most that anybody in the league gets against it; of the newest learners by
    their own judges.
    """
    most_N = np.max(measures.payoff, axis=0).tolist()
    return {**dict(zip(measures.players, most_N, strict=True)), **measures.gap}


WIN_RATE = Quantity(
    title="win rate over the start",
    read="win_rates",
    unit="%",
    label="win rate of {player} over {start}",
    note="a tie counts half; 95 % interval",
    of_many=("mean",),
    has_change=False,
    even=0.5,
    key="win_rate",
)
EXPLOITABILITY = Quantity(
    title="exploitability",
    read=lambda measures: {**_largest_gains(measures), **measures.best_reply_gains},
    higher_is_better=False,
    note="what the best member of the league, as it is now, wins against it: P(win) − P(loss); a "
    "lower bound, since others might win more",
    digits=3,
    label="exploitability of {player}",
    of_many=("largest",),
    has_change=False,
    has_curve=False,
)
EXPLOITABILITY_CURVE = replace(
    EXPLOITABILITY,
    read=_largest_gains,  # without intervals
    note=f"{EXPLOITABILITY.note}; in the headline less what chance adds to a maximum",
)
GAP = Quantity(
    title="gap of each learner",
    read="gap",
    note="what the league's best member wins against each learner, measured at that generation, "
    "by its own judge",
)
DEVIATION = Quantity(
    title="best deviation",
    read="deviation_gains",
    note="what it would gain by playing as the league's best does against the mixture that it "
    "faces, of 1: a lower bound of the gap without its KL (arXiv 2509.23102, eq 9), whose maximum "
    "is over all policies",
    of_many=(),
    same_as="exploitability",
    has_change=False,
    has_curve=False,
)


class LeagueMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Scores and win rates of the newest generation, and the pay-off table of the league.

    `payoff`, `se`, `count` and `clusters` are [N, N] in the order of `players`: row i against
    column j, its standard error (None where it is not known), the judged meetings, and their
    prompts. `judges` names each newest learner's judge. `gap` is what the best member of the league
    wins against a newest learner, in [0, 1]; `exploitability` is the largest. `best_reply_gains`
    are the same with an interval that allows for the maximum; `deviation_gains` what the learner
    itself would gain by playing as any of the league does against the mixture that it faces. Both
    are lower bounds: a maximum over the league, where eq 9's is over all policies, without its
    −τ·KL. `win_rates` are over the player's own start.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (SCORE, WIN_RATE, EXPLOITABILITY, DEVIATION)

    players: list[str] = no_default()
    judges: dict[str, str]
    payoff: list[list[float]] = no_default()
    se: list[list[float | None]]
    count: list[list[int]]
    clusters: list[list[int]] = msgspec.field(default_factory=list)
    mixture: dict[str, float] = no_default()
    gap: dict[str, float]
    best_reply_gains: dict[str, Estimate] = msgspec.field(default_factory=dict)
    deviation_gains: dict[str, Estimate] = msgspec.field(default_factory=dict)
    exploitability: float = no_default()
    cycle_share: float
    cyclic_triples: float = no_default()
    ratings: list[RatingRecord]
    scores: dict[str, Estimate] = no_default()
    win_rates: dict[str, Estimate]
    best_win_rate: float | None = None

    def all_numbers(self) -> dict[str, int | float]:
        """As of every measurement; `exploitability` as the headline has it, less what chance adds
        to a maximum, and the maximum itself as `largest_gain`.
        """
        numbers = super().all_numbers()
        largest = best_of(self.best_reply_gains)
        if largest is None:
            return numbers
        return numbers | {"exploitability": largest, "largest_gain": self.exploitability}

    def gets(self, player: str, other: str) -> Estimate | None:
        if not {player, other} <= set(self.players):
            return None
        i, j = self.players.index(player), self.players.index(other)
        mean, error = self.payoff[i][j], self.se[i][j]
        clusters = self.clusters or self.count  # older records lack them
        interval = payoff_interval(mean, error, clusters[i][j])
        return Estimate.of(replace(interval, n=self.count[i][j]))

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        yield measured_section(history, cls.rows(history))
        if history.last is None:
            yield payoffs_section((), np.zeros((0, 0)))
            yield equilibrium_section()
            yield ratings_section(())
            return
        last = history.last.measures
        titles = {player: player for player in last.players}
        if not history.learn:  # everybody is as it was given, of generation 0
            titles = {player: player.partition("@")[0] for player in last.players}
        yield payoffs_section(
            list(titles.values()),
            np.array(last.payoff, float),
            np.array(last.se, float),
            np.array(last.count),
            np.array(last.clusters or last.count),
        )
        of_course = []
        if history.has_course:
            of_course.append(curves(history, EXPLOITABILITY_CURVE))
            if len(history.learners) > 1:
                of_course.append(curves(history, GAP))
        yield equilibrium_section(
            of_course,
            {titles.get(player, player): weight for player, weight in last.mixture.items()},
            last.cycle_share,
            last.cyclic_triples if len(last.players) > 2 else None,
        )
        yield ratings_section(
            [
                replace(record.rating, name=titles.get(record.name, record.name))
                for record in last.ratings
            ],
            history.rating_unit,
            caution(cyclic_warning(last.cyclic_triples or 0.0)),
        )

    @classmethod
    def warnings(cls, history: History[Self], records: Records) -> Iterator[str]:
        last = history.last
        if last is None:
            return
        if warning := cyclic_warning(last.measures.cyclic_triples or 0.0):
            yield warning


def mean_score(scores: Scores) -> Interval:
    """The mean score of the judged answers, prompts counting as clusters."""
    judged = [
        (score, prompt)
        for prompt, answers in scores.items()
        for score in answers
        if score is not None
    ]
    return mean_interval([score for score, _ in judged], [prompt for _, prompt in judged])


def meetings(first: Scores, second: Scores) -> tuple[list[float], list[str]]:
    """Every judged answer of `first` against every one of `second` on the same prompt.

    Returns the values in [−1, 1], positive where `first` is better, and the prompts.
    """
    values: list[float] = []
    prompts: list[str] = []
    for prompt, answers in first.items():
        for own in answers:
            for other in second[prompt]:
                value = preference(own, other)
                if value is not None:
                    values.append(value)
                    prompts.append(prompt)
    return values, prompts


def mean_of(estimates: Mapping[str, Estimate]) -> float | None:
    """The mean over the players; None where there is none, or one is not known."""
    values = [estimate.mean for estimate in estimates.values()]
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def best_of(estimates: Mapping[str, Estimate]) -> float | None:
    """The best player's; None where none is known."""
    values = (estimate.mean for estimate in estimates.values())
    return max((value for value in values if value is not None), default=None)


def league_measures(
    arena: Arena,
    judges: Mapping[PlayerId, Judge],
    tables: Mapping[PlayerId, PayoffTable],
    scores: dict[str, Estimate],
    win_rates: dict[str, Estimate],
    best_reply_gains: dict[str, Estimate] | None = None,
    deviation_gains: dict[str, Estimate] | None = None,
) -> LeagueMeasures:
    """The league's measures of its pay-off tables.

    Args: judges, tables: newest player -> its judge, and the league's pay-offs by that judge, of
    which the first is shown; the others: player -> estimate.
    """
    table = next(iter(tables.values()))
    payoff_NN = table.complete()
    alone_NN = np.eye(len(table.players))
    gaps = {
        str(player): exploitability(own.complete(), alone_NN[list(own.players).index(str(player))])
        for player, own in tables.items()
    }
    weights = map(float, arena.solver.solve(payoff_NN))
    ratings = arena.ratings.rate(table_outcomes(table)) if len(table.players) > 1 else []
    return LeagueMeasures(
        players=list(table.players),
        judges={str(player): judge.name for player, judge in judges.items()},
        payoff=payoff_NN.tolist(),
        se=[[finite_or_none(value) for value in row] for row in table.se_NN],
        count=table.count_NN.tolist(),
        clusters=table.clusters_NN.tolist(),
        mixture=dict(zip(table.players, weights, strict=True)),
        gap=gaps,
        exploitability=max(gaps.values()),
        cycle_share=float(cycle_share(payoff_NN)),
        cyclic_triples=float(cyclic_triples(payoff_NN)),
        ratings=[RatingRecord.of(rating) for rating in ratings],
        scores=scores,
        win_rates=win_rates,
        score=mean_of(scores),
        best_score=best_of(scores),
        win_rate=mean_of(win_rates),
        best_win_rate=best_of(win_rates),
        best_reply_gains=best_reply_gains or {},
        deviation_gains=deviation_gains or {},
    )
