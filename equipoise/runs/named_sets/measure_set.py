"""Measure players on named sets: every step is recorded, so that nothing is asked twice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_changes

import msgspec

from equipoise import seeds
from equipoise.errors import ConfigError, NoSignal
from equipoise.evaluation.harnesses.base import Harness
from equipoise.evaluation.sets.base import Benchmark, Conversation, asked_prompt
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.question import advice, unread_reply
from equipoise.ledger.benchmark_results import SOURCE, STAGE, stage_key
from equipoise.ledger.database import to_json
from equipoise.ledger.item_scores import (
    Answer,
    Answers,
    BenchmarkResult,
    Items,
    Judged,
    JudgeQuestion,
    Likelihood,
)
from equipoise.ledger.ledger import MEETING
from equipoise.matches.match_play import Batch, play
from equipoise.players.base import Actor, Scorer
from equipoise.players.together import MoveRequest
from equipoise.runs.contexts import judge_context
from equipoise.runs.judge_matches import judge_missing, most_common
from equipoise.runs.monitor import within
from equipoise.runs.named_sets.harness import measure_by_harness
from equipoise.runs.named_sets.recorded_answers import (
    PART,
    planned_conversations,
    recorded_answers,
    recorded_matches,
)
from equipoise.runs.named_sets.results import log
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import answers_at_once, chunks, moves_of, unplayed_chunks
from equipoise.system.effects import code_hash
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, Turn, View, record_id

OTHER = PlayerId("reference")  # who gave the answers that a set's data bring


def measure_set(
    run: OpenRun, name: str, benchmark: Benchmark, items: Items, player: PlayerId
) -> list[BenchmarkResult]:
    """Score `player` on a set called `name`; recorded, and read where it was measured before.

    There is one result, but of a harness one for each task. Raises ConfigError for a player that
    cannot be asked, NoSignal where no answer could be scored.
    """
    if isinstance(benchmark, Harness):
        run.monitor.stage(f"{name}: {benchmark.kind} measures {player}", None, player.generation)
        run.population.release()  # the harness loads the player's weights itself
        return measure_by_harness(run.directory, [player], benchmark, name)
    code = code_hash(benchmark)  # so that what a user's edited set scores is scored anew
    made_by = [code] if code else []
    key = record_id(benchmark.digest, *made_by, run.config.seed, *map(to_json, items))[:16]
    stage = stage_key(name, player, key)
    if code:
        stage = _newest_stage(run, stage, benchmark)
    facts = run.ledger.stage_facts(stage)
    if facts is not None:
        return [BenchmarkResult.read(facts)]
    with run.stage(STAGE, stage, player.generation) as facts:
        result = SetMeasurement(run, name, benchmark, items, player).result(stage)
        result = msgspec.structs.replace(result, key=key)
        log(run.directory, stage, result)
        facts.update(result.facts())
    return [result]


def _newest_stage(run: OpenRun, stage: str, benchmark: Benchmark) -> str:
    """The stage of a set with a user's code: another one where the set was edited, measured and put
    back since, for what was measured last is what readers are shown.
    """
    of_set = stage.rpartition("/")[0]
    own, newest = [], ""
    for key, _, _, facts, _ in run.ledger.stages(STAGE):
        result = BenchmarkResult.read(facts)
        same_judge = result.judge == (benchmark.judge.name if benchmark.judge else "")
        if key.startswith(f"{of_set}/") and result.source == SOURCE and same_judge:
            newest = key
            if key == stage or key.startswith(f"{stage}/"):
                own.append(key)
    if own and newest != own[-1]:
        return f"{stage}/{len(own) + 1}"
    return own[-1] if own else stage


@dataclass(frozen=True)
class SetMeasurement:
    """A player asked the items of a set called `name`, and its answers judged; all is recorded."""

    run: OpenRun
    name: str
    benchmark: Benchmark
    items: Items
    player: PlayerId

    def result(self, stage: str) -> BenchmarkResult:
        """The player's scores; each item's are recorded under `stage`. Raises NoSignal."""
        run = self.run
        benchmark = self.benchmark
        items = self.items
        player = self.player
        run.ledger.add_prompts([asked_prompt(item) for item in items], PART, player.generation)
        answers = self.answers_of(player)
        if benchmark.judge is None:
            judged = []
        elif isinstance(benchmark.game_played, Conversation):
            judged = self._judge_answers(benchmark.judge, answers)
        else:
            judged = self._judge_games(benchmark.judge)
        scores = benchmark.score(items, answers, judged)
        benchmark.check_scores(scores)
        result = benchmark.summary(scores, items)
        reasons = Counter(row.reason for row in scores if row.reason)
        if result.unscored and result.unscored == len(scores):
            judge = benchmark.judge
            example = ""
            if judge is not None:
                unread = unread_reply(run.ledger.without_score(judge.name, PART))
                if unread:
                    example = f". For example: {unread}. {advice(judge, unread)}"
            raise NoSignal(f"{self.name}: no answer has a score. {most_common(reasons)}{example}")
        run.ledger.add_benchmark_scores(stage, scores)
        return msgspec.structs.replace(
            result,
            name=self.name,
            player=str(player),
            source=SOURCE,
            reasons=dict(reasons),
            settings=benchmark.settings(),
        )

    # -- judging

    def _judge_answers(self, judge: Judge, answers: Answers) -> list[Judged]:
        """Have the judge score the answers, in the order of `questions`."""
        against_start = self.benchmark.against_start
        start = PlayerId(self.player.name)
        others = self.answers_of(start) if against_start else {}
        questions = self.benchmark.questions(self.items, answers, others)
        opponent = start if against_start else OTHER
        matches = [self._as_match(question, opponent) for question in questions]
        self.run.ledger.add_matches(matches)
        judgements = self._judgements(judge, matches, [each.prompt for each in questions])
        return [
            Judged(question, judgement.utilities("1") or None, judgement.reason)
            for question, judgement in zip(questions, judgements, strict=True)
        ]

    def _judge_games(self, judge: Judge) -> list[Judged]:
        """Have the judge score matches of a game, by item, sample and seat."""
        self._ask(self.items, self.player)
        seed = self.run.config.seed
        played = recorded_matches(self.run.ledger, seed, self.benchmark, self.items, self.player)
        prompts = [item.prompt for item, _ in played]
        judgements = self._judgements(judge, [match for _, match in played], prompts)
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
        self, judge: Judge, matches: Sequence[Match], prompts: Sequence[Prompt]
    ) -> list[Judgement]:
        """The judgement of each match on its prompt, made where none is recorded."""
        run = self.run
        generation = self.player.generation
        by_id = {prompt.id: prompt for prompt in prompts}
        run.ledger.add_prompts(by_id.values(), PART, generation)
        ids = [match.id for match in matches]
        known = run.ledger.judgements_of(ids, judge.name)
        waiting = [match for match in matches if match.id not in known]
        if waiting:
            run.monitor.stage(f"{self.name}: judge {self.player}", len(waiting), generation)
            judge_missing(run, judge.at(_judge_context(run, self.benchmark)), waiting, by_id)
        recorded = run.ledger.judgements_of(ids, judge.name)
        return [recorded[match.id] for match in matches]

    def _as_match(self, question: JudgeQuestion, opponent: PlayerId) -> Match:
        """A question to the judge as a match: the answer in seat 1, the other in seat 2."""
        view = View(question.prompt.messages)
        turns = [Turn("1", view, question.answer)]
        seats = {"1": self.player}
        if question.other is not None:
            failed = question.other_error
            other = Move("", "error", error=failed) if failed else Move(question.other)
            turns.append(Turn("2", view, other))
            seats["2"] = opponent
        texts = [turn.move.text for turn in turns]
        seed = seeds.child(self.run.config.seed, PART, self.benchmark.seed)
        # The facts are part of it, for judges read them.
        content = (to_json(question.prompt), question.sample)
        identity = record_id("shown", seed, *content, *seats.values(), *texts)
        return Match(
            id=identity,
            generation=self.player.generation,
            split=PART,
            game=MEETING,
            prompt=question.prompt.id,
            seats=seats,
            seed=seeds.child(seed, "shown", identity),
            turns=tuple(turns),
        )

    # -- asking

    def answers_of(self, player: PlayerId) -> dict[str, list[Answer]]:
        """Item id -> `samples` answers of each of the player's seats. Raises ConfigError."""
        sampled = [item for item in self.items if not item.choices]
        scored = [item for item in self.items if item.choices]
        self._ask(sampled, player)
        seed = self.run.config.seed
        answers = recorded_answers(self.run.ledger, seed, self.benchmark, sampled, player)
        return answers | _likelihoods(self.run, self.name, scored, player) if scored else answers

    def _ask(self, items: Items, player: PlayerId) -> None:
        run = self.run
        benchmark = self.benchmark
        conversations = planned_conversations(run.config.seed, benchmark, items, player)
        known = run.ledger.recorded_ids("matches", [plan.id for plan in conversations])
        # What a killed measurement left are whole chunks, so that those that follow are composed as
        # they would have been.
        planned = [plan for plan in conversations if plan.id not in known]
        if not planned:
            return
        run.monitor.stage(f"{self.name}: {player} answers", len(planned), player.generation)

        actor = _actor(run, player, benchmark.temperature, benchmark.max_new_tokens)

        def act(batches: Sequence[Batch]) -> list[list[Move]]:
            requests = [MoveRequest(actor, views, dice) for _, views, dice in batches]
            return run.dispatcher.act(requests)  # in the same units, whoever works

        for chunk in unplayed_chunks(run, planned):
            with within(run.monitor, len(chunk), moves_of(benchmark.game_played, chunk)):
                made = play(chunk, benchmark.game_played, None, act)
            run.ledger.add_matches(made)


def _judge_context(run: OpenRun, benchmark: Benchmark) -> JudgeContext:
    """The same for every player, so that all are judged alike."""
    seed = seeds.child(run.config.seed, PART, "judge", benchmark.seed)
    return with_changes(judge_context(run, 0), game=benchmark.game_played, seed=seed)


def _actor(
    run: OpenRun,
    player: PlayerId,
    temperature: float | None = None,
    max_new_tokens: int | None = None,
) -> Actor:
    """The open actor; its paths are relative to the run's folder, sets' to the current one."""
    with run.directory.in_starting_folder():
        return run.population.actor_with(player, temperature, max_new_tokens)


# -- the likelihood of choices


def _likelihoods(
    run: OpenRun, name: str, items: Items, player: PlayerId
) -> dict[str, list[Answer]]:
    actor = _actor(run, player)
    if not isinstance(actor, Scorer):
        kind = run.config.players[player.name].kind
        raise ConfigError(
            f"{name}: players.{player.name}: a player of kind '{kind}' gives no "
            "likelihoods of given answers; measure a local model, or a set whose "
            "answers are generated"
        )
    rows = [text for item in items for text in item.continuations]
    run.monitor.stage(f"{name}: {player} scores", len(rows), player.generation)
    known = run.ledger.logprobs(player, actor.encoding, [row.key for row in rows])
    for chunk in chunks(rows, answers_at_once(run)):
        missing = {row.key: row for row in chunk if row.key not in known}
        if missing:
            texts = list(missing)
            continuations = list(missing.values())
            with within(run.monitor, len(texts), len(texts)):
                values = actor.logprobs(
                    [row.messages for row in continuations],
                    [row.text for row in continuations],
                    whole=True,
                    cut=[not row.ended for row in continuations],
                )
            run.ledger.add_logprobs(player, actor.encoding, texts, values)
            known |= dict(zip(texts, values, strict=True))
        run.monitor.advance(len(chunk))
    answers = {}
    for item in items:
        likelihoods = tuple(Likelihood(*known[text.key]) for text in item.continuations)
        answers[item.id] = [Answer(item=item.id, likelihoods=likelihoods)]
    return answers
