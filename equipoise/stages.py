"""The steps of a generation, each done once: recorded under its key, skipped when the run is resumed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from equipoise import seeds
from equipoise.arena import RunArena
from equipoise.data.logprobs import opponent_logprobs
from equipoise.errors import NoSignal
from equipoise.judges.base import Bench
from equipoise.learners.base import Lesson
from equipoise.ledger import Ledger
from equipoise.matches.base import Lobby
from equipoise.players.population import Population
from equipoise.prompts.split import split
from equipoise.ratings.base import Duel
from equipoise.recorder import Recorder, Seat, Watcher
from equipoise.run import Run
from equipoise.types import Judgement, Match, Pair, PlayerId, Prompt, Vote


class RunStages:
    """`loop.Stages` over a run directory."""

    def __init__(self, run: Run, watcher: Watcher) -> None:
        self.run, self.config, self.ledger, self.watcher = run, run.config, run.ledger, watcher
        self.population = Population(self.config.players, run.folder / "players", run.ledger)
        self.recorder = Recorder(run, watcher, self.population)
        self.arena = RunArena(self)

    # -- who is there --------------------------------------------------------------------------------------------

    def learners(self, t: int) -> list[PlayerId]:
        """Every player that learns, at generation t."""
        return [PlayerId(name, t) for name in self.config.learners]

    def past(self, player: PlayerId) -> list[PlayerId]:
        """The generations of `player` up to itself, newest first."""
        return [PlayerId(player.name, g) for g in range(player.generation, -1, -1)]

    def others(self) -> list[PlayerId]:
        """The players that do not learn; they stay as given."""
        return [PlayerId(name) for name, player in self.config.players.items() if not player.learns]

    def ratings(self, t: int) -> dict[str, float]:
        """How the players stood before the matches of generation t, by name; empty at first."""
        found = self.ledger.finished(f"{t - 1}/rate") or {}
        return {rating["name"]: rating["value"] for rating in found.get("ratings", ())}

    def bench(self, t: int) -> Bench:
        """Where the judges of generation t sit."""
        seed = seeds.child(self.config.seed, "bench", t)
        return Seat(self.config.game, seed, self.learners(t) + self.others(), self.ratings(t), self.population)

    # -- prompts -------------------------------------------------------------------------------------------------

    def deal(self, t: int) -> list[Prompt]:
        """The prompts of generation t."""
        self.deal_all()
        return self.ledger.prompts("train", t)

    def deal_all(self) -> None:
        """Read the source once and record every part, so that a resumed run does not depend on the file any more."""
        if self.ledger.finished("deal") is not None:
            return
        self.watcher.stage("prompts")
        with self.recorder.stage("deal", "deal", 0) as facts, self.ledger.transaction():
            source = self.config.prompts
            parts = split(
                source.load(),
                generations=self.config.generations,
                per_generation=source.per_generation,
                held_out=source.held_out,
                test=source.test,
                seed=seeds.child(self.config.seed, "split"),
                reuse=source.reuse,
            )
            self.ledger.add_prompts(parts.held_out, "held_out", 0)
            self.ledger.add_prompts(parts.test, "test", 0)
            for t, part in enumerate(parts.parts):
                self.ledger.add_prompts(part, "train", t)
            facts.update(prompts=sum(map(len, parts.parts)), held_out=len(parts.held_out), test=len(parts.test))
            facts.update(dropped=parts.dropped)

    # -- matches and verdicts ------------------------------------------------------------------------------------

    def play(self, prompts: Sequence[Prompt], t: int) -> list[Match]:
        """The scheduled matches of generation t."""
        return self.recorder.matches(f"{t}/play", self.config.schedule.seatings(prompts, self.lobby(t)), t, "train")

    def lobby(self, t: int) -> Lobby:
        """Who may be seated in generation t, and what is known of them."""
        learners = self.learners(t)
        league = self.ledger.finished(f"{t}/measure") or {}
        names = [PlayerId.parse(name) for name in league.get("players", ())]
        rows = league.get("payoff", ())
        return Lobby(
            self.config.game,
            learners + self.others(),
            [old for learner in learners for old in self.past(learner)[1:]],
            seeds.child(self.config.seed, "seats", t),
            self.ratings(t),
            {PlayerId.parse(name): weight for name, weight in league.get("mixture", {}).items()},
            {(names[i], names[j]): (1 + value) / 2 for i, row in enumerate(rows) for j, value in enumerate(row)},
            learners,
        )

    def judge(self, matches: Sequence[Match], t: int) -> list[Judgement]:
        """The word of every judge that teaches somebody, on each match of generation t."""
        prompts = {prompt.id: prompt for prompt in self.ledger.prompts("train", t)}
        judges = {judge.name: judge for judge in map(self.config.judge_of, self.config.learners)}
        words: list[Judgement] = []
        for name, judge in judges.items():
            words += self.recorder.judgements(f"{t}/judge/{name}", judge, self.bench(t), matches, prompts, t)
        return words

    def rate(self, matches: Sequence[Match], judgements: Sequence[Judgement], t: int) -> list[Judgement]:
        """Where the players stand after generation t's matches; the judgements, weighed by that."""
        judges = {judge.name: judge for judge in map(self.config.judge_of, self.config.learners)}
        names, key = [player.name for player in self.learners(t) + self.others()], f"{t}/rate"
        if len(names) > 1 and self.ledger.finished(key) is None:
            self.watcher.stage("ratings", None, t)
            with self.recorder.stage("rate", key, t) as facts:
                judge = next(iter(judges.values()))
                met = [duels(self.ledger, judge.name, g, self.config.utility, judge.value) for g in range(t + 1)]
                found = self.config.standing.standing(names, met, seeds.child(self.config.seed, "standing", t))
                facts["duels"] = len(met[-1])
                facts["ratings"] = [{"name": r.name, "value": r.value, "low": r.low, "high": r.high} for r in found]
        ratings = self.ratings(t + 1)
        return [judges[word.judge].weighed(word, ratings) for word in judgements]

    # -- lessons -------------------------------------------------------------------------------------------------

    def pair(self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId) -> list[Pair]:
        """What `learner` is taught of the matches."""
        t = learner.generation
        if self.config.learner.needs == "game":
            return []
        key = f"{t}/pair/{learner.name}"
        if self.ledger.finished(key) is None:
            self.watcher.stage(self.recorder.titled("pairs", learner.name), None, t)
            with self.recorder.stage("pair", key, t) as facts:
                mine = self.config.judge_of(learner.name).name
                heard = [word for word in judgements if word.judge == mine]
                if self.config.lessons == "own":
                    matches = [match for match in matches if learner in match.seats.values()]
                pairs, dropped = self.config.pairs.make(matches, heard, self.config.utility)
                if not pairs:
                    raise NoSignal(
                        f"generation {t}: {len(matches)} matches gave {learner} no pair to learn from; dropped: "
                        + (", ".join(f"{name} {count}" for name, count in dropped.items()) or "nothing")
                    )
                self.ledger.add_pairs(pairs, learner)
                facts.update(pairs=len(pairs), dropped=dropped)
        return self.ledger.pairs(t, learner)

    def learn(self, pairs: Sequence[Pair], learner: PlayerId) -> PlayerId:
        """Train `learner` into its next generation; its weights appear complete or not at all."""
        newborn = PlayerId(learner.name, learner.generation + 1)
        key = f"{learner.generation}/learn/{learner.name}"
        if self.ledger.finished(key) is None:
            with self.recorder.stage("learn", key, learner.generation) as facts:
                home = self.population.home(newborn)
                if not home.is_dir():
                    lesson = self._lesson(key, list(pairs), learner, home)
                    stage = self.recorder.titled("learn", learner.name)
                    self.watcher.stage(stage, self.config.learner.steps(len(pairs)), learner.generation)
                    self._train(lesson, newborn)
                facts.update(json.loads((home / "training.json").read_text()))
                self.ledger.add_player(newborn, learner, self.config.learner.kind, facts)
            if self.config.keep != "all":
                self.population.forget(learner.name, self.config.keep, self._best())
        return newborn

    def _best(self) -> set[PlayerId]:
        """The player that did best so far on held-out prompts, whose weights stay for the last test."""
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

    def _lesson(self, key: str, pairs: list[Pair], learner: PlayerId, home: Any) -> Lesson:
        past = self.past(learner)
        draft = home.with_name(f".{home.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        loss, needs = self.config.loss, self.config.learner.needs
        peers = [other for other in self.learners(learner.generation) if other != learner]
        opponents = loss.opponents(past, peers, self.others()) if loss is not None and needs != "answers" else []
        chosen_KB = rejected_KB = np.zeros((len(opponents), len(pairs)))
        if needs == "pairs" and opponents:
            stage = self.recorder.titled("opponents' log-probabilities", learner.name)
            self.watcher.stage(stage, 2 * len(pairs) * len(opponents), learner.generation)
            who = [player for player, _ in opponents]
            chosen_KB, rejected_KB = opponent_logprobs(
                self.ledger, self.population.actor, learner, who, pairs, self.watcher.advance
            )
        return Lesson(
            who=learner,
            player=self.config.players[learner.name],
            weights=self.population.weights(learner),
            home=draft,
            scratch=home.with_name(f".{home.name}.scratch"),
            seed=seeds.child(self.config.seed, "learn", learner),
            game=self.config.game,
            loss=loss,
            pairs=pairs,
            opponents=opponents,
            opponent_chosen_KB=chosen_KB,
            opponent_rejected_KB=rejected_KB,
            past_weights=[self.population.home(old) if old.generation else None for old in past],
            report_to=self.config.report_to,
            log=self._logger(key),
        )

    def _train(self, lesson: Lesson, newborn: PlayerId) -> None:
        home = self.population.home(newborn)
        self.population.release()
        # The one door that the Trainer leaves open; its own choice lies in the scratch folder, which goes.
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(self.run.folder / "logs" / "tensorboard" / str(newborn))
        facts = self.config.learner.learn(lesson)
        (lesson.home / "training.json").write_text(json.dumps(facts))
        lesson.home.rename(home)
        shutil.rmtree(lesson.scratch, ignore_errors=True)

    def _logger(self, key: str) -> Callable[[dict[str, Any]], None]:
        def log(line: dict[str, Any]) -> None:
            self.run.metric(key, **line)
            self.watcher.advance(int(line.get("steps", 0)))
            self.watcher.numbers(**{name: line[name] for name in ("loss", "tokens_per_second") if name in line})

        return log

    # -- measures ------------------------------------------------------------------------------------------------

    def measure(self, t: int) -> None:
        """How strong generation t is, and what can still beat it."""
        key = f"{t}/measure"
        found = self.ledger.finished(key)
        if found is None:
            with self.recorder.stage("measure", key, t) as facts:
                facts.update(self.config.evaluate.measure(self.arena, t))
                self.run.metric(key, generation=t, **{n: v for n, v in facts.items() if isinstance(v, (int, float))})
            found = self.ledger.finished(key) or {}
        self.watcher.numbers(
            **{n: found[n] for n in ("win_rate", "exploitability", "score", "best_score") if n in found}
        )

    def select(self, t: int) -> None:
        """The best player of all generations up to t, tested once on the prompts that were set aside for it."""
        if self.config.prompts.test and self.ledger.finished("select") is None:
            with self.recorder.stage("select", "select", t) as facts:
                facts.update(self.config.evaluate.select(self.arena, t))


Counts = Callable[[Vote], float | None]


def duels(ledger: Ledger, judge: str, t: int, utility: str, value: Counts = lambda vote: vote.value) -> list[Duel]:
    """The meetings of two different players in generation t, in order, with what each voter gave both.

    `judge` by its name in the ledger; `value` says what a vote counts as. A judge without votes counts as one voter,
    by its scores. A meeting that nobody scored is a duel without scores.
    """
    matches = ledger.matches("train", t)
    words = ledger.judgements_of((match.id for match in matches), judge)
    return [
        Duel(first.name, second.name, _both(words.get(match.id), a, b, utility, value))
        for match in matches
        for (a, first), (b, second) in combinations(match.seats.items(), 2)
        if first.name != second.name
    ]


def _both(
    word: Judgement | None, first: str, second: str, utility: str, value: Counts
) -> dict[str, tuple[float, float]]:
    """voter -> (score of the first seat, score of the second), of those who scored both."""
    given: dict[str, dict[str, list[float]]] = {}
    alone = [vote for vote in word.votes if not vote.other] if word else []
    for vote in alone:
        found = value(vote)
        if found is not None:
            given.setdefault(PlayerId.parse(vote.by).name, {}).setdefault(vote.seat, []).append(found)
    if word and not alone:
        scores = word.scores or {}
        given[word.judge] = {seat: [found[utility]] for seat, found in scores.items() if utility in found}
    return {
        voter: (fmean(by_seat[first]), fmean(by_seat[second]))
        for voter, by_seat in given.items()
        if first in by_seat and second in by_seat
    }
