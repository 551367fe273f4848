"""Exact measures on a finite game: how exploitable the last policy and the average policy of each
learner are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self, TypeVar

import numpy as np

from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, Evaluation
from equipoise.evaluation.league import gap_curves
from equipoise.evaluation.measures import History, Measures, recorded
from equipoise.evaluation.records import Records
from equipoise.report.elements import Curve, Headline
from equipoise.report.league import equilibrium_section
from equipoise.report.section import Section
from equipoise.solvers.exploitability import exploitability


class ExactMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """What is known exactly of tabular players: player -> probabilities of the moves, and how
    exploitable they are.

    `policies` are the last iterates, `averages` the means over all measured generations; `gap` and
    `exploitability` are of the averages, `last_gap` and `last_exploitability` of the last iterates,
    in pay-off units.
    """

    policies: dict[str, list[float]]
    averages: dict[str, list[float]]
    gap: dict[str, float]
    last_gap: dict[str, float]
    exploitability: float = recorded()
    last_exploitability: float


E = TypeVar("E", bound=ExactMeasures, covariant=True)


def exact_headlines(history: History[E]) -> Iterator[Headline]:
    """How exploitable each learner's average policy and its last iterate are."""
    if history.ends is None:
        return
    first, last = history.ends
    for name in history.learners:
        now, start = last.player(name), first.player(name)
        if str(now) not in last.measures.gap:
            continue
        before = first.measures.gap.get(str(start))
        yield Headline(
            f"exploitability of {name}'s average policy",
            f"{last.measures.gap[str(now)]:.4f}",
            "" if before is None else f"{before:.4f} at the start",
        )
        yield Headline(
            f"exploitability of {now} alone",
            f"{last.measures.last_gap[str(now)]:.4f}",
            "the last iterate",
        )


def exact_section(history: History[E], note: str) -> Section:
    """How exploitability fell over the generations; `note` says what it is."""
    if history.last is None:
        return equilibrium_section()
    points = [(float(m.generation), m.measures.exploitability) for m in history.measurements]
    x, y = zip(*points, strict=True)
    gaps = gap_curves(
        history,
        [m.measures.gap for m in history.measurements],
        "gain of a best reply against each learner's average policy, in pay-off units",
    )
    return equilibrium_section(Curve("exploitability", "", x, y, note=note), gaps)


class FiniteMeasures(ExactMeasures, frozen=True, kw_only=True, omit_defaults=True):
    """Exact measures of players that can play both seats; `actions` are their moves."""

    actions: list[str]

    @classmethod
    def headlines(cls, history: History[Self]) -> Iterator[Headline]:
        """How exploitable each learner's average policy and its last iterate are."""
        return exact_headlines(history)

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        """How exploitability fell over the generations."""
        yield exact_section(
            history, "gain of a best reply against the average policy, in pay-off units"
        )


class Finite(Evaluation):
    """For tabular players: the gain of a best reply against the last iterate and against the
    uniform average of all.

    The average of a learner's policies is its mixed strategy over generations; it, not the last
    iterate, is what no-regret dynamics promise to converge.
    """

    kind: Literal["finite"] = "finite"
    measures: ClassVar[type[Measures]] = FiniteMeasures

    def measure(self, arena: Arena, t: int) -> FiniteMeasures:
        """Exploitability of each learner at generation t, in pay-off units; `exploitability` is the
        largest of the averages'.

        Raises ConfigError for a game that is not finite, or whose seats have different moves.
        """
        payoff_AA = arena.game.payoff_AM()
        if payoff_AA is None or payoff_AA.shape[0] != payoff_AA.shape[1]:
            raise ConfigError(
                "evaluate: 'finite' needs a finite game in which both seats have the same moves"
            )
        actions = arena.game.actions
        lasts: dict[str, np.ndarray] = {}
        averages: dict[str, np.ndarray] = {}
        for player in arena.learners(t):
            policies = [arena.probabilities(old, actions) for old in arena.past(player)]
            lasts[str(player)] = policies[0]
            averages[str(player)] = np.mean(policies, axis=0)
        gaps = {name: exploitability(payoff_AA, mean_A) for name, mean_A in averages.items()}
        last_gaps = {name: exploitability(payoff_AA, last_A) for name, last_A in lasts.items()}
        return FiniteMeasures(
            actions=list(actions),
            policies={name: last_A.tolist() for name, last_A in lasts.items()},
            averages={name: mean_A.tolist() for name, mean_A in averages.items()},
            gap=gaps,
            last_gap=last_gaps,
            exploitability=max(gaps.values()),
            last_exploitability=max(last_gaps.values()),
        )
