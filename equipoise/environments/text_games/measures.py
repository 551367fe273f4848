"""Exact measures of a small game of many turns, and their sections of the report."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Self

import msgspec
import numpy as np

from equipoise.blocks.figures import lines_figure
from equipoise.blocks.league_sections import equilibrium_section, payoffs_section
from equipoise.blocks.section import Section, Table, number
from equipoise.evaluation.measures import History, Measures, Quantity, Records, curves, no_default

MOST_STATES = 60  # beyond which a policy is not shown


NASH_CONV = Quantity(
    title="NashConv", read="nash_conv", higher_is_better=False, digits=4, short="{name}, last"
)
AVERAGE = Quantity(
    title="NashConv of the average",
    read="average",
    higher_is_better=False,
    label="NashConv of the average of {name}'s generations",
    note="one of them drawn before each game",
    digits=4,
    short="{name}, average",
)
ILLEGAL = Quantity(title="mass on illegal moves", read="illegal", unit="%", higher_is_better=False)
MIXTURE = Quantity(
    title="NashConv of the league's mixture",
    read="mixture_nash_conv",
    higher_is_better=False,
    note="the equilibrium over all generations",
    digits=4,
    short="mixture",
)
UNIFORM = Quantity(title="NashConv of uniform play", read="uniform", digits=4, short="uniform")


class NashConvMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Exploitability of each newest learner when it sits in every seat, in the game's units and
    without sampling error.

    `nash_conv` is that of the newest generation, `average` that of all measured generations, each
    as likely to be drawn before the game begins. `mixture_nash_conv` is that of the league's
    equilibrium `mixture` over the generations of all learners, None where there is none; `uniform`
    that of the policy that plays any legal move. `payoff` is what row gets against column, the mean
    of both seatings, in shares of the most that the game pays. `illegal` is the mean, over the
    information states, of the mass on answers that are no legal move, `worst_illegal` the largest.
    `exploitability` is the largest `nash_conv`; `average_exploitability` likewise.

    `states` are the information states (empty where there are many) with their `moves`, `policies`
    the newest policies there, state by state.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (NASH_CONV, AVERAGE, ILLEGAL, MIXTURE)

    players: list[str] = no_default()
    payoff: list[list[float]] = no_default()
    mixture: dict[str, float] = no_default()
    nash_conv: dict[str, float]
    average: dict[str, float]
    mixture_nash_conv: float | None = None
    uniform: float
    illegal: dict[str, float]
    worst_illegal: dict[str, float]
    exploitability: float = no_default()
    average_exploitability: float
    states: list[str] = msgspec.field(default_factory=list)
    moves: list[list[str]] = msgspec.field(default_factory=list)
    policies: dict[str, list[float]] = msgspec.field(default_factory=dict)

    @classmethod
    def rows(cls, history: History[Self]) -> list[Quantity]:
        if history.last is None:
            return []
        last = history.last.measures
        worst = max(last.worst_illegal.values(), default=0.0)
        return [
            replace(NASH_CONV, note=f"uniform play: {last.uniform:.4f}"),
            AVERAGE,
            replace(ILLEGAL, note=f"at worst {100 * worst:.1f} % at an information state"),
            MIXTURE,
        ]

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        if history.last is None:
            reason = "no generation has been measured yet"
            yield Section("nash_conv", "Exploitability", reason=reason)
            return
        last = history.last.measures
        groups = (
            curves(
                history,
                *(NASH_CONV, AVERAGE, MIXTURE, UNIFORM),
                title="NashConv",
                note="what best replies in all seats gain together, in the game's units; 0 at "
                "equilibrium",
            ),
            curves(
                history,
                ILLEGAL,
                title="mass on answers that are no legal move",
                note="mean over the information states",
            ),
        )
        figures = [
            lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
            for group in groups
        ]
        lead = (
            "Computed from the probabilities of all legal moves at every information "
            "state: there is no sampling error."
        )
        yield Section("nash_conv", "Exploitability", (*figures, *_policies(last)), lead)
        yield payoffs_section(last.players, _array(last.payoff))
        yield equilibrium_section(mixture=last.mixture)


def _array(rows: Sequence[Sequence[float]]) -> np.ndarray:
    return np.array(rows, float).reshape(len(rows), len(rows))


def _policies(measures: NashConvMeasures) -> Iterator[Table]:
    """A table of each newest policy."""
    for player, policy in measures.policies.items():
        rows = []
        place = 0
        for state, moves in zip(measures.states, measures.moves, strict=True):
            chances = policy[place : place + len(moves)]
            place += len(moves)
            chosen = [
                f"{move} {number(chance, '%')}" for move, chance in zip(moves, chances, strict=True)
            ]
            rows.append((state, ", ".join(chosen)))
        yield Table(("information state", "moves"), tuple(rows), f"Policy of {player}", True)
