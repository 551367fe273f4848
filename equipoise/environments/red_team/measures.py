"""Measures of adversary and defender, and their sections of the report."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Self

import msgspec

from equipoise.blocks.learning_sections import learning_section
from equipoise.blocks.section import Change, Curves, Section
from equipoise.environments.red_team import report_sections
from equipoise.environments.red_team.cross_play_table import CrossPlay, CrossPlayTable, MetaGame
from equipoise.environments.red_team.game import ADVERSARY
from equipoise.evaluation.measures import (
    SCORE,
    History,
    Measures,
    Quantity,
    Records,
    curves,
    no_default,
)
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import Interval


class RawAndRewritten(msgspec.Struct, frozen=True, omit_defaults=True):
    """A measure on the prompts as they are, and on what the adversary makes of them."""

    raw: Estimate
    adversary: Estimate | None = None


class AttackDiversity(msgspec.Struct, frozen=True):
    """Diversity of the held-out attacks, as `payoffs.diversity` defines it.

    `distinct` is the share of different texts.
    """

    self_bleu: float | None = None
    bleu_diversity: float | None = None
    cosine: float | None = None
    cosine_diversity: float | None = None
    distinct: float | None = None


def _judged(estimate: Estimate | None) -> Interval | None:
    """The interval of an estimate; None where nothing was judged."""
    return estimate.interval if estimate is not None and estimate.n else None


SUCCESS = (
    Quantity(
        title="attack success, raw prompts",
        read="attack_success.raw",
        unit="%",
        higher_is_better=False,
        short="prompts as they are",
    ),
    Quantity(
        title="attack success, adversary",
        read="attack_success.adversary",
        unit="%",
        higher_is_better=False,
        short="the adversary",
    ),
    Quantity(
        title="worst attack success (exploitability)",
        read="worst",
        unit="%",
        higher_is_better=False,
        short="worst in cross-play",
    ),
)
OVER_REFUSAL = Quantity(
    title="over-refusal",
    read="over_refusal",
    unit="%",
    higher_is_better=False,
    short="over-refusal",
)
HELPFULNESS = Quantity(title="helpfulness", read="helpfulness", unit="%", short="helpfulness")
DIVERSITY = Quantity(
    title="attack diversity (1 − self-BLEU)", read="attack_diversity", short="diversity"
)
ON_TOPIC = Quantity(title="attacks on topic", read="adversary_on_topic", unit="%", short="on topic")
REFUSALS = Quantity(
    title="attacks that refuse",
    read="adversary_refused",
    unit="%",
    higher_is_better=False,
    short="refusals",
)


class RedTeamMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Attack and defence on held-out prompts at one generation.

    `attack_success`: the share of answers of which harm is more likely than not. `over_refusal`,
    `helpfulness`: of answers to harmless prompts. `adversary_…`: shares of the attacks that refuse,
    and that are on topic, and their similarity to their seeds. `transfer`: attack success with
    players that nobody trained against. `exploitability`: the largest success that any measured
    adversary has with the newest defender. `score`: the defender's mean pay-off.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (
        *SUCCESS,
        *(OVER_REFUSAL, HELPFULNESS, DIVERSITY, ON_TOPIC, REFUSALS),
        SCORE,
    )

    players: list[str] = no_default()
    scores: dict[str, Estimate] = no_default()
    score: float | None = no_default()
    exploitability: float | None = no_default()
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
        if self.players == [player, other]:
            return self.attack_success.adversary
        table = self.crossplay
        if table is None or player not in table.adversaries or other not in table.defenders:
            return None
        a = table.adversaries.index(player)
        d = table.defenders.index(other)
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
    def rows(cls, history: History[Self]) -> list[Quantity]:
        """The quantities; where the adversary alone learns, its success is better high."""
        if history.learners != (history.roles.get(ADVERSARY),):
            return list(cls.quantities)
        return [
            replace(row, higher_is_better=True) if row in SUCCESS else row for row in cls.quantities
        ]

    @classmethod
    def changes(cls, history: History[Self]) -> Iterator[Change]:
        """Every quantity at the start and now.

        A learner's score is left out where it equals a measure: a zero-sum adversary is paid its
        success.
        """
        shown = set()
        for change in super().changes(history):
            values = (change.before, change.after)
            if values not in shown or not change.name.startswith(SCORE.title):
                yield change
            shown.add(values)

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        yield learning_section([curves(history, SCORE)])
        yield report_sections.performance(measured_curves(history))
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
        refused = on_topic = None
        if history.last is not None:
            newest = history.last.measures
            refused = _judged(newest.adversary_refused)
            on_topic = _judged(newest.adversary_on_topic)
        diversities = [m.measures.attack_diversity for m in history.measurements]
        yield from report_sections.collapse_warnings(records.stages, refused, on_topic, diversities)


def measured_curves(history: History[RedTeamMeasures]) -> list[Curves]:
    """Everything measured on held-out prompts, a few lines a figure."""
    others = (name for m in history.measurements for name in m.measures.transfer)
    transfer = [transfer_to(name) for name in dict.fromkeys(others)]
    success = curves(
        history,
        *SUCCESS,
        *transfer,
        title="Attack success",
        note="share of held-out harmful prompts that got a harmful answer; lower is safer",
    )
    harmless = curves(
        history,
        OVER_REFUSAL,
        HELPFULNESS,
        title="Harmless prompts",
        note="over-refusal is better low, helpfulness high",
    )
    attacks = curves(
        history,
        *(ON_TOPIC, REFUSALS, DIVERSITY),
        title="What the adversary writes",
        note="diversity is 1 − self-BLEU of the attacks on held-out prompts",
    )
    return [group for group in (success, harmless, attacks) if group.curves]


def transfer_to(name: str) -> Quantity:
    return Quantity(
        title=f"attack success on {name}",
        read=lambda measures: measures.transfer.get(name),
        unit="%",
        higher_is_better=False,
        short=f"on {name}",
    )
