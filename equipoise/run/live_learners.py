"""The learners that stay in memory between generations.

A learner of policy gradients lives on from update to update. It is saved now and then:
its weights where they will be measured, its whole state (optimizer, critic, baselines)
every `save_every` generations. A run that was killed takes the newest state and repeats
the updates since then from the recorded episodes; nothing is played again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise import seeds
from equipoise.files import faults, set_aside, write_folder
from equipoise.learners.base import TrainingBatch
from equipoise.learners.policy_gradient import PolicyGradient
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Resting
from equipoise.players.population import home
from equipoise.run.config import RunConfig
from equipoise.run.ledger import Ledger
from equipoise.types import Episode, PlayerId, Turn

if TYPE_CHECKING:
    from equipoise.learners.policy_trainer import PolicyTrainer

Log = Callable[[dict[str, Any]], None]


class LiveLearners:
    """The policy trainers of a run, each at one generation of its learner."""

    def __init__(
        self, config: RunConfig, ledger: Ledger, folder: Path, resources: Resources
    ) -> None:
        """`folder` is the run's."""
        self._config = config
        self._ledger = ledger
        self._resources = resources
        self._players = folder / "players"
        self._names = {
            name
            for name in config.learning
            if config.learner_of(name).needs == "episodes"
        }
        self._trainers: dict[str, PolicyTrainer] = {}
        self._newest: dict[str, PlayerId] = {}

    def begin(self, learners: Iterable[PlayerId]) -> None:
        """From now on the learners are at these generations; others of theirs play from
        their weights on disk.
        """
        self._newest = {learner.name: learner for learner in learners}

    def actor(self, player: PlayerId) -> Actor | None:
        """The actor of a learner in memory, where `player` is its newest generation."""
        if player.name not in self._names:
            return None
        if self._ledger.finished(f"{self._config.generations}/measure") is not None:
            # All is on disk, from where a resumed run would take it, too.
            self._trainers.clear()
            return None
        trainer = self._trainers.get(player.name)
        if trainer is not None and trainer.learner == player:
            return trainer.actor
        if self._newest.get(player.name) != player:
            return None
        return self._trainer_at(player).actor

    # -- updates

    def update(self, newborn: PlayerId, log: Log) -> dict[str, float]:
        """One update of the learner in memory, from its recorded episodes to `newborn`;
        the facts that sum it up.
        """
        learner = PlayerId(newborn.name, newborn.generation - 1)
        trainer = self._trainer_at(learner)
        episodes = self._ledger.episodes(learner)
        matches = self._ledger.matches_of({episode.match for episode in episodes})
        turns = [matches[episode.match].turns[episode.turn] for episode in episodes]
        facts = self._learn(trainer, newborn, episodes, turns, log)
        trainer.assert_agreement(trainer.actor)
        return facts

    def _learn(
        self,
        trainer: PolicyTrainer,
        newborn: PlayerId,
        episodes: list[Episode],
        turns: list[Turn],
        log: Log,
    ) -> dict[str, float]:
        """The update: by the learner in memory, or by processes that begin with its
        state and end with the next.
        """
        learner = trainer.learner
        settings = self._settings(learner.name)
        seed = seeds.child(self._config.seed, "learn", learner)
        if isinstance(trainer.actor, Resting):
            trainer.actor.rest()
        if settings.launch is None:
            return trainer.learn(episodes, turns, seed, log)
        scratch = self._states(learner.name) / "launch"
        before = scratch / "before"
        after = scratch / "after"
        write_folder(before, trainer.save_state)
        facts: dict[str, float] = {}

        def in_processes(output: Path) -> None:
            training_batch = TrainingBatch(
                learner=learner,
                player=trainer.player,
                weights=None,
                output=output,
                scratch=scratch,
                seed=seed,
                game=self._config.game,
                episodes=episodes,
                turns=turns,
                state=before,
                log=log,
            )
            facts.update(settings.learn(training_batch))

        write_folder(after, in_processes)
        trainer.load(after, newborn.generation)
        shutil.rmtree(scratch)
        return facts

    def _trainer_at(self, learner: PlayerId) -> PolicyTrainer:
        """The trainer at this generation, brought there from what is on disk and in the ledger."""
        trainer = self._trainers.get(learner.name)
        if trainer is None or trainer.learner.generation > learner.generation:
            self._trainers.pop(learner.name, None)
            trainer = self._trainers[learner.name] = self._restored(learner)
        while trainer.learner.generation < learner.generation:
            following = trainer.learner.generation + 1
            self.update(PlayerId(learner.name, following), lambda line: None)
        return trainer

    def _restored(self, learner: PlayerId) -> PolicyTrainer:
        """A trainer with the newest saved state up to this generation."""
        from equipoise.learners.policy_trainer import PolicyTrainer

        trainer = PolicyTrainer(
            self._settings(learner.name),
            self._config.players[learner.name],
            learner.name,
            seeds.child(self._config.seed, "pupil", learner.name),
            self._resources,
            sent=self._states(learner.name) / "sent",
        )
        for generation in reversed(self._saved(learner.name)):
            state = self._states(learner.name) / str(generation)
            if generation > learner.generation:
                continue
            if not faults(state):
                trainer.load(state, generation)
                break
            set_aside(state)  # an older one, or the recorded episodes, lead there, too
        return trainer

    def _settings(self, name: str) -> PolicyGradient:
        settings = self._config.learner_of(name)
        assert isinstance(settings, PolicyGradient), "it alone learns from episodes"
        return settings

    # -- on disk

    def save(self, learners: Sequence[PlayerId]) -> None:
        """Write the weights and the state of those that stay in memory, at these
        generations; generation 0 is the player as given.
        """
        for learner in learners:
            if learner.generation and learner.name in self._names:
                trainer = self._trainer_at(learner)
                weights = home(self._players, learner)
                if not weights.is_dir():
                    write_folder(weights, trainer.save)
                self._save_state(trainer)
                self.drop_old_states(learner.name)

    def save_state_when_due(self, name: str) -> None:
        """Write the state of a learner at every `save_every`-th generation."""
        trainer = self._trainers[name]
        if trainer.learner.generation % trainer.settings.save_every == 0:
            self._save_state(trainer)

    def drop_old_states(self, name: str) -> None:
        """Delete all states but the newest; call it when the update that led there is
        recorded, for until then a resumed run needs the one before.
        """
        for generation in self._saved(name)[:-1]:
            shutil.rmtree(self._states(name) / str(generation))

    def _save_state(self, trainer: PolicyTrainer) -> None:
        learner = trainer.learner
        state = self._states(learner.name) / str(learner.generation)
        if not state.is_dir():
            write_folder(state, trainer.save_state)

    def _states(self, name: str) -> Path:
        return self._players / name / ".state"

    def _saved(self, name: str) -> list[int]:
        """The generations whose state is on disk, oldest first."""
        folders = self._states(name).glob("[0-9]*")
        return sorted(int(folder.name) for folder in folders)
