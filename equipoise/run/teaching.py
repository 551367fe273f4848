"""Where learners learn: what each is taught, its training, and the learners that stay
in memory between generations.

A learner of policy gradients lives on from update to update. It is written down now and
then: its weights where they will be measured, its whole state (optimizer, critic,
baselines) every `save_every` generations. A run that was killed takes the newest state
and repeats the updates since then from the recorded episodes; nothing is played again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise import seeds
from equipoise.data.episodes import episodes
from equipoise.data.logprobs import opponent_logprobs
from equipoise.errors import NoSignal
from equipoise.learners.base import OtherPlayer, TrainingBatch
from equipoise.learners.policy_gradient import PolicyGradient
from equipoise.players.base import Actor
from equipoise.run.recorder import Recorder
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Turn

if TYPE_CHECKING:
    from equipoise.learners.policy_trainer import PolicyTrainer
    from equipoise.run.stages import RunStages

Log = Callable[[dict[str, Any]], None]


class Teaching:
    """The teaching half of `stages.RunStages`."""

    def __init__(self, stages: RunStages) -> None:
        self._stages, self.run, self.config, self.ledger = (
            stages,
            stages.run,
            stages.config,
            stages.ledger,
        )
        self.monitor, self.population = stages.monitor, stages.population
        self.recorder: Recorder = stages.recorder
        self._policy_trainers: dict[str, PolicyTrainer] = {}
        for name in self.config.learning:
            if self.config.learner_of(name).needs == "episodes":
                self.population.alive[name] = self._live

    # -- what is taught

    def training_batch(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> Sequence[Pair | Episode]:
        """What `learner` is taught of the matches of generation t, recorded."""
        needs = self.config.learner_of(learner.name).needs
        if needs == "game":
            return []
        make = self._episodes if needs == "episodes" else self._pairs
        key = f"{t}/{'episodes' if needs == 'episodes' else 'pair'}/{learner.name}"
        if self.ledger.finished(key) is None:
            self.monitor.stage(
                self.recorder.titled(key.split("/")[1], learner.name), None, t
            )
            mine = self.config.judge_of(learner.name).name
            heard = [judgement for judgement in judgements if judgement.judge == mine]
            if self.config.lessons == "own":
                matches = [
                    match for match in matches if learner in match.seats.values()
                ]
            with self.recorder.stage(key.split("/")[1], key, t) as facts:
                facts.update(make(matches, heard, learner, t))
        return (
            self.ledger.episodes(learner)
            if needs == "episodes"
            else self.ledger.pairs(t, learner)
        )

    def _pairs(
        self,
        matches: Sequence[Match],
        heard: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> dict[str, Any]:
        pairs, dropped = self.config.pairs.make(matches, heard, self.config.utility)
        if not pairs:
            raise NoSignal(
                f"generation {t}: {len(matches)} matches gave {learner} no pair to learn from; dropped: "
                + (
                    ", ".join(f"{name} {count}" for name, count in dropped.items())
                    or "nothing"
                )
            )
        self.ledger.add_pairs(pairs, learner)
        return {"pairs": len(pairs), "dropped": dropped}

    def _episodes(
        self,
        matches: Sequence[Match],
        heard: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> dict[str, Any]:
        prompts = self._stages.asked(t)
        terms = self._stages.memory.terms(t, self.population.resources)
        judgements = {judgement.match: judgement for judgement in heard}
        found, dropped = episodes(
            matches,
            judgements,
            learner,
            self.config.game,
            prompts,
            self.config.utility,
            terms,
            self.config.normalise,
        )
        if not found:
            raise NoSignal(
                f"generation {t}: {len(matches)} matches gave {learner} no episode to learn from; dropped: "
                + (
                    ", ".join(f"{name} {count}" for name, count in dropped.items())
                    or "it made no move"
                )
            )
        self.ledger.add_episodes(found, learner)
        facts = {
            "episodes": len(found),
            "dropped": dropped,
            "reward": fmean(episode.reward for episode in found),
        }
        self.monitor.numbers(reward=facts["reward"])
        return facts | {"parts": means(found), "repeated": repeated(found, matches)}

    # -- learning

    def learn(
        self, taught: Sequence[Pair | Episode], learner: PlayerId, t: int
    ) -> PlayerId:
        """Train `learner` into its next generation; its weights appear complete or not
        at all.
        """
        newborn = PlayerId(learner.name, learner.generation + 1)
        key, trainer = f"{t}/learn/{learner.name}", self.config.learner_of(learner.name)
        if self.ledger.finished(key) is None:
            with self.recorder.stage("learn", key, t) as facts:
                stage = self.recorder.titled("learn", learner.name)
                if trainer.needs == "episodes":
                    self.monitor.stage(stage, None, t)
                    facts.update(
                        self._update(newborn, self._logger(key, tracked=learner))
                    )
                    policy_trainer = self._policy_trainers[newborn.name]
                    if newborn.generation % policy_trainer.settings.save_every == 0:
                        self._write_state(policy_trainer)
                else:
                    facts.update(self._train(key, taught, learner, t, stage))
                self.ledger.add_player(newborn, learner, trainer.kind, facts)
            self._drop_old_states(learner.name)
            if self.config.keep != "all":
                self.population.forget(learner.name, self.config.keep, self._best())
        return newborn

    def _best(self) -> set[PlayerId]:
        """The player that did best so far on held-out prompts, whose weights stay for
        the last test.
        """
        scores = {
            name: found["mean"]
            for _, _, _, facts, _ in self.ledger.stages("measure")
            for name, found in facts.get("scores", {}).items()
        }
        return (
            {PlayerId.parse(max(scores, key=lambda name: scores[name]))}
            if scores and self.config.prompts.test
            else set()
        )

    # -- learners that begin anew from their weights

    def _train(
        self, key: str, taught: Sequence[Any], learner: PlayerId, t: int, stage: str
    ) -> dict[str, Any]:
        home = self.population.home(PlayerId(learner.name, learner.generation + 1))
        if not home.is_dir():
            training_batch = self._prepared(key, list(taught), learner, home)
            trainer = self.config.learner_of(learner.name)
            self.monitor.stage(stage, trainer.steps(len(taught)), t)
            self.population.release()
            # The one door that the Trainer leaves open; its own choice lies in the
            # scratch folder, which goes.
            logs = (
                self.run.folder / "logs" / "tensorboard" / f"{learner.name}@{home.name}"
            )
            os.environ["TENSORBOARD_LOGGING_DIR"] = str(logs)
            facts = trainer.learn(training_batch)
            (training_batch.output / "training.json").write_text(json.dumps(facts))
            training_batch.output.rename(home)
            shutil.rmtree(training_batch.scratch, ignore_errors=True)
        return json.loads((home / "training.json").read_text())

    def _prepared(
        self, key: str, pairs: list[Pair], learner: PlayerId, home: Path
    ) -> TrainingBatch:
        past = self._stages.past(learner)
        draft = home.with_name(f".{home.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        loss, needs = self.config.loss, self.config.learner_of(learner.name).needs
        peers = [
            other
            for other in self._stages.learners(int(key.split("/")[0]))
            if other != learner
        ]
        outsiders = self._stages.others()
        opponents = (
            loss.opponents(past, peers, outsiders)
            if loss is not None and needs != "answers"
            else []
        )
        chosen_KB = rejected_KB = np.zeros((len(opponents), len(pairs)))
        if needs == "pairs" and opponents:
            stage = self.recorder.titled("opponents' log-probabilities", learner.name)
            self.monitor.stage(
                stage, 2 * len(pairs) * len(opponents), learner.generation
            )
            who = [player for player, _ in opponents]
            chosen_KB, rejected_KB = opponent_logprobs(
                self.ledger,
                self.population.actor,
                learner,
                who,
                pairs,
                self.monitor.advance,
            )
        return TrainingBatch(
            learner=learner,
            player=self.config.players[learner.name],
            weights=self.population.weights(learner),
            output=draft,
            scratch=home.with_name(f".{home.name}.scratch"),
            seed=seeds.child(self.config.seed, "learn", learner),
            game=self.config.game,
            loss=loss,
            pairs=pairs,
            opponents=opponents,
            opponent_chosen_KB=chosen_KB,
            opponent_rejected_KB=rejected_KB,
            other_players=self._other_players(learner, int(key.split("/")[0]))
            if needs == "game"
            else {},
            past_weights=[
                self.population.home(old) if old.generation else None for old in past
            ],
            report_to=self.config.report_to,
            log=self._logger(key),
        )

    def _other_players(self, learner: PlayerId, t: int) -> dict[str, OtherPlayer]:
        """The other players as they were when generation t began."""
        here = [
            other
            for other in self._stages.learners(t) + self._stages.others()
            if other.name != learner.name
        ]
        return {
            other.name: OtherPlayer(
                self.config.players[other.name], self.population.weights(other)
            )
            for other in here
        }

    def _logger(self, key: str, tracked: PlayerId | None = None) -> Log:
        """Lines of metrics go to the run and its watcher, and those of a learner in
        memory to its trackers.
        """

        def log(line: dict[str, Any]) -> None:
            self.run.metric(key, **line)
            if tracked is not None:
                self._policy_trainers[tracked.name].track(line)
            self.monitor.advance(int(line.get("steps", 0)))
            self.monitor.numbers(
                **{
                    name: line[name]
                    for name in ("loss", "kl", "tokens_per_second")
                    if name in line
                }
            )

        return log

    # -- learners that live on

    def _update(self, newborn: PlayerId, log: Log) -> dict[str, float]:
        """One update of the learner in memory; what it says of itself."""
        learner = PlayerId(newborn.name, newborn.generation - 1)
        policy_trainer = self._policy_trainer(learner)
        taught = self.ledger.episodes(learner)
        found = self.ledger.matches_of({episode.match for episode in taught})
        turns = [found[episode.match].turns[episode.turn] for episode in taught]
        facts = self._taught(policy_trainer, newborn, taught, turns, log)
        policy_trainer.assert_agreement(self.population.actor(newborn))
        return facts

    def _taught(
        self,
        policy_trainer: PolicyTrainer,
        newborn: PlayerId,
        taught: list[Episode],
        turns: list[Turn],
        log: Log,
    ) -> dict[str, float]:
        """The update: by the learner in memory, or by processes that begin with its
        state and end with the next.
        """
        trainer, learner = policy_trainer.settings, policy_trainer.learner
        seed = seeds.child(self.config.seed, "learn", learner)
        if trainer.launch is None:
            return policy_trainer.learn(taught, turns, seed, log)
        scratch = self._states(learner.name) / "launch"
        before, after = (scratch / "before", scratch / "after")
        whole(before, policy_trainer.save_state)
        facts: dict[str, float] = {}

        def in_processes(home: Path) -> None:
            training_batch = TrainingBatch(
                learner,
                policy_trainer.player,
                None,
                home,
                scratch,
                seed,
                self.config.game,
                episodes=taught,
                turns=turns,
                state=before,
                log=log,
            )
            facts.update(trainer.learn(training_batch))

        whole(after, in_processes)
        policy_trainer.load(after, newborn.generation)
        shutil.rmtree(scratch)
        return facts

    def _live(self, who: PlayerId) -> Actor | None:
        """The actor of a learner in memory, where `who` is its newest generation."""
        if self.ledger.finished(f"{self.config.generations}/measure") is not None:
            self._policy_trainers.clear()  # all is on disk, from where a resumed run would take it, too
            return None
        here = self._policy_trainers.get(who.name)
        if here is not None and here.learner == who:
            return here.actor
        newest = who == next(
            one
            for one in self._stages.learners(self._stages.now)
            if one.name == who.name
        )
        return self._policy_trainer(who).actor if newest else None

    def _policy_trainer(self, who: PlayerId) -> PolicyTrainer:
        """The learner in memory at this generation, brought there from what is on disk
        and in the ledger.
        """
        policy_trainer = self._policy_trainers.get(who.name)
        if policy_trainer is None or policy_trainer.learner.generation > who.generation:
            policy_trainer = self._policy_trainers[who.name] = self._restored(who)
        while policy_trainer.learner.generation < who.generation:
            self._update(
                PlayerId(who.name, policy_trainer.learner.generation + 1),
                lambda line: None,
            )
        return policy_trainer

    def _restored(self, who: PlayerId) -> PolicyTrainer:
        from equipoise.learners.policy_trainer import PolicyTrainer

        trainer, player = (
            self.config.learner_of(who.name),
            self.config.players[who.name],
        )
        assert isinstance(trainer, PolicyGradient), "it alone learns from episodes"
        kept = [int(folder.name) for folder in self._states(who.name).glob("[0-9]*")]
        newest = max(
            (generation for generation in kept if generation <= who.generation),
            default=0,
        )
        self._policy_trainers.pop(who.name, None)
        seed = seeds.child(self.config.seed, "pupil", who.name)
        logs = str(self.run.folder / "logs" / "tensorboard")
        policy_trainer = PolicyTrainer(
            trainer,
            player,
            who.name,
            seed,
            self.config.report_to,
            logs,
            self.population.resources,
        )
        if newest:
            policy_trainer.load(self._states(who.name) / str(newest), newest)
        return policy_trainer

    def _states(self, name: str) -> Path:
        return self.population.folder / name / ".state"

    def write_down(self, t: int) -> None:
        """The weights and the state of every learner in memory, where generation t of
        the loop is measured.
        """
        for who in self._stages.learners(t):
            if who.generation and who.name in self.population.alive:
                policy_trainer, home = (
                    self._policy_trainer(who),
                    self.population.home(who),
                )
                if not home.is_dir():
                    whole(home, policy_trainer.save)
                self._write_state(policy_trainer)
                self._drop_old_states(who.name)

    def _write_state(self, policy_trainer: PolicyTrainer) -> None:
        home = self._states(policy_trainer.learner.name) / str(
            policy_trainer.learner.generation
        )
        if not home.is_dir():
            whole(home, policy_trainer.save_state)

    def _drop_old_states(self, name: str) -> None:
        """All but the newest, once the update that led to it is recorded: until then
        the one before is gone on from.
        """
        for old in sorted(
            self._states(name).glob("[0-9]*"), key=lambda folder: int(folder.name)
        )[:-1]:
            shutil.rmtree(old)


def whole(folder: Path, write: Callable[[Path], None]) -> None:
    """`folder` appears with all that `write` writes into it, or not at all."""
    from equipoise.learners.checkpoints import disk_errors

    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    with disk_errors(folder):
        write(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def means(found: Sequence[Episode]) -> dict[str, float]:
    """role.part -> its mean over the role's episodes that have it."""
    by_part: dict[str, list[float]] = {}
    for episode in found:
        for name, value in episode.parts.items():
            by_part.setdefault(f"{episode.role}.{name}", []).append(value)
    return {name: fmean(values) for name, values in by_part.items()}


def repeated(found: Sequence[Episode], matches: Sequence[Match]) -> dict[str, float]:
    """role -> the share of its moves whose text another of its moves in the batch has
    too; collapse raises it.
    """
    by_id: Mapping[str, Match] = {match.id: match for match in matches}
    texts: dict[str, list[str]] = {}
    for episode in found:
        texts.setdefault(episode.role, []).append(
            by_id[episode.match].turns[episode.turn].move.text
        )
    return {role: 1 - len(set(said)) / len(said) for role, said in texts.items()}
