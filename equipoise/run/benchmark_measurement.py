"""Measures players on benchmarks: asks, judges and scores, and records every step, so
that nothing is asked twice and a killed measurement goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_changes

import msgspec

from equipoise import seeds
from equipoise.errors import ConfigError, NoSignal
from equipoise.evaluate.benchmarks.base import Benchmark
from equipoise.evaluate.benchmarks.conversation import Conversation, asked_prompt
from equipoise.evaluate.benchmarks.records import (
    Answer,
    BenchmarkResult,
    Continuation,
    Item,
    Judged,
    JudgeQuestion,
    Likelihood,
)
from equipoise.judges.base import JudgeContext
from equipoise.players.base import Actor, Scorer, TextScorer
from equipoise.players.population import Population
from equipoise.run.arena import MEETING
from equipoise.run.benchmark_answers import (
    PART,
    planned_conversations,
    recorded_answers,
)
from equipoise.run.benchmarks import SOURCE, STAGE, log, stage_key
from equipoise.run.contexts import Contexts
from equipoise.run.database import to_json
from equipoise.run.directory import RunDirectory
from equipoise.run.monitor import Monitor
from equipoise.run.recorder import Recorder, chunks, most_common
from equipoise.types import Match, Move, PlayerId, Turn, View, record_id

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
        self._population = population
        self._recorder = recorder
        self._contexts = contexts
        self._monitor = monitor

    def measure(
        self, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
    ) -> BenchmarkResult:
        """What `player` scores on a set that the run calls `name`; recorded, and read
        from the records where it was measured before.

        Raises ConfigError for a player that cannot be asked, NoSignal where no answer
        could be scored.
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
        self,
        name: str,
        benchmark: Benchmark,
        items: Sequence[Item],
        player: PlayerId,
        stage: str,
    ) -> BenchmarkResult:
        """Ask, judge and score; what each item scored is recorded."""
        self._ledger.add_prompts(
            [asked_prompt(item) for item in items], PART, player.generation
        )
        answers = self._answers(name, benchmark, items, player)
        judged = self._judged(name, benchmark, items, player, answers)
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

    # -- asking the player

    def _answers(
        self,
        name: str,
        benchmark: Benchmark,
        items: Sequence[Item],
        player: PlayerId,
    ) -> dict[str, list[Answer]]:
        """Item id -> the player's answers, asked where they are not recorded."""
        sampled = [item for item in items if not item.choices]
        scored = [item for item in items if item.choices]
        answers = self._sampled(name, benchmark, sampled, player) if sampled else {}
        if scored:
            answers |= self._likelihoods(name, scored, player)
        return answers

    def _sampled(
        self, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
    ) -> dict[str, list[Answer]]:
        seed = self._run.config.seed
        planned = planned_conversations(seed, benchmark, items, player)
        self._monitor.stage(
            f"{name}: {player} answers", len(planned), player.generation
        )

        def act(asked: PlayerId, views: list[View], dice: list[int]) -> list[Move]:
            actor = self._actor(asked, benchmark.temperature, benchmark.max_new_tokens)
            return actor.act(views, dice)

        self._recorder.play(planned, Conversation(), act)
        return recorded_answers(self._ledger, seed, benchmark, items, player)

    def _actor(
        self,
        player: PlayerId,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
    ) -> Actor:
        """The open actor. Relative paths of players mean what they meant when the run
        was started, those of sets and their judges what they mean now.
        """
        with self._run.started_in():
            return self._population.actor_with(player, temperature, max_new_tokens)

    # -- the likelihood of choices

    def _likelihoods(
        self, name: str, items: Sequence[Item], player: PlayerId
    ) -> dict[str, list[Answer]]:
        actor = self._actor(player)
        if not isinstance(actor, Scorer):
            kind = self._run.config.players[player.name].kind
            raise ConfigError(
                f"{name}: players.{player.name}: a player of kind '{kind}' gives no "
                "likelihoods of given answers; measure a local model, or a set whose "
                "answers are generated"
            )
        rows = [text for item in items for text in item.continuations]
        self._monitor.stage(f"{name}: {player} scores", len(rows), player.generation)
        keys = [row.key for row in rows]
        known = self._ledger.logprobs(player, actor.encoding, keys)
        for chunk in chunks(rows, self._run.config.commit_every):
            missing = {row.key: row for row in chunk if row.key not in known}
            for plain in (False, True):
                part = {key: row for key, row in missing.items() if row.plain == plain}
                if part:
                    texts = list(part)
                    values = _logprobs(name, player, actor, list(part.values()), plain)
                    self._ledger.add_logprobs(player, actor.encoding, texts, values)
                    known |= dict(zip(texts, values, strict=True))
            self._monitor.advance(len(chunk))
        return {
            item.id: [
                Answer(
                    item=item.id,
                    likelihoods=tuple(
                        Likelihood(*known[text.key]) for text in item.continuations
                    ),
                )
            ]
            for item in items
        }

    # -- judging

    def _judged(
        self,
        name: str,
        benchmark: Benchmark,
        items: Sequence[Item],
        player: PlayerId,
        answers: Mapping[str, Sequence[Answer]],
    ) -> list[Judged]:
        """What the judge makes of the answers, in the order of `questions`."""
        judge = benchmark.judge
        if judge is None:
            return []
        start = PlayerId(player.name)
        others: Mapping[str, Sequence[Answer]] = {}
        if benchmark.against_start:
            others = self._answers(name, benchmark, items, start)
        questions = benchmark.questions(items, answers, others)
        opponent = start if benchmark.against_start else OTHER
        matches = [self._shown(q, benchmark, player, opponent) for q in questions]
        prompts = {question.prompt.id: question.prompt for question in questions}
        self._ledger.add_prompts(prompts.values(), PART, player.generation)
        self._ledger.add_matches(matches)
        self._monitor.stage(f"{name}: judge {player}", len(matches), player.generation)
        self._recorder.judge(judge.at(self._context(benchmark)), matches, prompts)
        recorded = self._ledger.judgements_of([m.id for m in matches], judge.name)
        judged = []
        for question, match in zip(questions, matches, strict=True):
            judgement = recorded[match.id]
            utilities = judgement.utilities("1") or None
            judged.append(Judged(question, utilities, judgement.reason))
        return judged

    def _shown(
        self,
        question: JudgeQuestion,
        benchmark: Benchmark,
        player: PlayerId,
        opponent: PlayerId,
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
        identity = record_id(
            "shown", seed, question.prompt.id, question.sample, *seats.values(), *texts
        )
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
        return with_changes(context, game=Conversation(), seed=seed)


def _logprobs(
    name: str,
    player: PlayerId,
    actor: Actor,
    rows: Sequence[Continuation],
    plain: bool,
) -> list[tuple[float, int]]:
    """(log p of each text after what comes before it, its tokens)."""
    texts = [row.text for row in rows]
    if not plain:
        assert isinstance(actor, Scorer)
        chats = [row.messages for row in rows]
        return actor.logprobs(chats, texts, whole=True, cut=[True] * len(rows))
    if not isinstance(actor, TextScorer):
        raise ConfigError(
            f"{name}: {player} cannot score plain texts without a chat template; "
            "measure a local model"
        )
    contexts = [row.messages[-1].content for row in rows]
    return actor.continuation_logprobs(contexts, texts)
