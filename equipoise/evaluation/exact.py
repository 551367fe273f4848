"""Exact measures on a finite game: how exploitable the last policy and the average policy of each
learner are.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal, Self

import msgspec
import numpy as np
from pydantic import Field

from equipoise.blocks.league_sections import equilibrium_section
from equipoise.blocks.section import Section
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, Evaluation
from equipoise.evaluation.measures import History, Measures, Quantity, Records, curves, no_default
from equipoise.games.base import Bimatrix, Game
from equipoise.solvers.exploitability import exploitability, nash_conv, regularised_gain
from equipoise.solvers.zero_sum import is_constant_sum, nash
from equipoise.system.effects import Text
from equipoise.types import PlayerId

AVERAGE_GAP = Quantity(
    title="exploitability of the average policy",
    read="gap",
    higher_is_better=False,
    label="exploitability of {name}'s average policy",
    digits=4,
    has_change=False,
    has_curve=False,
)
GAP = replace(
    AVERAGE_GAP,
    title="gap of each learner",
    note="gain of a best reply against each learner's average policy, in pay-off units",
)
LAST_GAP = Quantity(
    title="exploitability of the last iterate",
    read="last_gap",
    higher_is_better=False,
    label="exploitability of {player} alone",
    note="the last iterate",
    digits=4,
    has_change=False,
    has_curve=False,
)
EXPLOITABILITY = Quantity(
    title="exploitability",
    read="exploitability",
    higher_is_better=False,
    note="gain of a best reply against the average policy, in pay-off units",
    digits=4,
    has_headline=False,
    has_change=False,
)
DEVIATION = Quantity(
    title="best deviation",
    read="deviation_gains",
    higher_is_better=False,
    note="what the best of all policies would gain over the last iterate against the mixture that "
    "it faces, less evaluate.tau × its KL to the start (arXiv 2509.23102, eq 9), in pay-off units",
    digits=4,
    has_headline=False,
    has_change=False,
)
DUALITY_GAP = replace(
    EXPLOITABILITY,
    label="exploitability of the average policies",
    note="what both best replies gain together",
    has_headline=True,
)


class ExactMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Exact measures of tabular players: player -> probabilities of the moves, and how exploitable
    they are.

    `policies` are the last iterates, `averages` the means over all measured generations; `gap` and
    `exploitability` are of the averages, `last_gap` and `last_exploitability` of the last iterates,
    in pay-off units.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (AVERAGE_GAP, LAST_GAP, EXPLOITABILITY)

    policies: dict[str, list[float]]
    averages: dict[str, list[float]]
    gap: dict[str, float]
    last_gap: dict[str, float]
    exploitability: float = no_default()
    last_exploitability: float

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterator[Section]:
        rows = [row for row in cls.quantities if row.has_curve]
        several = [GAP] if len(history.learners) > 1 else []
        yield equilibrium_section([curves(history, row) for row in [*rows, *several]])


class FiniteMeasures(ExactMeasures, frozen=True, kw_only=True, omit_defaults=True):
    """Exact measures of players that can play both seats; `actions` are their moves.

    `deviation_gains` is eq 9's gap of each last iterate.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (*ExactMeasures.quantities, DEVIATION)

    actions: list[str]
    deviation_gains: dict[str, float] = msgspec.field(default_factory=dict)


class Finite(Evaluation):
    """For tabular players: the gain of a best reply against the last iterate and against the
    uniform average of all.

    The average of a learner's policies is its mixed strategy over generations; it, not the last
    iterate, is what no-regret dynamics promise to converge. Beside them stands the gap of MNPO's eq
    9: what a learner's best policy would gain with its opponents held fixed, by J(π) = π·(pay-off
    against them) − τ·KL(π ‖ start). Where the pay-off is P(win) − P(loss) = 2P − 1, this and τ are
    twice the paper's.
    """

    kind: Literal["finite"] = "finite"
    measures: ClassVar[type[Measures]] = FiniteMeasures
    tau: float = Field(
        0.0,
        ge=0,
        description="the price of KL from the start, in units of pay-off per nat: twice eq 9's τ "
        "where the pay-off is P(win) − P(loss)",
    )

    def reads(self, game: Game) -> tuple[str, ...]:
        return ()

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
        deviations: dict[str, float] = {}
        for player in arena.learners(t):
            policies = [arena.probabilities(old, actions) for old in arena.past(player)]
            lasts[str(player)] = policies[0]
            averages[str(player)] = np.mean(policies, axis=0)
            faced_A = self._faced(arena, player, t)
            deviations[str(player)] = regularised_gain(
                payoff_AA @ faced_A, policies[0], policies[-1], self.tau
            )
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
            deviation_gains=deviations,
        )

    def _faced(self, arena: Arena, player: PlayerId, t: int) -> np.ndarray:
        """The mixture of moves that a learner's loss sets against it; its own where none does."""
        opponents = arena.opponent_weights(player, t) or {player: 1.0}
        actions = arena.game.actions
        policies = [
            weight * arena.probabilities(other, actions) for other, weight in opponents.items()
        ]
        return np.sum(policies, axis=0)


class TwoSeatMeasures(ExactMeasures, frozen=True, kw_only=True, omit_defaults=True):
    """Exact measures of two players in the two seats of a game with a `value`; what both lose to
    best replies adds up to the exploitability.

    `actions` are each seat's moves.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (AVERAGE_GAP, LAST_GAP, DUALITY_GAP)

    actions: dict[str, list[str]]
    value: float


class TwoSeats(Evaluation):
    """For two tabular players, one in each seat of a zero-sum game: the duality gap of the averages
    and of the last.

    The average of a player's policies is its mixed strategy over generations; it, not the last
    iterate, is what no-regret dynamics promise to converge.
    """

    kind: Literal["bimatrix"] = "bimatrix"
    measures: ClassVar[type[Measures]] = TwoSeatMeasures
    seats: dict[Text, Text] = Field(
        default_factory=dict,
        description="seat of the game -> the player that sits there; empty: as schedule.roles says",
    )

    def reads(self, game: Game) -> tuple[str, ...]:
        return ()

    def measure(self, arena: Arena, t: int) -> TwoSeatMeasures:
        """`exploitability` (the averages' duality gap at generation t) and `last_exploitability`,
        in pay-off units.

        max_a (payoff·column)_a − min_m (rowᵀ·payoff)_m, the sum of what both best replies gain.
        `gap` and `last_gap` are the two players' shares of it: what a best reply keeps from each of
        the game's `value` for its seat. Raises ConfigError for players or a game of which this
        cannot be said.
        """
        game = _zero_sum(arena.game)
        value = nash(game.first_AM)[2]
        players = self._seated(arena, t)
        lasts, averages = [], []
        for player, actions in zip(players, game.actions, strict=True):
            policies = [arena.probabilities(old, actions) for old in arena.past(player)]
            lasts.append(policies[0])
            averages.append(np.mean(policies, axis=0))
        names = [str(player) for player in players]
        return TwoSeatMeasures(
            actions={
                seat: list(moves)
                for seat, moves in zip(arena.game.seats, game.actions, strict=True)
            },
            value=value,
            policies=_by_name(names, lasts),
            averages=_by_name(names, averages),
            gap=_shares(game.first_AM, averages, names, value),
            last_gap=_shares(game.first_AM, lasts, names, value),
            exploitability=nash_conv(game.first_AM, *averages),
            last_exploitability=nash_conv(game.first_AM, *lasts),
        )

    def _seated(self, arena: Arena, t: int) -> list[PlayerId]:
        """The players in the game's order of seats."""
        seats = arena.game.seats
        if not self.seats:
            roles = arena.players_by_role(t)
            return [roles[arena.game.role(seat)] for seat in seats]
        if set(self.seats) != set(seats):
            raise ConfigError(
                f"evaluate.seats: needs a player for each of the game's seats, {', '.join(seats)}"
            )
        players = {player.name: player for player in [*arena.learners(t), *arena.others()]}
        for seat, name in self.seats.items():
            if name not in players:
                raise ConfigError(
                    f"evaluate.seats.{seat}: there is no player '{name}'; "
                    f"known: {', '.join(players)}"
                )
        return [players[self.seats[seat]] for seat in seats]


def _zero_sum(game: Game) -> Bimatrix:
    """The game's pay-offs. Raises ConfigError unless it is finite and constant-sum."""
    payoffs = game.bimatrix()
    if payoffs is None:
        raise ConfigError(
            f"evaluate: 'bimatrix' needs a finite game of two seats; '{game.kind}' is not one"
        )
    if not is_constant_sum(payoffs.first_AM, payoffs.second_AM):
        raise ConfigError(
            "evaluate: 'bimatrix' needs a constant-sum game, both seats' pay-offs "
            "adding up to the same everywhere: only there does the duality gap say "
            "how far the players are from equilibrium"
        )
    return payoffs


def _by_name(names: list[str], policies: list[np.ndarray]) -> dict[str, list[float]]:
    return {name: policy_A.tolist() for name, policy_A in zip(names, policies, strict=True)}


def _shares(
    payoff_AM: np.ndarray, pair: list[np.ndarray], names: list[str], value: float
) -> dict[str, float]:
    """Each player's loss to a best reply, below the game's value for its seat; ≥ 0."""
    row_A, column_M = pair
    losses = (value - float((row_A @ payoff_AM).min()), float((payoff_AM @ column_M).max()) - value)
    return {name: max(0.0, loss) for name, loss in zip(names, losses, strict=True)}
