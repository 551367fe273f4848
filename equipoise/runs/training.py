"""Each learner's training: from its examples to its next generation, on disk or in memory."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import seeds
from equipoise.data.logprobs import opponent_logprobs
from equipoise.evaluation.measures import Measures
from equipoise.learners.base import Learner, OtherPlayer, TrainingBatch
from equipoise.learners.fine_tuning_settings import FineTuningSettings
from equipoise.learners.hand_over import compare, has_probes
from equipoise.players.base import TokenScorer
from equipoise.players.population import Population
from equipoise.runs.contexts import Contexts
from equipoise.runs.directory import RunDirectory
from equipoise.runs.executors.sharing import Sharing, UnderWay
from equipoise.runs.live_learners import LiveLearners
from equipoise.runs.model_card import write_cards
from equipoise.runs.monitor import Monitor
from equipoise.runs.recorder import Recorder
from equipoise.runs.roster import Roster
from equipoise.runs.trackers import Trackers
from equipoise.system.files import disk_errors, faults, make_folder, publish, read_json, set_aside
from equipoise.types import Episode, Pair, PlayerId

Opponents = list[tuple[PlayerId, float]]  # with their weights in the loss
Log = Callable[[dict[str, Any]], None]

FACTS = "training.json"  # what sums a training up, beside the weights
LOG = "training_log.json"  # its lines of metrics, until the stage is recorded with them


class Training:
    """Trains the learners of a run, each generation once."""

    def __init__(
        self,
        run: RunDirectory,
        roster: Roster,
        population: Population,
        contexts: Contexts,
        live: LiveLearners,
        recorder: Recorder,
        monitor: Monitor,
        trackers: Trackers,
        sharing: Sharing,
    ) -> None:
        self._run = run
        self._config = run.config
        self._ledger = run.ledger
        self._roster = roster
        self._population = population
        self._contexts = contexts
        self._live = live
        self._recorder = recorder
        self._monitor = monitor
        self._trackers = trackers
        self._sharing = sharing
        self._under_way: dict[str, tuple[TrainingBatch, UnderWay]] = {}
        self._begun: dict[str, float] = {}  # the seconds that beginning each took
        # the newest generations when this process began
        self._newest = {birth.player.name: birth.player for birth in run.ledger.players()}

    def begin(self, examples: Mapping[PlayerId, Sequence[Pair | Episode]], t: int) -> None:
        """Have workers train, all at once, what needs nothing but its batch; `learn` then waits for
        each.
        """
        for learner, taught in examples.items():
            key = f"{t}/learn/{learner.name}"
            newborn = PlayerId(learner.name, learner.generation + 1)
            trainer = self._config.learner_at(learner.name, t)
            done = self._ledger.finished(key) is not None
            written = self._population.home(newborn).is_dir()
            if not done and not written and self._sharing.teaches(trainer):
                started = time.perf_counter()
                batch = self._training_batch(list(taught), learner, t, _unread)
                self._under_way[key] = batch, self._sharing.learn(trainer, batch)
                self._begun[key] = time.perf_counter() - started

    def learn(self, examples: Sequence[Pair | Episode], learner: PlayerId, t: int) -> PlayerId:
        """Train `learner` into its next generation; its weights appear complete or not at all."""
        newborn = PlayerId(learner.name, learner.generation + 1)
        key = f"{t}/learn/{learner.name}"
        trainer = self._config.learner_of(learner.name)
        if newborn == self._newest.get(learner.name, newborn):
            self._set_aside_if_damaged(newborn)
        if self._ledger.finished(key) is not None:
            self._train_again_if_lost(key, examples, learner, t)
        else:
            begun = self._begun.pop(key, 0.0)
            with self._recorder.stage("learn", key, t, begun) as facts:
                if trainer.needs == "episodes":
                    facts.update(self._update(key, newborn, t))
                else:
                    facts.update(self._train(key, examples, learner, t))
                    facts.update(self._handed_over(learner, newborn, t))
                self._ledger.add_player(newborn, learner, trainer.kind, facts)
                write_cards(self._run, [newborn])
        self._live.drop_old_states(learner.name)
        if self._config.keep != "all":
            self._population.forget(learner.name, self._config.keep, self._best())
        return newborn

    # -- what a damaged disk took

    def _set_aside_if_damaged(self, player: PlayerId) -> None:
        """Weights that are not what was written are kept under another name."""
        weights = self._population.home(player)
        if weights.is_dir() and (damaged := faults(weights)):
            aside = set_aside(weights)
            self._monitor.numbers(set_aside=f"{damaged[0]}; it is {aside.name} now")

    def _train_again_if_lost(
        self, key: str, examples: Sequence[Any], learner: PlayerId, t: int
    ) -> None:
        """Make the weights that were set aside again, from the ledger; its records stay as they
        are.
        """
        newborn = PlayerId(learner.name, learner.generation + 1)
        weights = self._population.home(newborn)
        aside = weights.with_name(f"damaged-{weights.name}")
        newest = self._newest.get(learner.name, newborn).generation
        kept = self._config.keep == "all" or newborn.generation > newest - self._config.keep
        if weights.is_dir() or not aside.is_dir() or not kept:
            return
        if self._config.learner_of(learner.name).needs == "episodes":
            self._live.save([newborn])
        else:
            self._write(key, examples, learner, t, lambda line: None)
        write_cards(self._run, [newborn])

    def _best(self) -> set[PlayerId]:
        """The player with the best held-out score so far, where the last test will need its
        weights.
        """
        scores: dict[str, float] = {}
        for _, _, _, facts, _ in self._ledger.stages("measure"):
            for name, score in Measures.read(facts).scores.items():
                if score.mean is not None:
                    scores[name] = score.mean
        if not scores or not self._config.prompts.test:
            return set()
        return {PlayerId.parse(max(scores, key=scores.__getitem__))}

    def _log(self, key: str, name: str) -> Log:
        """Takes a learner's lines of metrics to the run, its monitor and its trackers."""
        track = self._trackers.learned(name, key)

        def log(line: dict[str, Any]) -> None:
            self._run.metric(key, **line)
            track(line)
            self._monitor.advance(int(line.get("steps", 0)))
            shown = ("loss", "kl", "tokens_per_second")
            self._monitor.numbers(**{n: line[n] for n in shown if n in line})

        return log

    # -- in memory

    def _update(self, key: str, newborn: PlayerId, t: int) -> dict[str, float]:
        name = newborn.name
        self._monitor.stage(self._recorder.title("learn", name), None, t)
        facts = self._live.update(newborn, self._log(key, name))
        self._live.save_state_when_due(name)
        return facts

    # -- from weights on disk

    def _train(
        self, key: str, examples: Sequence[Any], learner: PlayerId, t: int
    ) -> dict[str, Any]:
        """The facts that sum the training up.

        Weights that a run left there when it was killed, before this stage was recorded, are not
        trained again: their lines of metrics lie beside them.
        """
        home = self._population.home(PlayerId(learner.name, learner.generation + 1))
        if home.is_dir():
            shutil.rmtree(_scratch(home), ignore_errors=True)
            written = (home / LOG).is_file()  # not by earlier versions
            for line in read_json(home / LOG) if written else []:
                self._run.metric(key, **line)
        else:
            self._write(key, examples, learner, t, self._log(key, learner.name))
        return read_json(home / FACTS)

    def _write(
        self, key: str, examples: Sequence[Any], learner: PlayerId, t: int, log: Log
    ) -> None:
        """Train the learner, and put its next generation into its place, whole."""
        home = self._population.home(PlayerId(learner.name, learner.generation + 1))
        lines: list[dict[str, Any]] = []

        def keep(line: dict[str, Any]) -> None:
            lines.append(line)
            log(line)

        trainer = self._config.learner_at(learner.name, t)
        title = self._recorder.title("learn", learner.name)
        if key in self._under_way:
            self._monitor.stage(title, trainer.steps(len(examples)), t)
            batch, training = self._under_way.pop(key)
            facts = training.result(keep)
        else:
            batch = self._training_batch(list(examples), learner, t, keep)
            self._monitor.stage(title, trainer.steps(len(examples)), t)
            self._release(trainer, learner.name)
            facts = trainer.learn(batch)
        with disk_errors(home):
            (batch.output / FACTS).write_text(json.dumps(facts))
            (batch.output / LOG).write_text(json.dumps(lines))
            publish(batch.output, home)
        shutil.rmtree(batch.scratch, ignore_errors=True)

    def _release(self, trainer: Learner, name: str) -> None:
        """Free the memory of all that the trainer of this player does not share."""
        shared = trainer.shares(self._config.players[name])
        self._population.release(() if shared is None else (shared,))

    def _handed_over(self, learner: PlayerId, newborn: PlayerId, t: int) -> dict[str, Any]:
        """How far the player that will play is from what was trained; `not_compared` says why where
        that cannot be known.

        Nothing of a learner of a finite game, whose player reads the very policy that it wrote.
        Raises ConfigError where the two are too far apart.
        """
        home = self._population.home(newborn)
        trainer = self._config.learner_at(learner.name, t)
        if trainer.needs == "game":
            return {}
        if not isinstance(trainer, FineTuningSettings) or not has_probes(home):
            return self._not_compared(newborn, t, f"the learner '{trainer.kind}' wrote no probes")
        before, after = map(self._population.actor, (learner, newborn))
        if not (isinstance(before, TokenScorer) and isinstance(after, TokenScorer)):
            kind = self._config.players[learner.name].kind
            return self._not_compared(
                newborn, t, f"a '{kind}' player gives no log-probabilities of token ids"
            )
        hand_over = compare(home, before, after)
        # two generations of whole weights are one too many
        self._release(trainer, learner.name)
        most = trainer.on(self._config.players[learner.name]).max_disagreement
        assert most is not None, "decided for a player"
        hand_over.check(newborn, most)
        return hand_over.facts()

    def _not_compared(self, newborn: PlayerId, t: int, why: str) -> dict[str, Any]:
        """Say that nobody knows whether this player plays what was trained."""
        facts = {"not_compared": f"{newborn} plays uncompared with its learner: {why}"}
        self._run.metric(f"{t}/learn/{newborn.name}", **facts)
        self._monitor.numbers(**facts)
        return facts

    def _training_batch(
        self, pairs: Sequence[Any], learner: PlayerId, t: int, log: Log
    ) -> TrainingBatch:
        home = self._population.home(PlayerId(learner.name, learner.generation + 1))
        past = self._roster.past(learner)
        opponents = self._opponents(learner, t)
        chosen_KB, rejected_KB = self._opponent_logprobs(learner, opponents, pairs)
        return TrainingBatch(
            learner=learner,
            player=self._config.players[learner.name],
            weights=self._population.weights(learner),
            output=_empty(home.with_name(f".{home.name}.draft")),
            scratch=_scratch(home),
            seed=seeds.child(self._config.seed, "learn", learner),
            game=self._config.game,
            loss=self._config.loss_at(t),
            pairs=list(pairs),
            opponents=opponents,
            opponent_chosen_KB=chosen_KB,
            opponent_rejected_KB=rejected_KB,
            other_players=self._other_players(learner, t),
            player_of_role=dict(self._config.schedule.player_of_role),
            met=self._met(learner, t),
            past_weights=[self._population.home(old) if old.generation else None for old in past],
            resources=self._population.resources,
            log=log,
        )

    def _opponents(self, learner: PlayerId, t: int) -> Opponents:
        """Those whom the loss sets against the learner."""
        loss = self._config.loss_at(t)
        if loss is None or self._config.learner_of(learner.name).needs == "answers":
            return []
        peers = [peer for peer in self._roster.learners(t) if peer != learner]
        return loss.opponents(self._roster.past(learner), peers, self._roster.others())

    def _opponent_logprobs(
        self, learner: PlayerId, opponents: Opponents, pairs: Sequence[Pair]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The opponents' log-probability sums of both answers of each pair, in nats, [K, B]; zeros
        where the learner needs none.
        """
        needs = self._config.learner_of(learner.name).needs
        if needs != "pairs" or not opponents:
            zeros_KB = np.zeros((len(opponents), len(pairs)))
            return zeros_KB, zeros_KB
        title = self._recorder.title("opponents' log-probabilities", learner.name)
        total = 2 * len(pairs) * len(opponents)
        self._monitor.stage(title, total, learner.generation)
        return opponent_logprobs(
            self._ledger,
            self._population.actor,
            learner,
            [player for player, _ in opponents],
            pairs,
            self._monitor.advance,
        )

    def _other_players(self, learner: PlayerId, t: int) -> dict[str, OtherPlayer]:
        """The other players as they were when generation t began, for learners that learn from the
        game itself.
        """
        if self._config.learner_of(learner.name).needs != "game":
            return {}
        return {
            other.name: self._other_player(other)
            for other in self._roster.players(t)
            if other.name != learner.name
        }

    def _met(self, learner: PlayerId, t: int) -> dict[str, list[tuple[OtherPlayer, float]]]:
        """role -> whom the schedule's mixture seats there in generation t, for learners that learn
        from the game itself.
        """
        if self._config.learner_of(learner.name).needs != "game":
            return {}
        schedule = self._config.schedule
        opponents = schedule.opponents(learner, self._contexts.match(t))
        return {
            role: [(self._other_player(player), weight) for player, weight in mixture]
            for role, mixture in opponents.items()
        }

    def _other_player(self, player: PlayerId) -> OtherPlayer:
        return OtherPlayer(self._config.players[player.name], self._population.weights(player))


def _unread(line: dict[str, Any]) -> None:
    """A worker writes its lines into a file."""


def _empty(folder: Path) -> Path:
    """The folder, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    return folder


def _scratch(home: Path) -> Path:
    """Where the training of the weights at `home` keeps its checkpoints."""
    return home.with_name(f".{home.name}.scratch")
