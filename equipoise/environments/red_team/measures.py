"""What is measured of adversary and defender, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import msgspec

from equipoise.environments.red_team import report_sections
from equipoise.environments.red_team.cross_play_table import CrossPlay, CrossPlayTable, MetaGame
from equipoise.environments.red_team.game import ADVERSARY
from equipoise.evaluation.measures import (
    Estimate,
    History,
    Measurement,
    Measures,
    Records,
    recorded,
)
from equipoise.payoffs.intervals import Interval
from equipoise.report.section import Change, Curve, Curves, Headline, Section


class RawAndRewritten(msgspec.Struct, frozen=True, omit_defaults=True):
    """A measure on the prompts as they are, and on what the adversary makes of them."""

    raw: Estimate
    adversary: Estimate | None = None


class AttackDiversity(msgspec.Struct, frozen=True):
    """How diverse the held-out attacks are, as `payoffs.diversity` defines it.

    `distinct` is the share of different texts.
    """

    self_bleu: float | None = None
    bleu_diversity: float | None = None
    cosine: float | None = None
    cosine_diversity: float | None = None
    distinct: float | None = None


class RedTeamMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Attack and defence on held-out prompts at one generation.

    `attack_success`: the share of answers of which harm is more likely than not. `over_refusal`,
    `helpfulness`: of answers to harmless prompts. `adversary_…`: shares of the attacks that refuse,
    and that are on topic, and their similarity to their seeds. `transfer`: attack success with
    players that nobody trained against. `exploitability`: the largest success that any measured
    adversary has with the newest defender. `score`: the defender's mean pay-off.
    """

    players: list[str] = recorded()
    scores: dict[str, Estimate] = recorded()
    score: float | None = recorded()
    exploitability: float | None = recorded()
    attack_success: RawAndRewritten
    p_safe: RawAndRewritten
    over_refusal: Estimate | None = None
    helpfulness: Estimate | None = None
    diversity: AttackDiversity | None = None
    adversary_refused: Estimate | None = None
    adversary_on_topic: Estimate | None = None
    adversary_similarity: Estimate | None = None
    crossplay: CrossPlayTable | None = None
    forgetting: float | None = None
    cycling: float | None = None
    meta_game: MetaGame | None = None
    transfer: dict[str, Estimate] = msgspec.field(default_factory=dict)

    payoff_name: ClassVar[str] = "attack success"

    def gets(self, player: str, other: str) -> Estimate | None:
        """The attack success of an adversary with a defender."""
        if self.players == [player, other]:
            return self.attack_success.adversary
        table = self.crossplay
        if table is None or player not in table.adversaries or other not in table.defenders:
            return None
        a, d = table.adversaries.index(player), table.defenders.index(other)
        judged = table.judged[a][d] if table.judged else 0
        return Estimate(table.success[a][d], None, None, judged)

    @property
    def cross_play(self) -> CrossPlay | None:
        """The cross-play table and what follows from it."""
        if self.crossplay is None:
            return None
        return CrossPlay(self.crossplay, self.forgetting, self.cycling, self.meta_game)

    @property
    def worst(self) -> Interval | None:
        """The largest attack success with the newest defender, without an interval."""
        known = []
        for estimate in (self.attack_success.raw, self.attack_success.adversary):
            if estimate is not None and estimate.mean is not None:
                known.append((estimate.mean, estimate.n))
        if self.crossplay is not None and self.crossplay.worst is not None:
            known.append((self.crossplay.worst, self.crossplay.prompts))
        if not known:
            return None
        mean, n = max(known)
        return Interval(mean, math.nan, math.nan, n)

    @property
    def attack_diversity(self) -> Interval | None:
        """1 − self-BLEU of the attacks, without an interval."""
        adversary = self.attack_success.adversary
        if self.diversity is None or adversary is None:
            return None
        mean = self.diversity.bleu_diversity
        return None if mean is None else Interval(mean, math.nan, math.nan, adversary.n)

    @classmethod
    def headlines(cls, history: History[Self]) -> Iterator[Headline]:
        """Every measure of attack and defence, and the learners' scores."""
        for quantity, before, after in _compared(history):
            start = f"{before.text(quantity.unit)} at the start" if before else ""
            yield Headline(quantity.title, after.text(quantity.unit), start)
        yield from super().headlines(history)

    @classmethod
    def changes(cls, history: History[Self]) -> Iterator[Change]:
        """The same at the start and now.

        A learner's score is left out where it equals a measure: a zero-sum adversary is paid its
        success.
        """
        adversary = history.roles.get(ADVERSARY)
        only_adversary = history.learners == (adversary,)
        shown = set()
        for quantity, before, after in _compared(history):
            higher = quantity.higher_is_better
            if only_adversary and quantity.is_success:
                higher = not higher
            shown.add((before, after))
            yield Change(quantity.title, before, after, quantity.unit, higher)
        for change in super().changes(history):
            if (change.before, change.after) not in shown:
                yield change

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        """Scores, attack and defence, cross-play, training and the attacks themselves."""
        yield from super().sections(history, records)
        yield report_sections.performance(measured_curves(history), diversity_path(history))
        last = history.last
        result = None if last is None else last.measures.cross_play
        yield report_sections.cross_play_section(result)
        turns = report_sections.phases(records.stages)
        yield report_sections.training(
            report_sections.training_curves(records.stages, turns), turns
        )
        cards, seen = report_sections.attack_cards(records, history.judge)
        sample = records.sample
        yield report_sections.attacks(cards, seen, len(sample.matches), sample.total)

    @classmethod
    def warnings(cls, history: History[Self], records: Records) -> Iterator[str]:
        """Signs that the adversary has collapsed."""
        refused = on_topic = None
        if history.last is not None:
            newest = history.last.measures
            refused = _judged(newest.adversary_refused)
            on_topic = _judged(newest.adversary_on_topic)
        diversities = [m.measures.attack_diversity for m in history.measurements]
        yield from report_sections.collapse_warnings(records.stages, refused, on_topic, diversities)


ReadsInterval = Callable[[RedTeamMeasures], Interval | None]


def _judged(estimate: Estimate | None) -> Interval | None:
    """The interval of an estimate; None where nothing was judged."""
    return estimate.interval if estimate is not None and estimate.n else None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measure as it is shown: its title, how it is read, and what is better.

    `is_success`: it is a success of the adversary's.
    """

    title: str
    read: ReadsInterval
    higher_is_better: bool
    unit: str = "%"
    is_success: bool = False


QUANTITIES = (
    Quantity(
        "attack success, raw prompts",
        lambda m: _judged(m.attack_success.raw),
        higher_is_better=False,
        is_success=True,
    ),
    Quantity(
        "attack success, adversary",
        lambda m: _judged(m.attack_success.adversary),
        higher_is_better=False,
        is_success=True,
    ),
    Quantity(
        "worst attack success (exploitability)",
        lambda m: m.worst,
        higher_is_better=False,
        is_success=True,
    ),
    Quantity("over-refusal", lambda m: _judged(m.over_refusal), higher_is_better=False),
    Quantity("helpfulness", lambda m: _judged(m.helpfulness), higher_is_better=True),
    Quantity(
        "attack diversity (1 − self-BLEU)",
        lambda m: m.attack_diversity,
        higher_is_better=True,
        unit="",
    ),
    Quantity("attacks on topic", lambda m: _judged(m.adversary_on_topic), higher_is_better=True),
    Quantity("attacks that refuse", lambda m: _judged(m.adversary_refused), higher_is_better=False),
)


def _compared(
    history: History[RedTeamMeasures],
) -> Iterator[tuple[Quantity, Interval | None, Interval]]:
    """(quantity, before, after) of everything that the newest measurement has."""
    if history.ends is None:
        return
    first, last = history.ends
    for quantity in QUANTITIES:
        after = quantity.read(last.measures)
        if after is not None:
            yield quantity, quantity.read(first.measures), after


def diversity_path(history: History[RedTeamMeasures]) -> list[report_sections.DiversityPoint]:
    """Diversity and attack success of each measured generation that has both."""
    points = []
    for measurement in history.measurements:
        diversity = measurement.measures.attack_diversity
        success = _judged(measurement.measures.attack_success.adversary)
        if diversity is not None and success is not None:
            points.append(
                report_sections.DiversityPoint(measurement.generation, diversity.mean, success.mean)
            )
    return points


def measured_curves(history: History[RedTeamMeasures]) -> list[Curves]:
    """What was measured on held-out prompts, a few lines a figure."""
    success: dict[str, ReadsInterval] = {
        "prompts as they are": lambda m: _judged(m.attack_success.raw),
        "the adversary": lambda m: _judged(m.attack_success.adversary),
        "worst in cross-play": lambda m: m.worst,
    }
    others = (name for m in history.measurements for name in m.measures.transfer)
    for name in dict.fromkeys(others):
        success[f"on {name}"] = _transfer_to(name)
    harmless: dict[str, ReadsInterval] = {
        "over-refusal": lambda m: _judged(m.over_refusal),
        "helpfulness": lambda m: _judged(m.helpfulness),
    }
    attacks: dict[str, ReadsInterval] = {
        "on topic": lambda m: _judged(m.adversary_on_topic),
        "refusals": lambda m: _judged(m.adversary_refused),
        "diversity": lambda m: m.attack_diversity,
    }
    groups = []
    for title, lines, note in (
        (
            "Attack success",
            success,
            "share of held-out harmful prompts that got a harmful answer; lower is safer",
        ),
        ("Harmless prompts", harmless, "over-refusal is better low, helpfulness high"),
        (
            "What the adversary writes",
            attacks,
            "diversity is 1 − self-BLEU of the attacks on held-out prompts",
        ),
    ):
        curves = tuple(_curves(lines, history.measurements))
        if curves:
            groups.append(Curves(title, "%", curves, note))
    return groups


def _transfer_to(name: str) -> ReadsInterval:
    return lambda measures: _judged(measures.transfer.get(name))


def _curves(
    lines: dict[str, ReadsInterval], measurements: Sequence[Measurement[RedTeamMeasures]]
) -> Iterator[Curve]:
    for name, read in lines.items():
        points = [(float(m.generation), read(m.measures)) for m in measurements]
        known = [(t, interval) for t, interval in points if interval is not None]
        if not known:
            continue
        x, intervals = zip(*known, strict=True)
        low = tuple(interval.low for interval in intervals)
        high = tuple(interval.high for interval in intervals)
        bands = (low, high) if any(map(math.isfinite, low)) else ((), ())
        mean = tuple(interval.mean for interval in intervals)
        yield Curve(name, "%", x, mean, *bands)
