"""What is measured exactly in a small game of many turns, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import msgspec
import numpy as np

from equipoise.evaluation.measures import History, Measures, Records, recorded
from equipoise.report.figures import lines_figure
from equipoise.report.league_sections import equilibrium_section, payoffs_section
from equipoise.report.section import Curve, Headline, Section, Table, number

MOST_STATES = 60  # beyond which a policy is not shown


class NashConvMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """How exploitable each newest learner is when it sits in every seat, in the game's units and
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

    players: list[str] = recorded()
    payoff: list[list[float]] = recorded()
    mixture: dict[str, float] = recorded()
    nash_conv: dict[str, float]
    average: dict[str, float]
    mixture_nash_conv: float | None = None
    uniform: float
    illegal: dict[str, float]
    worst_illegal: dict[str, float]
    exploitability: float = recorded()
    average_exploitability: float
    states: list[str] = msgspec.field(default_factory=list)
    moves: list[list[str]] = msgspec.field(default_factory=list)
    policies: dict[str, list[float]] = msgspec.field(default_factory=dict)

    @classmethod
    def headlines(cls, history: History[Self]) -> Iterator[Headline]:
        """NashConv of the last policy, of the average and of the league's mixture."""
        if history.ends is None:
            return
        first, last = history.ends
        now = last.measures
        for name in history.learners:
            player, start = str(last.player(name)), str(first.player(name))
            if player not in now.nash_conv:
                continue
            before = first.measures.nash_conv.get(start)
            note = f"uniform play: {now.uniform:.4f}"
            if before is not None:
                note = f"{before:.4f} at the start; {note}"
            yield Headline(f"NashConv of {player}", f"{now.nash_conv[player]:.4f}", note)
            yield Headline(
                f"NashConv of the average of {name}'s generations",
                f"{now.average[player]:.4f}",
                "one of them drawn before each game",
            )
            yield Headline(
                f"mass on illegal moves of {player}",
                f"{100 * now.illegal[player]:.2f} %",
                f"at worst {100 * now.worst_illegal[player]:.1f} % at an information state",
            )
        if now.mixture_nash_conv is not None:
            yield Headline(
                "NashConv of the league's mixture",
                f"{now.mixture_nash_conv:.4f}",
                "the equilibrium over all generations",
            )

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        """NashConv and illegal mass over the generations, the newest policies, the league's
        pay-offs and mixture.
        """
        if history.last is None:
            reason = "no generation has been measured yet"
            yield Section("nash_conv", "Exploitability", reason=reason)
            return
        last = history.last.measures
        figures = (
            lines_figure(
                "NashConv",
                _nash_conv_curves(history),
                note="what best replies in all seats gain together, in the game's "
                "units; 0 at equilibrium",
            ),
            lines_figure(
                "mass on answers that are no legal move",
                [_curve(history, name, name, "illegal") for name in history.learners],
                unit="%",
                note="mean over the information states",
            ),
        )
        lead = (
            "Computed from the probabilities of all legal moves at every information "
            "state: there is no sampling error."
        )
        yield Section("nash_conv", "Exploitability", (*figures, *_policies(last)), lead)
        yield payoffs_section(last.players, _array(last.payoff))
        yield equilibrium_section(mixture=last.mixture)


def _array(rows: Sequence[Sequence[float]]) -> np.ndarray:
    return np.array(rows, float).reshape(len(rows), len(rows))


def _nash_conv_curves(history: History[NashConvMeasures]) -> list[Curve]:
    curves = []
    for name in history.learners:
        curves.append(_curve(history, name, f"{name}, last", "nash_conv"))
        curves.append(_curve(history, name, f"{name}, average", "average"))
    mixtures = [(m.generation, m.measures.mixture_nash_conv) for m in history.measurements]
    points = [(float(t), value) for t, value in mixtures if value is not None]
    if points:
        x, y = zip(*points, strict=True)
        curves.append(Curve("mixture", "", x, y))
    x = tuple(float(m.generation) for m in history.measurements)
    curves.append(Curve("uniform", "", x, tuple(m.measures.uniform for m in history.measurements)))
    return curves


def _curve(history: History[NashConvMeasures], name: str, title: str, field: str) -> Curve:
    points = [
        (float(m.generation), getattr(m.measures, field).get(str(m.player(name))))
        for m in history.measurements
    ]
    x, y = zip(*[(t, value) for t, value in points if value is not None], strict=True)
    return Curve(title, "", x, y)


def _policies(measures: NashConvMeasures) -> Iterator[Table]:
    """A table of each newest policy."""
    for player, policy in measures.policies.items():
        rows, place = [], 0
        for state, moves in zip(measures.states, measures.moves, strict=True):
            chances = policy[place : place + len(moves)]
            place += len(moves)
            chosen = [
                f"{move} {number(chance, '%')}" for move, chance in zip(moves, chances, strict=True)
            ]
            rows.append((state, ", ".join(chosen)))
        yield Table(("information state", "moves"), tuple(rows), f"Policy of {player}", True)
