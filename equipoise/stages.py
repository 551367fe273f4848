"""The steps of a generation, each done once: recorded under its key, skipped when the run is resumed.

What a stage computes is a pure function of the configuration and the records before it, and it is recorded in whole
chunks whose composition never changes; so a run that was killed and resumed ends with the same records and numbers.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from equipoise import seeds
from equipoise.data.logprobs import opponent_logprobs
from equipoise.errors import ConfigError, NoSignal
from equipoise.games.base import Game
from equipoise.learners.base import Lesson
from equipoise.matches.base import Lobby, Planned
from equipoise.matches.play import play
from equipoise.players.base import Distribution
from equipoise.players.population import Population
from equipoise.prompts.split import split
from equipoise.ratings.base import Ratings
from equipoise.run import Run
from equipoise.solvers.base import Solver
from equipoise.types import Judgement, Match, Move, Pair, PlayerId, Prompt, View, record_id

Seatings = Sequence[tuple[Prompt, dict[str, PlayerId]]]


class Watcher(Protocol):
    """Whoever watches the run: a terminal, or nobody."""

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """A stage of a generation begins; `total` is how many steps it has."""
        ...

    def advance(self, n: int = 1) -> None:
        """`n` more steps are done."""
        ...

    def numbers(self, **named: Any) -> None:
        """The numbers that matter have changed."""
        ...


class RunStages:
    """`loop.Stages` over a run directory, and the arena in which evaluations measure."""

    def __init__(self, run: Run, watcher: Watcher) -> None:
        self.run, self.config, self.ledger, self.watcher = run, run.config, run.ledger, watcher
        self.population = Population(self.config.players, run.folder / "players")
        self.judge_at_table = self.config.judge.at(self)  # type: ignore[arg-type]
        self._policies: dict[PlayerId, np.ndarray] = {}
        self._scores: dict[tuple[PlayerId, int], dict[str, list[float | None]]] = {}

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

    @property
    def game(self) -> Game:
        """The run's game."""
        return self.config.game

    @property
    def solver(self) -> Solver:
        """How the run finds equilibria."""
        return self.config.solver

    @property
    def ratings(self) -> Ratings:
        """How the run rates players."""
        return self.config.ratings

    # -- prompts -------------------------------------------------------------------------------------------------

    def deal(self, t: int) -> list[Prompt]:
        """The prompts of generation t."""
        self._deal_all()
        return self.ledger.prompts("train", t)

    @cached_property
    def held_out_prompts(self) -> list[Prompt]:
        """The prompts that no learner is taught."""
        self._deal_all()
        return self.ledger.prompts("held_out", 0)

    def _deal_all(self) -> None:
        """Read the source once and record every part, so that a resumed run does not depend on the file any more."""
        if self.ledger.finished("deal") is not None:
            return
        self.watcher.stage("prompts")
        with self._stage("deal", 0) as facts, self.ledger.transaction():
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
        learners = self.learners(t)
        history = [old for learner in learners for old in self.past(learner)[1:]]
        seed = seeds.child(self.config.seed, "seats", t)
        seatings = self.config.schedule.seatings(prompts, Lobby(self.game, learners + self.others(), history, seed))
        return self._matches(f"{t}/play", seatings, t, "train")

    def _matches(self, key: str, seatings: Seatings, t: int, part: str) -> list[Match]:
        """Play what is not recorded yet, a chunk at a time, and return all matches of `key` in order."""
        planned = [self._planned(i, prompt, seats, t, part) for i, (prompt, seats) in enumerate(seatings)]
        size = self.config.commit_every
        chunks = [planned[start : start + size] for start in range(0, len(planned), size)]
        if self.ledger.finished(key) is None:
            self.watcher.stage("play" if part == "train" else "play held-out", len(planned), t)
            with self._stage(key, t) as facts:
                known = self.ledger.known("matches", [plan.id for plan in planned])
                for chunk in chunks:
                    if not all(plan.id in known for plan in chunk):
                        started = time.perf_counter()
                        matches = play(chunk, self.game, self._act)
                        self.ledger.add_matches(matches)
                        tokens = sum(len(turn.move.token_ids) for match in matches for turn in match.turns)
                        if tokens:
                            self.watcher.numbers(tokens_per_second=tokens / (time.perf_counter() - started))
                    self.watcher.advance(len(chunk))
                facts.update(matches=len(planned))
        order = {plan.id: i for i, plan in enumerate(planned)}
        return sorted((m for m in self.ledger.matches(part, t) if m.id in order), key=lambda m: order[m.id])

    def _planned(self, i: int, prompt: Prompt, seats: dict[str, PlayerId], t: int, part: str) -> Planned:
        who = ",".join(f"{seat}={player}" for seat, player in seats.items())
        identity = record_id("match", self.config.seed, part, t, i, prompt.id, who)
        return Planned(identity, t, part, prompt, seats, seeds.child(self.config.seed, "match", identity))

    def _act(self, player: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
        return self.population.actor(player).act(views, dice)

    def judge(self, matches: Sequence[Match], t: int) -> list[Judgement]:
        """A judgement of each match of generation t."""
        return self._judgements(f"{t}/judge", matches, t, {p.id: p for p in self.ledger.prompts("train", t)})

    def _judgements(self, key: str, matches: Sequence[Match], t: int, prompts: dict[str, Prompt]) -> list[Judgement]:
        found = self.ledger.judgements_of(match.id for match in matches)
        if self.ledger.finished(key) is None:
            self.watcher.stage("judge", len(matches), t)
            with self._stage(key, t) as facts:
                for start in range(0, len(matches), self.config.commit_every):
                    chunk = matches[start : start + self.config.commit_every]
                    if not all(match.id in found for match in chunk):
                        words = self.judge_at_table.judge(chunk, prompts)
                        self.ledger.add_judgements(zip(chunk, words, strict=True))
                    self.watcher.advance(len(chunk))
                found = self.ledger.judgements_of(match.id for match in matches)
                facts.update(self._unjudged(matches, found))
        return [found[match.id] for match in matches]

    def _unjudged(self, matches: Sequence[Match], found: dict[str, Judgement]) -> dict[str, Any]:
        """Count the seats without a score; raise NoSignal when they are too many."""
        missing, seats, reasons = 0, 0, Counter()
        for match in matches:
            word = found[match.id]
            absent = [seat for seat in match.seats if self.config.utility not in (word.scores or {}).get(seat, {})]
            seats += len(match.seats)
            missing += len(absent)
            if absent:
                reasons[word.reason or "no score for a seat"] += 1
        share = missing / max(1, seats)
        self.watcher.numbers(unjudged_share=share)
        if share > self.config.max_unjudged:
            why = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common(2))
            why += f"; and {len(reasons) - 2} other reasons" if len(reasons) > 2 else ""
            raise NoSignal(
                f"judge '{self.config.judge.kind}': {share:.0%} of {seats} answers have no "
                f"'{self.config.utility}' score, more than max_unjudged = {self.config.max_unjudged:.0%}. {why}"
            )
        return {"answers": seats, "unjudged_share": share, "reasons": dict(reasons)}

    # -- lessons -------------------------------------------------------------------------------------------------

    def pair(self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId) -> list[Pair]:
        """What `learner` is taught of the matches."""
        t = learner.generation
        if self.config.learner.needs == "game":
            return []
        key = f"{t}/pair/{learner.name}"
        if self.ledger.finished(key) is None:
            self.watcher.stage("pairs", None, t)
            with self._stage(key, t) as facts:
                pairs, dropped = self.config.pairs.make(matches, judgements, self.config.utility)
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
            with self._stage(key, learner.generation) as facts:
                home = self.population.home(newborn)
                if not home.is_dir():
                    lesson = self._lesson(key, list(pairs), learner, home)
                    self.watcher.stage("learn", self.config.learner.steps(len(pairs)), learner.generation)
                    self._train(lesson, newborn)
                facts.update(json.loads((home / "training.json").read_text()))
                self.ledger.add_player(newborn, learner, self.config.learner.kind, facts)
            if self.config.keep != "all":
                self.population.forget(learner.name, self.config.keep)
        return newborn

    def _lesson(self, key: str, pairs: list[Pair], learner: PlayerId, home: Any) -> Lesson:
        past = self.past(learner)
        draft = home.with_name(f".{home.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        loss, needs = self.config.loss, self.config.learner.needs
        opponents = loss.opponents(past) if loss is not None and needs != "answers" else []
        chosen_KB = rejected_KB = np.zeros((len(opponents), len(pairs)))
        if needs == "pairs" and opponents:
            self.watcher.stage("opponents' log-probabilities", 2 * len(pairs) * len(opponents), learner.generation)
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
            game=self.game,
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
            with self._stage(key, t) as facts:
                facts.update(self.config.evaluate.measure(self, t))
                self.run.metric(key, generation=t, **{n: v for n, v in facts.items() if isinstance(v, (int, float))})
            found = self.ledger.finished(key) or {}
        self.watcher.numbers(**{n: found[n] for n in ("win_rate", "exploitability", "score") if n in found})

    def held_out(self, player: PlayerId, samples: int) -> dict[str, list[float | None]]:
        """Held-out prompt id -> the scores of `player`'s answers, None where unjudged."""
        if (player, samples) not in self._scores:
            self._scores[player, samples] = self._play_held_out(player, samples)
        return self._scores[player, samples]

    def _play_held_out(self, player: PlayerId, samples: int) -> dict[str, list[float | None]]:
        t, key = player.generation, f"{player.generation}/held_out/{player.name}"
        seats = dict.fromkeys(self.game.seats, player)
        rounds = -(-samples // len(seats))
        seatings = [(prompt, seats) for _ in range(rounds) for prompt in self.held_out_prompts]
        matches = self._matches(f"{key}/play", seatings, t, "held_out")
        words = self._judgements(f"{key}/judge", matches, t, {p.id: p for p in self.held_out_prompts})
        scores: dict[str, list[float | None]] = {}
        for match, word in zip(matches, words, strict=True):
            found = [(word.scores or {}).get(seat, {}).get(self.config.utility) for seat in match.seats]
            scores.setdefault(match.prompt, []).extend(found)
        return {prompt: found[:samples] for prompt, found in scores.items()}

    def probabilities(self, player: PlayerId, actions: Sequence[str]) -> np.ndarray:
        """A tabular player's probabilities of `actions`."""
        if player not in self._policies:
            actor = self.population.actor(player)
            if not isinstance(actor, Distribution):
                raise ConfigError(f"players.{player.name}: exact measures need a tabular player")
            self._policies[player] = np.asarray(actor.probabilities(actions))
        return self._policies[player]

    # -- bookkeeping ---------------------------------------------------------------------------------------------

    @contextmanager
    def _stage(self, key: str, t: int) -> Iterator[dict[str, Any]]:
        """Time a stage and mark it finished with the facts that it gathered."""
        started, facts = time.perf_counter(), {}
        yield facts
        self.ledger.finish(key, t, key.split("/")[-1], facts, time.perf_counter() - started)
