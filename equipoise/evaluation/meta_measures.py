"""Measures of the game of choosing a player, and the sections on its growth."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from equipoise.blocks.league_sections import equilibrium_section, payoff_map
from equipoise.blocks.section import Figure, Headline, Section, Table, number
from equipoise.evaluation.measures import (
    History,
    Measurement,
    Measures,
    Quantity,
    Records,
    curves,
    no_default,
)
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import Interval
from equipoise.solvers.exploitability import own_axis_first, replies

ANYBODY = "anybody"
"""The role of everyone in a league whose members take any seat."""
SHARE = 0.005
"""A member's share of the mixture from which on it is named."""


EXPLOITABILITY = Quantity(
    title="exploitability",
    read=lambda measures: _round(measures.exploitability),
    higher_is_better=False,
    label="exploitability of the mixture",
    note="gain of best replies against the mixture, in pay-off units",
    has_change=False,
)


def _value_of(role: str, members: int) -> Quantity:
    """A role's pay-off when all play their mixtures."""
    whose = "" if role == ANYBODY else f" for {role}"
    return Quantity(
        title=f"value of the league's game{whose}",
        read=lambda measures: _round(measures.values[role]),
        note=f"of {members} members",
        has_change=False,
        has_curve=False,
    )


def _round(value: float | None) -> float | None:
    """A pay-off without the last digits of a linear program."""
    return None if value is None else round(value, 9) + 0.0


class MetaGameMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """The pay-offs of the members of each role's league, oldest first, and the solved mixture over
    them.

    `payoffs`, `half_widths` (of their 95 % intervals) and `judged` (matches) are tensors with an
    axis for each role in the order of `members`, or [own, other] of one league of `anybody`; the
    last two are empty where pay-offs are exact. `values` are what each role gets when all play
    their mixtures, `gains` what the best member would get more (0 at an equilibrium of the table).
    `policies`: role -> the probabilities of moves that its mixture comes to. `exploitability`: what
    best replies of any kind gain in the game itself against the mixture, None where it is not known
    exactly; of one league one side's, else the sum over the roles.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (EXPLOITABILITY,)

    players: list[str] = no_default()
    members: dict[str, list[str]]
    payoffs: dict[str, list[Any]]
    half_widths: dict[str, list[Any]]
    judged: dict[str, list[Any]]
    values: dict[str, float]
    gains: dict[str, float]
    policies: dict[str, list[float]]
    exploitability: float | None = no_default()

    @property
    def mixtures(self) -> dict[str, dict[str, float]]:
        """role -> its mixture."""
        return self.role_mixtures or {ANYBODY: self.mixture}

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """role -> its pay-offs."""
        return {role: np.array(rows, float) for role, rows in self.payoffs.items()}

    def gets(self, player: str, other: str) -> Estimate | None:
        role, place = self._place(player)
        opposite, other_place = self._place(other)
        if role is None or opposite is None or len(self.members) > 2:
            return None
        if role == opposite != ANYBODY:
            return None  # they play the same role, and never meet
        first = role == next(iter(self.members))
        cell = (place, other_place) if first else (other_place, place)
        mean = float(self.tensors[role][cell])
        if not self.half_widths:
            return Estimate(mean, mean, mean, 0)
        judged = int(np.array(self.judged[role])[cell])
        half = float(np.array(self.half_widths[role], float)[cell])
        return Estimate.of(Interval(mean, mean - half, mean + half, judged))

    def _place(self, player: str) -> tuple[str | None, int]:
        """The role that the player has in the table, and its place in the league."""
        for role, names in self.members.items():
            if player in names:
                return role, names.index(player)
        return None, 0

    def numbers(self) -> dict[str, int | float]:
        return super().numbers() | {f"value_{role}": value for role, value in self.values.items()}

    @classmethod
    def rows(cls, history: History[Self]) -> list[Quantity]:
        members = history.last.measures.members if history.last else {}
        return [*(_value_of(role, len(league)) for role, league in members.items()), EXPLOITABILITY]

    @classmethod
    def headlines(cls, history: History[Self]) -> Iterator[Headline]:
        yield from super().headlines(history)
        newest = responses(history.measurements)[-1] if history.last else {}
        for member, gain in newest.items():
            label = f"{member} against the mixture before it"
            yield Headline(label, _gain(gain), "what this best response gained over it")

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        if history.last is None:
            yield Section("growth", "The growing league", reason="nothing was measured")
            return
        last = history.last.measures
        yield Section(
            "growth",
            "The growing league",
            (_growth(history.measurements),),
            "Each row is a measurement: who joined, how many cells of the pay-off table "
            "are new, what the newcomer gained over the mixture that it answered, and "
            "the mixture and value of the table with it.",
        )
        yield _payoffs(last)
        mixture = {
            name: weight for weights in last.mixtures.values() for name, weight in weights.items()
        }
        yield equilibrium_section([curves(history, EXPLOITABILITY)], mixture)


def responses(measurements: Sequence[Measurement[MetaGameMeasures]]) -> list[dict[str, float]]:
    """For each measurement, new member -> what it gets more than the mixture before it against the
    others' mixtures of that time; nobody is new in the first.
    """
    gains: list[dict[str, float]] = [{}] if measurements else []
    for before, now in pairwise(measurements):
        gains.append(_gained(before.measures, now.measures))
    return gains


def _gained(before: MetaGameMeasures, now: MetaGameMeasures) -> dict[str, float]:
    tensors = list(now.tensors.values())
    mixtures = [
        np.array([before.mixtures[role].get(name, 0.0) for name in members])
        for role, members in now.members.items()
    ]
    if ANYBODY in now.members:
        tensors, mixtures = [tensors[0], tensors[0].T], mixtures * 2
    rewards = replies(own_axis_first(tensors), mixtures)
    gains = {}
    for (role, members), reward in zip(now.members.items(), rewards, strict=False):
        for name, value in zip(members, reward, strict=True):
            if name not in before.members[role]:
                gains[name] = float(value) - before.values[role]
    return gains


def _cells(measures: MetaGameMeasures) -> int:
    return next(iter(measures.tensors.values())).size


def _growth(measurements: Sequence[Measurement[MetaGameMeasures]]) -> Table:
    rows = []
    known = 0
    gains = responses(measurements)
    for measurement, gained in zip(measurements, gains, strict=True):
        measures = measurement.measures
        cells = _cells(measures)
        value = ", ".join(_of_role(r, number(_round(v))) for r, v in measures.values.items())
        mixture = "; ".join(
            _of_role(role, _name_members(weights)) for role, weights in measures.mixtures.items()
        )
        joined = ", ".join(f"{name} {_gain(gain)}" for name, gain in gained.items())
        exploited = number(_round(measures.exploitability))
        rows.append(
            (
                str(measurement.generation),
                joined or "–",
                f"{cells:,}",
                f"{cells - known:,}",
                value,
                exploited,
                mixture,
            )
        )
        known = cells
    columns = (
        "generation",
        "joined, and gained",
        "cells",
        "new",
        "value",
        "exploitability",
        "mixture",
    )
    return Table(columns, tuple(rows), prose=True)


def _gain(value: float) -> str:
    return f"{_round(value):+.4g}".replace("-", "−")


def _of_role(role: str, text: str) -> str:
    return text if role == ANYBODY else f"{role}: {text}"


def _name_members(weights: Mapping[str, float]) -> str:
    """The members that the mixture holds, the largest first."""
    ordered = sorted(weights.items(), key=lambda item: -item[1])
    shown = [f"{name} {number(w, '%')}" for name, w in ordered if w >= SHARE]
    return ", ".join(shown)


def _payoffs(measures: MetaGameMeasures) -> Section:
    """A heat map for each role of at most two."""
    title = "Who gets what against whom"
    if len(measures.members) > 2:
        reason = "a table of more than two roles has no picture"
        return Section("payoffs", title, reason=reason)
    figures = tuple(_heat_map(measures, role, tensor) for role, tensor in measures.tensors.items())
    lead = (
        "Each cell is the mean pay-off of a role's member with another member in the "
        "other seat, ± half of its 95 % interval where it was played."
    )
    return Section("payoffs", title, figures, lead)


def _heat_map(measures: MetaGameMeasures, role: str, payoff_NM: np.ndarray) -> Figure:
    rows, *others = measures.members.values()
    halves = np.array(measures.half_widths.get(role, 0.0), float)
    half_NM = np.where(halves > 0, halves, np.nan) * np.ones_like(payoff_NM)
    whose = "the row's player" if role == ANYBODY else f"the {role}"
    names = (rows, others[0] if others else rows)
    return payoff_map(f"Pay-off of {whose}", names, payoff_NM, half_NM)
