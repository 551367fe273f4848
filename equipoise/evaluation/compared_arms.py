"""A comparison of several targets by their scores, item by item.

    Sheet        what one run, model or log scored: measure -> item -> the scores of its answers
    Arm          a target under its name: one sheet, or one for each run of a recipe (replicates)
    compare      arms -> `ComparisonNumbers`, by pure functions of `payoffs.told_apart`

An item is a prompt with all its samples, so that prompts are counted and not matches. A pair of
arms is compared over the items that both have; those of one alone are counted, and so are answers
without a score, which count nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from equipoise.blocks.section import Curve, finite_or_none
from equipoise.payoffs.cycles import circles, cycle_share, cyclic_triples
from equipoise.payoffs.intervals import Interval, level_together, mean_interval, paired_difference
from equipoise.payoffs.regret import largest_gap
from equipoise.payoffs.table import Meeting, PayoffTable, cross_play, met_by_all, tally
from equipoise.payoffs.told_apart import (
    FEW_SEEDS,
    SpreadMean,
    between_recipes,
    holm,
    joint_level,
    means_over_seeds,
    rank_ranges,
    relabelled,
    sign_flip,
    smallest_shown,
)
from equipoise.payoffs.win_rates import win_rates
from equipoise.ratings.nash_average import max_entropy_nash
from equipoise.types import Message

ALPHA = 0.05
MOST_CIRCLES = 10  # circles of three that are listed

Scores = Mapping[str, Sequence[float]]
"""Item -> the scores of its answers, without those that have none."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure's scores of one target: item -> its answers' scores; `missing` answers have none.

    `settings` are what of the way of measuring a reader must know to be the same on both sides.
    """

    scores: Scores
    missing: int = 0
    higher_is_better: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """A question and the answers that a target gave to it."""

    prompt: tuple[Message, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a target: answers and tokens of what is compared; money and seconds of its run."""

    answers: int = 0
    tokens: int = 0
    money: float = 0.0
    currency: str = ""
    seconds: float = 0.0
    generations: int = 0


@dataclass(frozen=True, slots=True)
class Sheet:
    """The scores of one run, model or log.

    `seed` tells runs of one recipe apart: equal seeds of two arms are paired. `meetings` are
    its matches with others, by judge, where answers were judged side by side: those in which it
    stands first, so that a match of two sheets is in one of them. `answers`:
    item -> what was asked and answered. `curves`: a measure's course over the generations.
    `method` is the loss that it learned by, `first_step` that loss in the first generation, where
    other methods share it. `source` says to a reader what it is of. `titles`: a
    measure or judge -> what readers call it. `parts`: a part of the user's own -> a hash of the
    file that its run went on with last.
    """

    key: str
    measures: Mapping[str, Measured] = field(default_factory=dict)
    seed: str = ""
    answers: Mapping[str, Shown] = field(default_factory=dict)
    meetings: Mapping[str, Sequence[Meeting]] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    method: str = ""
    first_step: str = ""
    source: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arm:
    """A target of a comparison under its name: one sheet, or those of a recipe's runs."""

    name: str
    sheets: tuple[Sheet, ...]

    def measured(self, measure: str) -> list[Measured]:
        """The measure of each sheet that has it."""
        return [sheet.measures[measure] for sheet in self.sheets if measure in sheet.measures]

    def pooled(self, measure: str) -> dict[str, list[float]]:
        """Item -> the scores of all its answers, of all runs."""
        scores: dict[str, list[float]] = {}
        for measured in self.measured(measure):
            for item, values in measured.scores.items():
                scores.setdefault(item, []).extend(values)
        return scores

    @property
    def sources(self) -> list[str]:
        """Runs, models and logs that its sheets are of, each once."""
        return list(dict.fromkeys(sheet.source for sheet in self.sheets if sheet.source))

    def usage_facts(self) -> dict[str, Any]:
        """Plain JSON values: what it is, and what its answers and runs took."""
        usages = [sheet.usage for sheet in self.sheets]
        money: dict[str, float] = {}
        for usage in usages:
            if usage.money:
                money[usage.currency] = money.get(usage.currency, 0.0) + usage.money
        return {
            "is": self.sources,
            "runs": len(usages),
            "generations": sorted({usage.generations for usage in usages}),
            "answers": sum(usage.answers for usage in usages),
            "tokens": sum(usage.tokens for usage in usages),
            "money": money,
            "seconds": sum(usage.seconds for usage in usages),
        }

    def by_seed(self, measure: str) -> dict[str, dict[str, float]]:
        """Seed -> item -> the mean score of its answers."""
        seeds: dict[str, dict[str, float]] = {}
        for number, sheet in enumerate(self.sheets):
            if measure not in sheet.measures:
                continue
            means = {}
            for item, values in sheet.measures[measure].scores.items():
                if values:
                    means[item] = fmean(values)
            seed = sheet.seed or str(number)
            if seed in seeds:
                seed = f"{seed} ({number})"
            seeds[seed] = means
        return seeds


@dataclass(frozen=True, slots=True)
class Standing:
    """An arm's own score on a measure, with the interval that its run's report has for it, and the
    places that it may have among all.
    """

    arm: str
    score: Interval
    prompts: int
    missing: int
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much one arm exceeds another on a measure.

    `interval` is this difference's own, at 95 %; `together` holds with all others of the comparison
    at 95 %. `p` is of the sign-flip test, `adjusted` by Holm over all comparisons. `only_first` and
    `only_second` are items that the other has not. `smallest` is the smallest true difference that
    would have been shown with a chance of 80 %. With replicates `seeds` counts the runs of each,
    and `seed_p` is the exact test over the seeds alone, where they are few.
    """

    measure: str
    first: str
    second: str
    interval: Interval
    together: Interval
    items: int
    p: float
    adjusted: float
    smallest: float
    only_first: int = 0
    only_second: int = 0
    seeds: tuple[int, int] = (1, 1)
    seed_p: float = math.nan
    one_seed: bool = False
    higher_is_better: bool = True
    share: bool = False

    @property
    def differs(self) -> bool:
        """True where the corrected test and the joint interval both say so, and no single seed is
        the reason.
        """
        apart = self.together.low > 0 or self.together.high < 0
        return apart and self.adjusted <= ALPHA and not self.one_seed

    @property
    def word(self) -> str:
        """The verdict in words."""
        if not self.items:
            return "no item in common"
        if self.differs:
            first_leads = (self.interval.mean > 0) == self.higher_is_better
            leader = self.first if first_leads else self.second
            return f"{leader} is ahead"
        if self.one_seed:
            return "not shown: it hangs on one seed"
        return "not shown"

    def facts(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {
            "measure": self.measure,
            "first": self.first,
            "second": self.second,
            "difference": self.interval.mean,
            "low": self.interval.low,
            "high": self.interval.high,
            "items": self.items,
            "p": self.p,
            "adjusted": self.adjusted,
            "together_low": self.together.low,
            "together_high": self.together.high,
            "smallest": self.smallest,
            "seed_p": self.seed_p,
        }
        numbers = {
            name: value if isinstance(value, str | int) else finite_or_none(value)
            for name, value in plain.items()
        }
        return {
            **numbers,
            "only_first": self.only_first,
            "only_second": self.only_second,
            "seeds": list(self.seeds),
            "differs": self.differs,
            "verdict": self.word,
        }


@dataclass(frozen=True)
class WinRates:
    """Win rates of each against each on a measure: the table of pay-offs, and what follows from it.

    `rates` are each arm's win rate over each other one, with intervals that hold together.
    `mixture` is the equilibrium of those who all met, `gaps` the most that anybody gains against
    each arm, and by whom; `circles` are triples in which each beats the next, the clearest first.
    """

    measure: str
    table: PayoffTable
    rates: Mapping[tuple[str, str], Interval]
    mixture: Mapping[str, float]
    gaps: Mapping[str, tuple[Interval, str]]
    cycle_share: float
    cyclic_triples: float
    circles: tuple[tuple[tuple[str, str, str], float], ...]

    def facts(self) -> dict[str, Any]:
        """Plain JSON values."""
        rates = []
        for (first, second), rate in self.rates.items():
            bounds = {"low": finite_or_none(rate.low), "high": finite_or_none(rate.high)}
            rates.append(
                {
                    "first": first,
                    "second": second,
                    "win_rate": finite_or_none(rate.mean),
                    **bounds,
                    "prompts": rate.n,
                }
            )
        gaps = {}
        for arm, (gap, by) in self.gaps.items():
            gaps[arm] = {
                "exploitability": finite_or_none(gap.mean),
                "low": finite_or_none(gap.low),
                "high": finite_or_none(gap.high),
                "by": by,
            }
        return {
            "measure": self.measure,
            "rates": rates,
            "nash": dict(self.mixture),
            "exploitability": gaps,
            "cycle_share": finite_or_none(self.cycle_share),
            "cyclic_triples": finite_or_none(self.cyclic_triples),
            "circles": [[*circle, gain] for circle, gain in self.circles],
        }


@dataclass(frozen=True)
class ComparisonNumbers:
    """Arms, their standings by measure, the differences of all pairs, and who beats whom."""

    arms: tuple[Arm, ...]
    measures: tuple[str, ...]
    standings: Mapping[str, tuple[Standing, ...]]
    differences: tuple[Difference, ...]
    win_rates: tuple[WinRates, ...]
    level: float
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The arms' names, in their order."""
        return [arm.name for arm in self.arms]

    def facts(self) -> dict[str, Any]:
        """Plain JSON values."""
        standings = {}
        for measure, rows in self.standings.items():
            standings[measure] = [
                {
                    "target": row.arm,
                    "score": finite_or_none(row.score.mean),
                    "low": finite_or_none(row.score.low),
                    "high": finite_or_none(row.score.high),
                    "prompts": row.prompts,
                    "missing": row.missing,
                    "places": [row.first, row.last],
                }
                for row in rows
            ]
        return {
            "targets": self.names,
            "comparisons": len(self.differences),
            "level_of_each": self.level,
            "differences": [difference.facts() for difference in self.differences],
            "standings": standings,
            "win_rates": [table.facts() for table in self.win_rates],
            "usage": {arm.name: arm.usage_facts() for arm in self.arms},
            "notes": list(self.notes),
        }


def compare(arms: Sequence[Arm], measures: Sequence[str] | None = None) -> ComparisonNumbers:
    """Everything that can be said of the arms, corrected for all pairs and measures at once.

    `measures`: those that are compared, None: all that two arms or more have.
    """
    listed = list(dict.fromkeys(name for arm in arms for s in arm.sheets for name in s.measures))
    judges = list(dict.fromkeys(name for arm in arms for s in arm.sheets for name in s.meetings))
    shared = []
    for name in listed if measures is None else measures:
        if sum(bool(arm.measured(name)) for arm in arms) > 1:
            shared.append(name)
    pairs = []
    for name in shared:
        having = [arm for arm in arms if arm.measured(name)]
        for first, second in combinations(having, 2):
            pairs.append(Paired.of(name, first, second))
    met_by = {judge: _met(arms, judge) for judge in judges}
    for judge, met in met_by.items():
        pairs += [Paired.met(judge, *names, values) for names, values in met.items()]
    level = _level(pairs)
    adjusted = holm([pair.p for pair in pairs])
    differences = [
        pair.difference(level, float(p)) for pair, p in zip(pairs, adjusted, strict=True)
    ]
    standings = {}
    for name in [*shared, *map(meeting_title, judges)]:
        of_measure = [each for each in differences if each.measure == name]
        standings[name] = _standings(arms, name, of_measure)
    tables = [_win_rates(name, _score_table(arms, name)) for name in shared]
    for judge in judges:
        table = _meeting_table(arms, judge)
        if table.count_NN.any():
            tables.append(_win_rates(meeting_title(judge), table))
    notes = [
        *_first_step_notes(arms),
        *_notes(arms, listed, shared),
        *_settings_notes(arms, shared),
        *_parts_notes(arms),
    ]
    return ComparisonNumbers(
        tuple(arms),
        tuple(standings),
        standings,
        tuple(differences),
        tuple(tables),
        level,
        tuple(notes),
    )


@dataclass(frozen=True)
class Paired:
    """Two arms' differences by item on a measure, before they are corrected for the others."""

    measure: str
    first: str
    second: str
    by_item: Mapping[str, float]
    share: bool
    p: float
    only_first: int = 0
    only_second: int = 0
    spread: SpreadMean | None = None  # with replicates
    seeds: tuple[int, int] = (1, 1)
    seed_p: float = math.nan
    one_seed: bool = False
    higher_is_better: bool = True

    @classmethod
    def of(cls, measure: str, first: Arm, second: Arm) -> Paired:
        """Two arms that both have the measure."""
        higher = all(each.higher_is_better for each in first.measured(measure))
        own = first.by_seed(measure)
        other = second.by_seed(measure)
        own_items = set().union(*own.values())
        other_items = set().union(*other.values())
        only = (len(own_items - other_items), len(other_items - own_items))
        values = [value for side in (own, other) for s in side.values() for value in s.values()]
        share = all(0 <= value <= 1 for value in values)
        seeds = (len(own), len(other))
        if seeds == (1, 1):
            (own_scores,) = own.values()
            (other_scores,) = other.values()
            by_item = {
                item: value - other_scores[item]
                for item, value in own_scores.items()
                if item in other_scores
            }
            p = sign_flip(list(by_item.values()))
            return cls(
                measure, first.name, second.name, by_item, share, p, *only, higher_is_better=higher
            )
        spread = between_recipes(own, other)
        if spread is None:
            return cls(measure, first.name, second.name, {}, share, math.nan, *only, seeds=seeds)
        own_mean = means_over_seeds(own)
        other_mean = means_over_seeds(other)
        by_item = {
            item: value - other_mean[item] for item, value in own_mean.items() if item in other_mean
        }
        seed_p, one_seed = _over_seeds(own, other, by_item)
        return cls(
            measure,
            first.name,
            second.name,
            by_item,
            share,
            spread.p,
            *only,
            spread,
            seeds,
            seed_p,
            one_seed,
            higher,
        )

    @classmethod
    def met(cls, judge: str, first: str, second: str, values: Mapping[str, float]) -> Paired:
        """Two arms whose answers a judge set side by side: prompt -> what the first got."""
        p = sign_flip(list(values.values()))
        return cls(meeting_title(judge), first, second, values, True, p)

    def difference(self, level: float, adjusted: float) -> Difference:
        """The difference with its own interval, and the one that holds with all others."""
        values = list(self.by_item.values())
        if not values:
            unknown = Interval(math.nan, math.nan, math.nan, 0)
            own, together, freedom = unknown, unknown, 0
        elif self.spread is not None:
            own = self.spread.interval()
            together = self.spread.interval(level)
            freedom = self.spread.freedom
        else:
            own = paired_difference(values, share=self.share)
            together = paired_difference(values, level=level, share=self.share)
            freedom = len(values) - 1
        smallest = smallest_shown(together, freedom, level)
        if self.share:
            own, together = within_shares(own), within_shares(together)
        return Difference(
            self.measure,
            self.first,
            self.second,
            own,
            together,
            len(values),
            self.p,
            adjusted,
            smallest,
            self.only_first,
            self.only_second,
            self.seeds,
            self.seed_p,
            self.one_seed,
            self.higher_is_better,
            self.share,
        )


def within_shares(interval: Interval) -> Interval:
    """The interval of a difference of two shares, which lies in [−1, 1]."""
    return Interval(interval.mean, max(interval.low, -1.0), min(interval.high, 1.0), interval.n)


def _over_seeds(
    own: Mapping[str, Mapping[str, float]],
    other: Mapping[str, Mapping[str, float]],
    items: Mapping[str, float],
) -> tuple[float, bool]:
    """(the exact test over seeds, NaN with more than a few; True where the sign hangs on one)."""
    sides = []
    for side in (own, other):
        means = {}
        for seed, scores in side.items():
            inside = [scores[item] for item in items if item in scores]
            if inside:
                means[seed] = fmean(inside)
        sides.append(means)
    first, second = sides
    few = max(len(first), len(second)) <= FEW_SEEDS
    if first.keys() == second.keys():
        apart = [value - second[seed] for seed, value in first.items()]
        p = sign_flip(apart) if few else math.nan
        without = [fmean(apart[:i] + apart[i + 1 :]) for i in range(len(apart)) if len(apart) > 2]
        return p, _turns(without, fmean(apart))
    own_values = list(first.values())
    other_values = list(second.values())
    p = relabelled(own_values, other_values) if few else math.nan
    mean = fmean(own_values) - fmean(other_values)
    without = []
    for i in range(len(own_values) if len(own_values) > 2 else 0):
        without.append(fmean(own_values[:i] + own_values[i + 1 :]) - fmean(other_values))
    for i in range(len(other_values) if len(other_values) > 2 else 0):
        without.append(fmean(own_values) - fmean(other_values[:i] + other_values[i + 1 :]))
    return p, _turns(without, mean)


def _turns(without: Sequence[float], mean: float) -> bool:
    """True if leaving out one seed turns the sign of the difference."""
    return any(value * mean <= 0 for value in without) and mean != 0


def _level(pairs: Sequence[Paired]) -> float:
    """The level of each interval at which all hold together at 95 %."""
    known = [pair for pair in pairs if pair.by_item]
    if any(pair.spread is not None for pair in known):
        return level_together(len(known))
    items = list(dict.fromkeys(item for pair in known for item in pair.by_item))
    place = {item: i for i, item in enumerate(items)}
    value_PK = np.full((len(items), len(known)), np.nan)
    for k, pair in enumerate(known):
        for item, value in pair.by_item.items():
            value_PK[place[item], k] = value
    return joint_level(value_PK)


def _standings(
    arms: Sequence[Arm], measure: str, differences: Sequence[Difference]
) -> tuple[Standing, ...]:
    """Each arm's score, best first, with the places that the joint intervals leave to it."""
    known = {each.first for each in differences} | {each.second for each in differences}
    having = [arm for arm in arms if arm.measured(measure) or arm.name in known]
    place = {arm.name: i for i, arm in enumerate(having)}
    low_NN = np.full((len(having), len(having)), np.nan)
    high_NN = np.full_like(low_NN, np.nan)
    turned = any(not each.higher_is_better for arm in having for each in arm.measured(measure))
    for each in differences:
        if not each.differs:
            continue
        i, j = place[each.first], place[each.second]
        low, high = each.together.low, each.together.high
        if turned:
            low, high = -high, -low
        low_NN[i, j], high_NN[i, j] = low, high
        low_NN[j, i], high_NN[j, i] = -high, -low
    ranges = rank_ranges(low_NN, high_NN)
    rows = []
    for arm, (first, last) in zip(having, ranges, strict=True):
        scores = arm.pooled(measure)
        values = [value for of_item in scores.values() for value in of_item]
        items = [item for item, of_item in scores.items() for _ in of_item]
        score = mean_interval(values, items)
        missing = sum(each.missing for each in arm.measured(measure))
        prompts = sum(bool(of_item) for of_item in scores.values())
        rows.append(Standing(arm.name, score, prompts, missing, first, last))
    sign = 1 if turned else -1
    unknown = math.inf
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                row.first + row.last,
                unknown if math.isnan(row.score.mean) else sign * row.score.mean,
            ),
        )
    )


# -- win rates


def _score_table(arms: Sequence[Arm], measure: str) -> PayoffTable:
    """Every arm's answers against every other's on the same item, by their scores."""
    scores: dict[str, dict[str, list[float | None]]] = {}
    for arm in arms:
        measured = arm.measured(measure)
        if not measured:
            continue
        sign = 1.0 if all(each.higher_is_better for each in measured) else -1.0
        scores[arm.name] = {
            item: [sign * value for value in values] for item, values in arm.pooled(measure).items()
        }
    return cross_play(scores)


def meeting_title(judge: str) -> str:
    """The measure's name where a judge set answers side by side."""
    return f"wins less losses by {judge}"


def _meetings(arms: Sequence[Arm], judge: str) -> list[Meeting]:
    """The matches between arms that the judge saw, by the arms' names."""
    name_of = {sheet.key: arm.name for arm in arms for sheet in arm.sheets}
    meetings = []
    for arm in arms:
        for sheet in arm.sheets:
            for meeting in sheet.meetings.get(judge, ()):
                second = name_of.get(meeting.second)
                if second not in (None, arm.name):
                    meetings.append(meeting._replace(first=arm.name, second=second))
    return meetings


def _met(arms: Sequence[Arm], judge: str) -> dict[tuple[str, str], dict[str, float]]:
    """(first, second) -> prompt -> the mean of what the first got when they met on it."""
    order = {arm.name: i for i, arm in enumerate(arms)}
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for meeting in _meetings(arms, judge):
        if meeting.value is None:
            continue
        pair = (meeting.first, meeting.second)
        value = meeting.value
        if order[pair[0]] > order[pair[1]]:
            pair = (meeting.second, meeting.first)
            value = -value
        values.setdefault(pair, {}).setdefault(meeting.cluster, []).append(value)
    return {
        pair: {prompt: fmean(of_prompt) for prompt, of_prompt in by_prompt.items()}
        for pair, by_prompt in values.items()
    }


def _meeting_table(arms: Sequence[Arm], judge: str) -> PayoffTable:
    met = _meetings(arms, judge)
    known = {meeting.first for meeting in met} | {meeting.second for meeting in met}
    return tally(met, [arm.name for arm in arms if arm.name in known])


def _win_rates(measure: str, table: PayoffTable) -> WinRates:
    players = table.players
    rates: dict[tuple[str, str], Interval] = {}
    for (i, j), rate in win_rates(table.payoff_NN, table.se_NN, table.clusters_NN).items():
        rates[players[i], players[j]] = rate
    inside = met_by_all(table)
    payoff_NN = table.payoff_NN[np.ix_(inside, inside)]
    several = len(inside) > 1
    mixture_N = max_entropy_nash(payoff_NN) if several else np.ones(len(inside))
    names = [players[i] for i in inside]
    gaps = {}
    for i, name in enumerate(players):
        gap, best = largest_gap(table, i)
        gaps[name] = (gap, "" if best is None else players[best])
    clearest = []
    for (i, j, k), least in circles(payoff_NN)[:MOST_CIRCLES]:
        clearest.append(((names[i], names[j], names[k]), least))
    return WinRates(
        measure,
        table,
        rates,
        dict(zip(names, map(float, mixture_N), strict=True)),
        gaps,
        float(cycle_share(payoff_NN)) if several else math.nan,
        float(cyclic_triples(payoff_NN)) if len(inside) > 2 else math.nan,
        tuple(clearest),
    )


# -- what a reader is told


def _notes(arms: Sequence[Arm], listed: Sequence[str], shared: Sequence[str]) -> list[str]:
    """Sentences on what is left out of the comparison, and each sheet's own."""
    notes = []
    for name in listed:
        having = [arm.name for arm in arms if arm.measured(name)]
        if name not in shared and len(having) == 1:
            notes.append(f"{name}: only {having[0]} has it, so it is not compared")
        elif name in shared and len(having) < len(arms):
            lacking = ", ".join(arm.name for arm in arms if arm.name not in having)
            notes.append(f"{name}: {lacking} has no score on it")
        for arm in arms:
            without = len(arm.sheets) - len(arm.measured(name))
            if name in shared and 0 < without < len(arm.sheets):
                notes.append(
                    f"{name}: {without} of {len(arm.sheets)} runs of {arm.name} has no score on it"
                )
    for arm in arms:
        for sheet in arm.sheets:
            notes += [f"{arm.name}: {note}" for note in sheet.notes]
    return notes


def _first_step_notes(arms: Sequence[Arm]) -> list[str]:
    """Sentences on arms of several methods whose first generation is the same algorithm."""
    alike: dict[str, dict[str, str]] = {}
    for arm in arms:
        for sheet in arm.sheets:
            if sheet.first_step:
                alike.setdefault(sheet.first_step, {})[arm.name] = sheet.method
    notes = []
    for step, methods in alike.items():
        if len(set(methods.values())) > 1:
            listed = ", ".join(f"{arm} ({method})" for arm, method in methods.items())
            notes.append(
                f"the first generation of {listed} is the same algorithm, {step}: with the same "
                "seed and data they part from the second on"
            )
    return notes


def _parts_notes(arms: Sequence[Arm]) -> list[str]:
    """Sentences on parts of the user's own whose file was edited between one run and another."""
    files: dict[str, set[str]] = {}
    for arm in arms:
        for sheet in arm.sheets:
            for part, code in sheet.parts.items():
                files.setdefault(part, set()).add(code)
    return [
        f"your part {part} was edited between these runs; what it made or judged in one of them is "
        "not of one kind with the other's"
        for part, codes in files.items()
        if len(codes) > 1
    ]


def _settings_notes(arms: Sequence[Arm], shared: Sequence[str]) -> list[str]:
    """Sentences on measures that were not taken in the same way everywhere."""
    notes = []
    for name in shared:
        known: dict[str, set[str]] = {}
        for arm in arms:
            for measured in arm.measured(name):
                for setting, value in measured.settings.items():
                    known.setdefault(setting, set()).add(str(value))
        unlike = [setting for setting, values in known.items() if len(values) > 1]
        if unlike:
            notes.append(
                f"{name}: was not measured alike everywhere ({', '.join(sorted(unlike))} differ)"
            )
    return notes
