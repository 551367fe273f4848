"""Measures players on benchmarks: asks, judges and scores, and records every step, so that nothing
is asked twice and a killed measurement goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_changes

import msgspec

from equipoise import seeds
from equipoise.errors import NoSignal
from equipoise.evaluation.named_sets.base import Benchmark
from equipoise.evaluation.named_sets.conversation import Conversation, asked_prompt
from equipoise.evaluation.named_sets.records import (
    Answer,
    BenchmarkResult,
    Item,
    Judged,
    JudgeQuestion,
)
from equipoise.judges.base import Judge, JudgeContext
from equipoise.players.population import Population
from equipoise.runs.contexts import Contexts
from equipoise.runs.database import to_json
from equipoise.runs.directory import RunDirectory
from equipoise.runs.ledger import MEETING
from equipoise.runs.monitor import Monitor
from equipoise.runs.named_sets.answers import PART
from equipoise.runs.named_sets.asking import BenchmarkAsking
from equipoise.runs.named_sets.results import SOURCE, STAGE, log, stage_key
from equipoise.runs.recorder import Recorder, most_common
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, Turn, View, record_id

OTHER = PlayerId("reference")  # who gave the answers that a set's data bring


class BenchmarkMeasurement:
    """Measures players of one run."""

    def __init__(
        self,
        run: RunDirectory,
        population: Population,
        recorder: Recorder,
        contexts: Contexts,
        monitor: Monitor,
    ) -> None:
        self._run = run
        self._ledger = run.ledger
        self._asking = BenchmarkAsking(run, population, recorder, monitor)
        self._recorder = recorder
        self._contexts = contexts
        self._monitor = monitor

    def measure(
        self, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
    ) -> BenchmarkResult:
        """What `player` scores on a set that the run calls `name`; recorded, and read from the
        records where it was measured before.

        Raises ConfigError for a player that cannot be asked, NoSignal where no answer could be
        scored.
        """
        key = self._key(benchmark, items)
        stage = stage_key(name, player, key)
        facts = self._ledger.finished(stage)
        if facts is not None:
            return BenchmarkResult.read(facts)
        with self._recorder.stage(STAGE, stage, player.generation) as facts:
            result = self._measured(name, benchmark, items, player, stage)
            result = msgspec.structs.replace(result, key=key)
            log(self._run, stage, result)
            facts.update(result.facts())
        return result

    def _measured(
        self, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId, stage: str
    ) -> BenchmarkResult:
        """Ask, judge and score; what each item scored is recorded."""
        self._ledger.add_prompts([asked_prompt(item) for item in items], PART, player.generation)
        answers = self._asking.answers(name, benchmark, items, player)
        if benchmark.judge is None:
            judged = []
        elif isinstance(benchmark.game_played, Conversation):
            judged = self._judged(name, benchmark, benchmark.judge, items, player, answers)
        else:
            judged = self._judged_games(name, benchmark, benchmark.judge, items, player)
        scores = benchmark.score(items, answers, judged)
        result = benchmark.summary(scores, items)
        reasons = Counter(row.reason for row in scores if row.reason)
        if result.unscored and result.unscored == len(scores):
            raise NoSignal(f"{name}: no answer has a score. {most_common(reasons)}")
        self._ledger.add_benchmark_scores(stage, scores)
        return msgspec.structs.replace(
            result,
            name=name,
            player=str(player),
            source=SOURCE,
            reasons=dict(reasons),
            settings=benchmark.settings(),
        )

    def _key(self, benchmark: Benchmark, items: Sequence[Item]) -> str:
        """A hash of everything that decides the result but the player."""
        seed = self._run.config.seed
        return record_id(benchmark.digest, seed, *map(to_json, items))[:16]

    # -- judging

    def _judged(
        self,
        name: str,
        benchmark: Benchmark,
        judge: Judge,
        items: Sequence[Item],
        player: PlayerId,
        answers: Mapping[str, Sequence[Answer]],
    ) -> list[Judged]:
        """What the judge makes of the answers, in the order of `questions`."""
        start = PlayerId(player.name)
        others: Mapping[str, Sequence[Answer]] = {}
        if benchmark.against_start:
            others = self._asking.answers(name, benchmark, items, start)
        questions = benchmark.questions(items, answers, others)
        opponent = start if benchmark.against_start else OTHER
        matches = [self._shown(q, benchmark, player, opponent) for q in questions]
        self._ledger.add_matches(matches)
        prompts = [question.prompt for question in questions]
        judgements = self._judgements(name, benchmark, judge, matches, prompts, player)
        return [
            Judged(question, judgement.utilities("1") or None, judgement.reason)
            for question, judgement in zip(questions, judgements, strict=True)
        ]

    def _judged_games(
        self, name: str, benchmark: Benchmark, judge: Judge, items: Sequence[Item], player: PlayerId
    ) -> list[Judged]:
        """What the judge makes of matches of a game, by item, sample and seat."""
        played = self._asking.matches(name, benchmark, items, player)
        matches = [match for _, match in played]
        prompts = [item.prompt for item, _ in played]
        judgements = self._judgements(name, benchmark, judge, matches, prompts, player)
        judged = []
        samples: Counter[str] = Counter()
        for (item, match), judgement in zip(played, judgements, strict=True):
            last = {turn.seat: turn.move for turn in match.turns}
            for seat in match.seats:
                move = last.get(seat, Move("", "error", error="it never moved"))
                question = JudgeQuestion(item.id, samples[item.id], 0, item.prompt, move)
                utilities = judgement.utilities(seat) or None
                judged.append(Judged(question, utilities, judgement.reason))
                samples[item.id] += 1
        return judged

    def _judgements(
        self,
        name: str,
        benchmark: Benchmark,
        judge: Judge,
        matches: Sequence[Match],
        prompts: Sequence[Prompt],
        player: PlayerId,
    ) -> list[Judgement]:
        """The judgement of each match on its prompt, made where none is recorded."""
        by_id = {prompt.id: prompt for prompt in prompts}
        self._ledger.add_prompts(by_id.values(), PART, player.generation)
        ids = [match.id for match in matches]
        known = self._ledger.judgements_of(ids, judge.name)
        waiting = [match for match in matches if match.id not in known]
        if waiting:
            title = f"{name}: judge {player}"
            self._monitor.stage(title, len(waiting), player.generation)
            self._recorder.judge(judge.at(self._context(benchmark)), waiting, by_id)
        recorded = self._ledger.judgements_of(ids, judge.name)
        return [recorded[match.id] for match in matches]

    def _shown(
        self, question: JudgeQuestion, benchmark: Benchmark, player: PlayerId, opponent: PlayerId
    ) -> Match:
        """What the judge is shown, as a match: the answer in seat 1, the other in seat 2."""
        view = View(question.prompt.messages)
        turns = [Turn("1", view, question.answer)]
        seats = {"1": player}
        if question.other is not None:
            turns.append(Turn("2", view, Move(question.other)))
            seats["2"] = opponent
        texts = [turn.move.text for turn in turns]
        seed = seeds.child(self._run.config.seed, PART, benchmark.seed)
        # The facts are part of it, for judges read them.
        content = (to_json(question.prompt), question.sample)
        identity = record_id("shown", seed, *content, *seats.values(), *texts)
        return Match(
            id=identity,
            generation=player.generation,
            split=PART,
            game=MEETING,
            prompt=question.prompt.id,
            seats=seats,
            seed=seeds.child(seed, "shown", identity),
            turns=tuple(turns),
        )

    def _context(self, benchmark: Benchmark) -> JudgeContext:
        """The same for every player, so that all are judged alike."""
        context = self._contexts.judge(0)
        seed = seeds.child(self._run.config.seed, PART, "judge", benchmark.seed)
        return with_changes(context, game=benchmark.game_played, seed=seed)
