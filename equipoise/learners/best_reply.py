"""The exact best response of a finite game to the mixture that the schedule seats opposite."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.learners.base import Learner, OtherPlayer, TrainingBatch
from equipoise.matches.base import MatchContext, Schedule
from equipoise.players.base import Player
from equipoise.players.tabular import Tabular, log_softmax, write_policy
from equipoise.types import PlayerId

NEVER = -1000.0
"""Nats of a move that is never made: a double rounds its probability to 0."""

NO_MIXTURE = "'best_reply' answers the mixture of a finite game's league; set schedule: psro"
ONE_LEAGUE = (
    "'best_reply' of one league needs seats with the same moves; give each role a "
    "player (schedule.roles)"
)


class BestReply(Learner):
    """One generation: the pure best reply to the schedule's mixture, the first of equal ones.

    For tabular players of a game of two seats. Without roles the game is the symmetrised one, in
    which a player takes either seat half of the time. Needs a schedule with a mixture, such as
    psro. Source: the oracle of Lanctot et al. 2017, arXiv 1711.00832; with an exact solver the
    double oracle of McMahan, Gordon and Blum 2003, ICML.
    """

    kind: Literal["best_reply"] = "best_reply"
    needs: ClassVar = "game"
    by_loss: ClassVar[bool] = False

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        if not isinstance(player, Tabular):
            yield f"'best_reply' trains tabular players, not '{player.kind}'"
        if game.bimatrix() is None:
            yield f"'best_reply' needs a finite game of two seats; '{game.kind}' is none"

    def faults_of_opponents(
        self, learner: str, players: Mapping[str, Player], schedule: Schedule, game: Game
    ) -> Iterator[str]:
        everyone = [PlayerId(name) for name in players]
        if not schedule.opponents(PlayerId(learner), MatchContext(game, everyone)):
            yield NO_MIXTURE
        league = set(schedule.player_of_role.values()) or set(players)
        for name in sorted(league - {learner}):
            if not isinstance(players[name], Tabular):
                yield f"{_not_tabular(players[name])} (players.{name})"
        rules = game.bimatrix()
        moves = {len(actions) for actions in rules.actions} if rules else set()
        if not schedule.player_of_role and len(moves) > 1:
            yield ONE_LEAGUE

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next policy; returns its pay-off `value` against the mixture, and `gain`.

        `gain` is over the policy before. Raises ConfigError for a schedule, players or a game that
        do not fit.
        """
        reward_A = rewards(batch)
        start = batch.player
        assert isinstance(start, Tabular), "`faults` said so"
        before_A = start.logits_A(batch.weights, len(reward_A))
        best = int(reward_A.argmax())
        logits_A = np.full(len(reward_A), NEVER)
        logits_A[best] = 0.0
        write_policy(batch.output, logits_A)
        before = float(np.exp(log_softmax(before_A)) @ reward_A)
        facts = {"value": float(reward_A[best]), "gain": float(reward_A[best]) - before}
        batch.log({"steps": 1, **facts})
        return facts


def rewards(batch: TrainingBatch) -> np.ndarray:
    """The mean pay-off of each of the learner's moves against the mixture that it may meet, [A]."""
    game = batch.game.bimatrix()
    if game is None or not batch.mixture_of_role:
        raise ConfigError(f"learner: {NO_MIXTURE}")
    first, second = (batch.game.role(seat) for seat in batch.game.seats)
    own_AM = {first: game.first_AM, second: game.second_AM.T}
    sizes = {first: len(game.actions[0]), second: len(game.actions[1])}
    opposite = {first: second, second: first}
    rows: list[np.ndarray] = []
    for role, other in opposite.items():
        if other in batch.mixture_of_role:
            policy_M = mean_policy(batch.mixture_of_role[other], sizes[other])
            rows.append(own_AM[role] @ policy_M)
    if len({len(row) for row in rows}) > 1:
        raise ConfigError(f"learner: {ONE_LEAGUE}")
    return np.mean(rows, axis=0)


def mean_policy(mixture: Sequence[tuple[OtherPlayer, float]], size: int) -> np.ndarray:
    """The mixture over moves, [size], of a mixture over tabular players."""
    policy_M = np.zeros(size)
    for (player, weights), weight in mixture:
        if not isinstance(player, Tabular):
            raise ConfigError(f"learner: {_not_tabular(player)}")
        policy_M += weight * np.exp(log_softmax(player.logits_A(weights, size)))
    return policy_M


def _not_tabular(player: Player) -> str:
    return f"'best_reply' answers tabular players, not '{player.kind}'"
