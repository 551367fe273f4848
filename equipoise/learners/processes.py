"""Learners that train in this process, or in several that accelerate starts for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from pydantic import Field

from equipoise.games.base import Game
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.checkpoints import LAUNCH
from equipoise.learners.launch import Launch
from equipoise.learners.process_group import ProcessGroup
from equipoise.models.device import return_unused_memory
from equipoise.players.base import Player
from equipoise.players.local import Local


class Launchable(Learner):
    """A learner that trains in this process, or in several that are started for it."""

    launch: Launch | None = Field(None, description="train in several processes; null: in this one")

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        """That the player is no model in this process."""
        if not isinstance(player, Local):
            yield f"'{self.kind}' trains players of kind 'local', not '{player.kind}'"

    @property
    def processes(self) -> int:
        """How many processes train together."""
        return 1 if self.launch is None else self.launch.processes

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """`learn_here`, in this process or in those that `launch` asks for."""
        if self.launch is None:
            return self.learn_here(batch)
        return_unused_memory()  # the processes are on the same accelerators
        with ProcessGroup(self.launch, batch.scratch / LAUNCH) as group:
            return group.learn(self, batch)

    @abstractmethod
    def learn_here(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `batch.output`; returns what sums it up.

        Every process of the training calls it with the same batch.
        """


class StandingLearner(Launchable):
    """A learner whose processes stay, and keep something from batch to batch."""

    @abstractmethod
    def save_state_here(self, batch: TrainingBatch) -> None:
        """Write what a later process goes on from into `batch.output`.

        Every process of the training calls it.
        """
