"""The learners that stay in memory between generations.

A learner of policy gradients lives on from update to update. It is saved now and then: its weights
where they will be measured, its whole state (optimizer, critic, baselines) every `save_every`
generations. A run that was killed takes the newest state and repeats the updates since then from
the recorded episodes; nothing is played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from equipoise import seeds
from equipoise.errors import RunError
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.process_group import GroupLostError
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Sleepable
from equipoise.players.population import home
from equipoise.runs.config import RunConfig
from equipoise.runs.monitor import Monitor
from equipoise.system.files import faults
from equipoise.system.folder import Folder
from equipoise.types import PlayerId

if TYPE_CHECKING:
    from equipoise.learners.sampled_policy import SampledPolicy

Log = Callable[[dict[str, Any]], None]
T = TypeVar("T")


class LiveLearners:
    """The policy trainers of a run, each at one generation of its learner."""

    def __init__(
        self, config: RunConfig, ledger: Ledger, run: Folder, resources: Resources, monitor: Monitor
    ) -> None:
        """`run` is the run's folder."""
        self._config = config
        self._ledger = ledger
        self._resources = resources
        self._monitor = monitor
        self._run = run
        self._players = run.path / "players"
        self._names = {
            name for name in config.learning if config.learner_of(name).needs == "episodes"
        }
        self._trainers: dict[str, SampledPolicy] = {}
        self._newest: dict[str, PlayerId] = {}

    def begin(self, learners: Iterable[PlayerId]) -> None:
        """Set the learners' current generations; others of theirs play from disk."""
        self._newest = {learner.name: learner for learner in learners}

    def actor(self, player: PlayerId) -> Actor | None:
        """The actor of a learner in memory, where `player` is its newest generation."""
        if player.name not in self._names:
            return None
        if self._ledger.has_finished(f"{self._config.generations}/measure"):
            # All is on disk, from where a resumed run would take it, too.
            self.close()
            return None
        trainer = self._trainers.get(player.name)
        if trainer is not None and trainer.learner == player:
            return trainer.actor
        if self._newest.get(player.name) != player:
            return None
        return self._trainer_at(player).actor

    # -- updates

    def update(self, new_checkpoint: PlayerId, log: Log) -> dict[str, float]:
        """Update the learner in memory from its recorded episodes to `new_checkpoint`; its facts.

        Processes that are lost over it are started anew, once, from the last state.
        """
        learner = PlayerId(new_checkpoint.name, new_checkpoint.generation - 1)
        facts = self._by_trainer(learner, lambda trainer: self._learn(trainer, log), log)
        trainer = self._trainers[learner.name]
        trainer.assert_agreement(trainer.actor)
        return facts

    def _by_trainer(self, learner: PlayerId, act: Callable[[SampledPolicy], T], log: Log) -> T:
        """Call `act` on the trainer at this generation, again where its processes were lost."""
        trainer = self._trainer_at(learner)
        try:
            return act(trainer)
        except GroupLostError:
            self._drop(learner.name)
            log({"processes_started_again": 1})
        return act(self._trainer_at(learner))

    def _learn(self, trainer: SampledPolicy, log: Log) -> dict[str, float]:
        learner = trainer.learner
        episodes = self._ledger.episodes(learner)
        matches = self._ledger.matches_of({episode.match for episode in episodes})
        turns = [matches[episode.match].turns[episode.turn] for episode in episodes]
        seed = seeds.child(self._config.seed, "learn", learner)
        if isinstance(trainer.actor, Sleepable):
            trainer.actor.sleep()
        return trainer.learn(episodes, turns, seed, log)

    def _trainer_at(self, learner: PlayerId) -> SampledPolicy:
        """The trainer at this generation, brought there from what is on disk and in the ledger."""
        trainer = self._trainers.get(learner.name)
        if trainer is None or trainer.learner.generation > learner.generation:
            self._drop(learner.name)
            trainer = self._trainers[learner.name] = self._restore(learner)
        while trainer.learner.generation < learner.generation:
            following = trainer.learner.generation + 1
            self.update(PlayerId(learner.name, following), _nowhere)
            trainer = self._trainers[learner.name]
        return trainer

    def _drop(self, name: str) -> None:
        trainer = self._trainers.pop(name, None)
        if trainer is not None:
            trainer.close()

    def close(self) -> None:
        """Let go of all; what they were is on disk and in the ledger."""
        for name in list(self._trainers):
            self._drop(name)

    def _restore(self, learner: PlayerId) -> SampledPolicy:
        """A trainer with the newest saved state up to this generation."""
        trainer = self._new(learner.name)
        for generation in reversed(self._saved_generations(learner.name)):
            state = self._states(learner.name) / str(generation)
            if generation > learner.generation:
                continue
            damaged = faults(state) or loading_faults(trainer, state)
            if not damaged:
                break
            # An older one, or the recorded episodes, lead there, too.
            with self._run.inner("players", learner.name, ".state") as states:
                aside = states.set_aside(state.name)
            self._monitor.numbers(set_aside=f"{damaged[0]}; it is {aside.name} now")
        return trainer

    def _new(self, name: str) -> SampledPolicy:
        from equipoise.learners.policy_trainer import PolicyTrainer
        from equipoise.learners.remote_policy_trainer import RemotePolicyTrainer

        settings = self._config.learner_of(name)
        assert isinstance(settings, PolicyGradient), "it alone learns from episodes"
        states = self._states(name)
        player = self._config.players[name]
        seed = seeds.child(self._config.seed, "pupil", name)
        shared = (settings, player, name, seed, self._resources, states / "sent")
        if settings.launch is None:
            return PolicyTrainer(*shared)
        return RemotePolicyTrainer(*shared, states / "launch", self._config.game)

    # -- on disk

    def save(self, learners: Sequence[PlayerId]) -> None:
        """Write weights and state of those that stay in memory; generation 0 is as given."""
        for learner in learners:
            if learner.generation and learner.name in self._names:
                trainer = self._trainer_at(learner)
                weights = home(self._players, learner)
                if not weights.is_dir():
                    with self._run.inner("players", learner.name, make=True) as generations:
                        generations.write_folder(weights.name, trainer.save)
                self._save_state(learner)
                self.drop_old_states(learner.name)

    def save_state_when_due(self, name: str) -> None:
        """Write the state of a learner at every `save_every`-th generation."""
        trainer = self._trainers[name]
        if trainer.learner.generation % trainer.settings.save_every == 0:
            self._save_state(trainer.learner)

    def drop_old_states(self, name: str) -> None:
        """Delete all states but the newest, once the update that led there is recorded."""
        for generation in self._saved_generations(name)[:-1]:
            with self._run.inner("players", name, ".state") as states:
                states.remove(str(generation))

    def _save_state(self, learner: PlayerId) -> None:
        state = self._states(learner.name) / str(learner.generation)
        if not state.is_dir():
            with self._run.inner("players", learner.name, ".state", make=True) as states:
                self._by_trainer(
                    learner,
                    lambda trainer: states.write_folder(state.name, trainer.save_state),
                    _nowhere,
                )

    def _states(self, name: str) -> Path:
        return self._players / name / ".state"

    def _saved_generations(self, name: str) -> list[int]:
        folders = self._states(name).glob("[0-9]*")
        return sorted(int(folder.name) for folder in folders)


def loading_faults(trainer: SampledPolicy, state: Path) -> list[str]:
    """Have the trainer take up a state; why it cannot be read, where it cannot."""
    try:
        trainer.load(state, int(state.name))
    except RunError as error:
        return [str(error)]
    return []


def _nowhere(line: dict[str, Any]) -> None:
    """Lines of metrics that are in the run already."""
