"""Exact measures on a game whose two seats differ: how far each side's policies are
from equilibrium.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.evaluate.base import Arena, Evaluation
from equipoise.games.base import Bimatrix, Game
from equipoise.solvers.exploitability import nash_conv
from equipoise.solvers.zero_sum import nash
from equipoise.types import PlayerId


class TwoSeats(Evaluation):
    """For two tabular players, one in each seat of a zero-sum game: the duality gap of
    the averages and of the last.

    The average of a player's policies is its mixed strategy over generations; it, not
    the last iterate, is what no-regret dynamics promise to converge.
    """

    kind: Literal["bimatrix"] = "bimatrix"
    seats: dict[str, str] = Field(
        default={"row": "defender", "column": "adversary"},
        description="seat of the game -> the player that sits there",
    )

    def measure(self, arena: Arena, t: int) -> dict[str, Any]:
        """`exploitability` (the averages' duality gap at generation t) and
        `last_exploitability`, in pay-off units.

        max_a (payoff·column)_a − min_m (rowᵀ·payoff)_m, the sum of what both best
        replies gain. `gap` and `last_gap` are the two players' shares of it: what a
        best reply keeps from each of the game's `value` for its seat. Raises
        ConfigError for players or a game of which this cannot be said.
        """
        game = _zero_sum(arena.game)
        value = nash(game.first_AM)[2]
        players = self._seated(arena, t)
        lasts, averages = [], []
        for player, actions in zip(players, game.actions, strict=True):
            policies = [arena.probabilities(old, actions) for old in arena.past(player)]
            lasts.append(policies[0])
            averages.append(np.mean(policies, axis=0))
        return {
            "actions": {
                seat: list(moves)
                for seat, moves in zip(arena.game.seats, game.actions, strict=True)
            },
            "value": value,
            "policies": {
                str(player): last_A.tolist()
                for player, last_A in zip(players, lasts, strict=True)
            },
            "averages": {
                str(player): mean_A.tolist()
                for player, mean_A in zip(players, averages, strict=True)
            },
            "gap": _shares(game.first_AM, averages, players, value),
            "last_gap": _shares(game.first_AM, lasts, players, value),
            "exploitability": nash_conv(game.first_AM, *averages),
            "last_exploitability": nash_conv(game.first_AM, *lasts),
        }

    def _seated(self, arena: Arena, t: int) -> list[PlayerId]:
        """The players in the game's order of seats."""
        seats = arena.game.seats
        if set(self.seats) != set(seats):
            raise ConfigError(
                f"evaluate.seats: needs a player for each of the game's seats, {', '.join(seats)}"
            )
        here = {player.name: player for player in [*arena.learners(t), *arena.others()]}
        for seat, name in self.seats.items():
            if name not in here:
                raise ConfigError(
                    f"evaluate.seats.{seat}: there is no player '{name}'; known: {', '.join(here)}"
                )
        return [here[self.seats[seat]] for seat in seats]


def _zero_sum(game: Game) -> Bimatrix:
    found = game.bimatrix()
    if found is None:
        raise ConfigError(
            f"evaluate: 'bimatrix' needs a finite game of two seats; '{game.kind}' is none"
        )
    total_AM = found.first_AM + found.second_AM
    if np.ptp(total_AM) > 1e-9 * max(1.0, float(np.abs(found.first_AM).max())):
        raise ConfigError(
            "evaluate: 'bimatrix' needs a constant-sum game, both seats' pay-offs adding up to the same everywhere: "
            "only there does the duality gap say how far the players are from equilibrium"
        )
    return found


def _shares(
    payoff_AM: np.ndarray, pair: list[np.ndarray], players: list[PlayerId], value: float
) -> dict[str, float]:
    """How much less than the game's value for its seat each player keeps against a best
    reply; ≥ 0.
    """
    row_A, column_M = pair
    lost = (
        value - float((row_A @ payoff_AM).min()),
        float((payoff_AM @ column_M).max()) - value,
    )
    return {
        str(player): max(0.0, share)
        for player, share in zip(players, lost, strict=True)
    }
