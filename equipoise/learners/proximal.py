"""GPO's idealised algorithm as a learner: a tabular player's exact KL-proximal step.

A policy gradient with a KL penalty approximates it for language models. Here a run shows what the
method does where nothing is sampled and nothing is approximated.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.matches.base import Schedule
from equipoise.players.base import Player
from equipoise.players.tabular import Tabular, log_softmax, write_policy
from equipoise.solvers.dynamics import proximal_step
from equipoise.solvers.gpo import PromptWeights, step_sizes
from equipoise.system.effects import Text


class Proximal(Learner):
    """One generation: π_{t+1} = argmax_π ⟨π, own pay-offs against the other's policy⟩ + τ·H(π) −
    β·KL(π‖π_t).

    β = c·√rounds for either seat. Both players step at once where everyone learns in every
    generation, and in turn, each against the other's newest policy, where they take turns. Source:
    GPO, arXiv 2406.10977; see `solvers.gpo`.

    Where the first seat sees the second's move (`game.row_sees`) and its moves are plans, KL(π‖π_t)
    is the sum over prompts of the KLs of its answers: this is `solvers.gpo.contextual` then.
    """

    kind: Literal["proximal"] = "proximal"
    needs: ClassVar = "game"
    by_loss: ClassVar[bool] = False
    seats: dict[Text, Text] = Field(
        default_factory=dict,
        description="seat of the game -> the player that sits there; empty: as schedule.roles says",
    )
    rounds: int = Field(
        ge=1,
        description="how often each player will learn; β is chosen for it, so give the run's own",
    )
    c: float | None = Field(
        None,
        gt=0,
        description="β/√rounds, in units of pay-off; null is span/√(8·ln moves), "
        "which makes the bound least",
    )
    entropy: bool = Field(
        False,
        description="add an entropy bonus of weight τ = span/√(2·rounds·ln moves), "
        "which keeps the rate",
    )

    weights: PromptWeights = Field(
        "uniform",
        description="where the first seat sees the second's move: weights of the prompts in its "
        "KL, all alike, or `played`, by the other's policy",
    )

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        if not isinstance(player, Tabular):
            yield f"'proximal' trains tabular players, not '{player.kind}'"
        rules = game.bimatrix()
        if rules is None:
            yield f"'proximal' needs a finite game of two seats; '{game.kind}' is none"
        elif self.weights == "played" and not rules.first_sees:
            yield "weights: played is of games in which the first seat sees the second's move"

    def faults_of_opponents(
        self, learner: str, players: Mapping[str, Player], schedule: Schedule, game: Game
    ) -> Iterator[str]:
        others = [name for name in players if name != learner]
        try:
            _, other = self._seat_and_opponent(learner, others, schedule.player_of_role, game)
        except ConfigError as error:
            yield str(error).removeprefix("learner.")
            return
        if not isinstance(players[other], Tabular):
            kind = players[other].kind
            yield f"'proximal' meets tabular players, not '{kind}' (players.{other})"

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next policy; returns `value`, and in nats `entropy` and `kl` (from the
        previous).

        `value` is the previous policy's pay-off against the other's. Raises ConfigError for seats,
        players or a game that do not fit.
        """
        first, other = self._seat_and_opponent(
            batch.learner.name, batch.other_players, batch.player_of_role, batch.game
        )
        game = batch.game.bimatrix()
        if game is None:
            raise ConfigError(
                f"learner: 'proximal' needs a finite game of two seats; '{batch.game.kind}' is none"
            )
        own_AM = game.first_AM if first else game.second_AM.T
        step = step_sizes(game.first_AM, self.rounds, game.second_AM, entropy=self.entropy)
        chosen = step.beta if first else step.eta
        beta = chosen if self.c is None else self.c * float(np.sqrt(self.rounds))
        opposite = batch.other_players[other]
        before_A = _logprobs(batch.learner.name, batch.player, batch.weights, own_AM.shape[0])
        other_M = _logprobs(other, opposite.player, opposite.weights, own_AM.shape[1])
        value_A = reward_A = own_AM @ np.exp(other_M)
        if first and self.weights == "played":
            # E_μ[reward − β·KL] has its maximum for each prompt alone, whatever μ is.
            reward_A, moves = own_AM.sum(1), own_AM.shape[1]
            if self.c is None:
                beta *= float(np.sqrt(moves))
        after_A = log_softmax(proximal_step(before_A, reward_A, 1 / beta, step.entropy))
        write_policy(batch.output, after_A - after_A.mean())
        facts = {
            "value": float(np.exp(before_A) @ value_A),
            "entropy": float(-(np.exp(after_A) * after_A).sum()),
            "kl": max(0.0, float((np.exp(after_A) * (after_A - before_A)).sum())),
        }
        batch.log({"steps": 1, **facts})
        return facts

    def _seat_and_opponent(
        self, name: str, others: Collection[str], player_of_role: Mapping[str, str], game: Game
    ) -> tuple[bool, str]:
        """(True if the learner sits in the game's first seat, the player opposite)."""
        seats = game.seats
        player_of_seat = self.seats or player_of_role
        if len(seats) != 2 or set(player_of_seat) != set(seats):
            raise ConfigError(
                "learner.seats: needs a player for each of the game's two seats, "
                f"{', '.join(seats)}"
            )
        names = [player_of_seat[seat] for seat in seats]
        if name not in names or names[0] == names[1]:
            raise ConfigError(
                f"learner.seats: {names[0]} and {names[1]} are seated; needs "
                f"'{name}', which learns, and another"
            )
        other = names[1 - names.index(name)]
        if other not in others:
            known = ", ".join(others) or "nobody"
            raise ConfigError(
                f"learner.seats: there is no player '{other}' for '{name}' to meet; "
                f"there is {known}"
            )
        return name == names[0], other


def _logprobs(name: str, player: Player, weights: Path | None, size: int) -> np.ndarray:
    if not isinstance(player, Tabular):
        raise ConfigError(
            f"players.{name}: learner 'proximal' trains tabular players against each other"
        )
    logits_A = player.logits_A(weights, size)
    if not np.isfinite(logits_A).all():
        raise ConfigError(
            f"players.{name}: a proximal step cannot start from probabilities of 0; "
            "give each a little"
        )
    return log_softmax(logits_A)
