"""What is measured of a league, every generation of every player against every other one, and how
it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Self

import msgspec
import numpy as np

from equipoise.evaluation.base import Scores
from equipoise.evaluation.measures import (
    MANY,
    Estimate,
    History,
    M,
    Measurement,
    Measures,
    Records,
    estimate_curves,
    mean_text,
    means,
    recorded,
    score_curves,
    score_headline,
    score_headlines,
)
from equipoise.payoffs.cycles import cyclic_warning
from equipoise.payoffs.intervals import Interval, from_standard_error, mean_interval
from equipoise.payoffs.table import preference
from equipoise.ratings.base import Rating
from equipoise.report.league_sections import (
    caution,
    equilibrium_section,
    payoffs_section,
    ratings_section,
)
from equipoise.report.learning_sections import learning_section
from equipoise.report.section import Curve, Curves, Headline, Section


class RatingRecord(msgspec.Struct, frozen=True):
    """A player's rating as it is recorded: None for what is not known."""

    name: str
    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, rating: Rating) -> RatingRecord:
        """The rating for the record."""
        value, low, high = (
            number if math.isfinite(number) else None
            for number in (rating.value, rating.low, rating.high)
        )
        return cls(rating.name, value, low, high)

    @property
    def rating(self) -> Rating:
        """The rating to compute with: NaN for what is not known."""
        value, low, high = (
            math.nan if number is None else number for number in (self.value, self.low, self.high)
        )
        return Rating(self.name, value, low, high)


class LeagueMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Scores and win rates of the newest generation, and the pay-off table of the league.

    `payoff`, `se` and `count` are [N, N] in the order of `players`: row i against column j, its
    standard error (None where it is not known), and the judged meetings. `judges` names each newest
    learner's judge. `gap` is what the best member of the league wins against a newest learner, in
    [0, 1]; `exploitability` is the largest. `best_reply_gains` are the same with an interval that
    allows for the maximum; `deviation_gains` (eq 9) what the learner itself would gain by its best
    deviation against the mixture that it faces. `win_rates` are over the player's own start.
    """

    players: list[str] = recorded()
    judges: dict[str, str]
    payoff: list[list[float]] = recorded()
    se: list[list[float | None]]
    count: list[list[int]]
    mixture: dict[str, float] = recorded()
    gap: dict[str, float]
    best_reply_gains: dict[str, Estimate] = msgspec.field(default_factory=dict)
    deviation_gains: dict[str, Estimate] = msgspec.field(default_factory=dict)
    exploitability: float = recorded()
    cycle_share: float
    cyclic_triples: float = recorded()
    ratings: list[RatingRecord]
    scores: dict[str, Estimate] = recorded()
    win_rates: dict[str, Estimate]
    best_win_rate: float | None = None

    def gets(self, player: str, other: str) -> Estimate | None:
        """The mean pay-off, in [−1, 1]."""
        if not {player, other} <= set(self.players):
            return None
        i, j = self.players.index(player), self.players.index(other)
        mean, error = self.payoff[i][j], self.se[i][j]
        return Estimate.of(from_standard_error(mean, error, self.count[i][j]))

    @classmethod
    def headlines(cls, history: History[Self]) -> Iterator[Headline]:
        """Score, win rate and exploitability of every learner; of many learners the best score, the
        means and the most exploitable.
        """
        if history.ends is None:
            return
        first, last = history.ends
        if len(history.learners) > MANY:
            yield from _headlines_of_many(history, last)
            return
        for name in history.learners:
            lines = (
                score_headline(history, name),
                win_rate_headline(first, last, last.measures.win_rates, name),
                _gap_headline(first, last, name),
                _deviation_headline(last, name),
            )
            yield from (line for line in lines if line is not None)

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        """Curves of scores and win rates, the pay-off table, the equilibrium, and the ratings."""
        win_rates = [m.measures.win_rates for m in history.measurements]
        groups = [
            *score_curves(history),
            *estimate_curves(history, win_rates, "win rate over the start"),
        ]
        yield learning_section(groups, alone=len(history.learners) == 1)
        if history.last is None:
            yield payoffs_section((), np.zeros((0, 0)))
            yield equilibrium_section()
            yield ratings_section(())
            return
        last = history.last.measures
        yield payoffs_section(
            last.players,
            np.array(last.payoff, float),
            np.array(last.se, float),
            np.array(last.count),
        )
        yield equilibrium_section(
            _exploitability_by_now(history),
            gap_curves(
                history,
                [m.measures.gap for m in history.measurements],
                "what the league's best member wins against each learner, measured at "
                "that generation, by its own judge",
            ),
            last.mixture,
            last.cycle_share,
            last.cyclic_triples if len(last.players) > 2 else None,
        )
        yield ratings_section(
            [record.rating for record in last.ratings],
            history.rating_unit,
            caution(cyclic_warning(last.cyclic_triples or 0.0)),
        )

    @classmethod
    def warnings(cls, history: History[Self], records: Records) -> Iterator[str]:
        """That ratings mislead, where the league's pay-offs go round in circles."""
        last = history.last
        if last is None:
            return
        if warning := cyclic_warning(last.measures.cyclic_triples or 0.0):
            yield warning


def win_rate_headline(
    first: Measurement[M], last: Measurement[M], win_rates: Mapping[str, Estimate], name: str
) -> Headline | None:
    """How often the newest generation of one learner beats its start."""
    wins = last.of(win_rates, name)
    if wins is None:
        return None
    return Headline(
        f"win rate of {last.player(name)} over {first.player(name)}",
        wins.percent(),
        "a tie counts half; 95 % interval",
    )


def _gap_headline(
    first: Measurement[LeagueMeasures], last: Measurement[LeagueMeasures], name: str
) -> Headline | None:
    """What the league's best member wins against one learner now, and won against its start."""
    measures = last.measures
    now, start = str(last.player(name)), str(first.player(name))
    if now not in measures.gap:
        return None
    note = "what the league's best member wins against it, of 1"
    if start in measures.players:
        column = measures.players.index(start)
        before = max(row[column] for row in measures.payoff)
        note += f"; against {start}: {before:.3f}"
    gain = last.of(measures.best_reply_gains, name)
    text = f"{measures.gap[now]:.3f}" if gain is None else str(gain)
    return Headline(f"exploitability of {now}", text, note)


def _deviation_headline(last: Measurement[LeagueMeasures], name: str) -> Headline | None:
    """What one learner would gain by its best deviation against those that it faces."""
    gain = last.of(last.measures.deviation_gains, name)
    if gain is None:
        return None
    return Headline(
        f"best deviation of {last.player(name)}",
        str(gain),
        "what it would gain by playing as the league's best does, against the mixture "
        "that it faces (arXiv 2509.23102, eq 9), of 1",
    )


def _headlines_of_many(
    history: History[LeagueMeasures], last: Measurement[LeagueMeasures]
) -> Iterator[Headline]:
    """The best, the mean and the most exploitable, since nobody reads three numbers for each of
    many.
    """
    yield from score_headlines(history)
    wins = means(last, last.measures.win_rates, history.learners)
    if wins:
        note = f"of {len(wins)} learners"
        yield Headline("mean win rate over the start", mean_text(wins, True), note)
    gap = last.measures.gap
    if gap:
        worst = max(gap, key=lambda name: gap[name])
        note = "what the league's best member wins against it, of 1: the largest of all learners"
        yield Headline(f"exploitability of {worst}", f"{gap[worst]:.3f}", note)


def _exploitability_by_now(history: History[LeagueMeasures]) -> Curve | None:
    """What the league, as it is now, wins against each generation: of the learners the worst."""
    if history.last is None:
        return None
    league = history.last.measures
    most = np.max(league.payoff, axis=0)
    gains = dict(zip(league.players, most, strict=True))
    points = [
        (
            float(measurement.generation),
            max(gains[str(measurement.player(name))] for name in history.learners),
        )
        for measurement in history.measurements
    ]
    note = (
        "what the best member of the league, as it is now, wins against each "
        "generation: P(win) − P(loss)"
    )
    x, y = zip(*points, strict=True)
    return Curve("exploitability", "", x, y, note=note)


def gap_curves(
    history: History[M], gaps: Sequence[Mapping[str, float]], note: str
) -> Curves | None:
    """Where several learn, each one's gap at each generation, as it was measured then; `gaps` has
    an entry for each measurement.
    """
    if len(history.learners) < 2:
        return None
    x = tuple(float(m.generation) for m in history.measurements)
    curves = []
    for name in history.learners:
        y = tuple(
            by_player.get(str(measurement.player(name)), math.nan)
            for measurement, by_player in zip(history.measurements, gaps, strict=True)
        )
        if any(map(math.isfinite, y)):
            curves.append(Curve(name, "", x, y))
    return Curves("gap of each learner", "", tuple(curves), note) if curves else None


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
