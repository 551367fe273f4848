"""A policy trainer whose updates are computed by processes that stay.

The policy samples here. Optimizer, critic and reference are with the processes, which are started
for the first update and keep them, with their own copy of the policy or their shares of it, from
then on. After each update the new weights come back.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from equipoise.games.base import Game
from equipoise.learners.base import TrainingBatch
from equipoise.learners.checkpoints import LAUNCH
from equipoise.learners.division import Division
from equipoise.learners.fine_tuning import local_player
from equipoise.learners.policy_gradient import PolicyGradient
from equipoise.learners.policy_state import PolicyUpdate
from equipoise.learners.process_group import ProcessGroup
from equipoise.learners.sampled_policy import Log, SampledPolicy
from equipoise.learners.trainable_model import TrainableModel
from equipoise.models.device import choose_device, return_unused_memory
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Episode, PlayerId, Turn


class StandingTrainer(SampledPolicy):
    """Trains one player by policy gradients, in the processes of `settings.launch`."""

    def __init__(
        self,
        settings: PolicyGradient,
        player: Player,
        name: str,
        seed: int,
        resources: Resources,
        sent: Path | None,
        scratch: Path,
        game: Game,
    ) -> None:
        """As of a `PolicyTrainer`. `scratch` is a folder for what crosses, which every machine
        sees. Raises ConfigError, ModelError.
        """
        player = local_player("policy_gradient", name, player)
        device = choose_device(player.device)
        policy = TrainableModel(
            settings.on(player), player, name, seed, device, resources, trained=False
        )
        super().__init__(
            settings.on(player), player, policy, None, Division(device), resources, sent
        )
        assert settings.launch is not None
        self._given, self._launch = settings, settings.launch
        self._seed, self._scratch, self._game = seed, scratch, game
        self._group: ProcessGroup | None = None
        self._state: Path | None = None  # what the processes have to begin with

    def learn(
        self, episodes: Sequence[Episode], turns: Sequence[Turn], seed: int, log: Log
    ) -> dict[str, float]:
        """As `PolicyTrainer.learn`, by the processes, which are started if need be.

        Raises what they raise, GroupLostError where they have ended; the trainer must not be used
        then.
        """
        batch = replace(
            self._batch(self._empty("update")),
            seed=seed,
            episodes=list(episodes),
            turns=list(turns),
            state=self._state if self._group is None else None,
            log=log,
        )
        return_unused_memory()  # the processes are on the same accelerators
        if self._group is None:
            self._group = ProcessGroup(self._launch, self._scratch / LAUNCH)
        facts = self._group.learn(self._given, batch)
        update = PolicyUpdate.read(batch.output)
        self._take(update.weights, update.probe)
        self.learner = PlayerId(self.learner.name, self.learner.generation + 1)
        return facts

    def save_state(self, folder: Path) -> None:
        """Have the processes write all that the next update depends on into `folder`.

        Raises as `learn` does.
        """
        assert self._group is not None, "a state that was loaded is on disk already"
        self._group.save_state(self._given, self._batch(folder))

    def load(self, folder: Path, generation: int) -> None:
        """Take up the state that `save_state` wrote at this generation; it has to stay there until
        the next update.
        """
        self.close()
        state = PolicyUpdate.read(folder)
        self._take(state.weights, state.probe)
        self._state = folder
        self.learner = PlayerId(self.learner.name, generation)

    def close(self) -> None:
        """End the processes."""
        if self._group is not None:
            self._group.close()
            self._group = None
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _batch(self, output: Path) -> TrainingBatch:
        return TrainingBatch(
            learner=self.learner,
            player=self.player,
            weights=None,
            output=output,
            scratch=self._scratch,
            seed=0,
            first_seed=self._seed,
            game=self._game,
        )

    def _empty(self, name: str) -> Path:
        folder = self._scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder
