"""A policy trainer whose updates are computed by other processes, which stay from update to update.

The policy samples here. Optimizer, critic and reference are with the processes, with their own copy
of the policy or their shares of it. After each update the new weights come back.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from equipoise.games.base import Game
from equipoise.learners.base import TrainingBatch
from equipoise.learners.fine_tuning import local_player
from equipoise.learners.launch import LAUNCH
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.process_group import ProcessGroup
from equipoise.learners.sampled_policy import Log, PolicyUpdate, SampledPolicy
from equipoise.learners.sharding import ProcessRank
from equipoise.learners.trainable_model import TrainableModel
from equipoise.models.device import choose_device, return_unused_memory
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.system.folder import empty_folder
from equipoise.types import Episode, PlayerId, Turn


class RemotePolicyTrainer(SampledPolicy):
    """Trains one player by policy gradients, in the processes of `settings.launch`."""

    def __init__(
        self,
        settings: PolicyGradient,
        player: Player,
        name: str,
        seed: int,
        resources: Resources,
        adapters: Path | None,
        scratch: Path,
        game: Game,
    ) -> None:
        """As `PolicyTrainer`. scratch: for batches and weights, where every machine sees them."""
        player = local_player("policy_gradient", name, player)
        device = choose_device(player.device)
        assert settings.launch is not None
        self._learner_settings, self._launch = settings, settings.launch
        settings = settings.resolve_auto(player)
        policy = TrainableModel(settings, player, name, seed, device, resources, trained=False)
        rank = ProcessRank(device)
        super().__init__(settings, player, policy, None, rank, resources, adapters)
        self._seed, self._scratch, self._game = seed, scratch, game
        self._group: ProcessGroup | None = None
        self._state: Path | None = None  # where the processes have to begin

    def learn(
        self, episodes: Sequence[Episode], turns: Sequence[Turn], seed: int, log: Log
    ) -> dict[str, float]:
        """Update as `PolicyTrainer.learn` does, by processes, started if need be.

        Raises what they raise, GroupLostError where they have ended; do not use it afterwards.
        """
        output = self._scratch / "update"
        empty_folder(output)
        batch = replace(
            self._batch(output),
            seed=seed,
            episodes=list(episodes),
            turns=list(turns),
            state=self._state if self._group is None else None,
            log=log,
        )
        return_unused_memory()  # the processes are on the same accelerators
        if self._group is None:
            self._group = ProcessGroup(self._launch, self._scratch / LAUNCH)
        facts = self._group.learn(self._learner_settings, batch)
        update = PolicyUpdate.read(batch.output)
        self._take_up(update.weights, update.probe)
        self.learner = PlayerId(self.learner.name, self.learner.generation + 1)
        return facts

    def save_state(self, folder: Path) -> None:
        """Have the processes write the next update's state. Raises as `learn` does."""
        assert self._group is not None, "a state that was loaded is on disk already"
        self._group.save_state(self._learner_settings, self._batch(folder))

    def load(self, folder: Path, generation: int) -> None:
        self.close()
        state = PolicyUpdate.read(folder)
        self._take_up(state.weights, state.probe)
        self._state = folder
        self.learner = PlayerId(self.learner.name, generation)

    def close(self) -> None:
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
