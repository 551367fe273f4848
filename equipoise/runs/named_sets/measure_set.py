"""Measure players on named sets: every step is recorded, so that nothing is asked twice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_changes

import msgspec

from equipoise import seeds
from equipoise.errors import ConfigError, NoSignal
from equipoise.evaluation.named_sets.base import Benchmark, Conversation, asked_prompt
from equipoise.evaluation.named_sets.item_scores import (
    Answer,
    BenchmarkResult,
    Continuation,
    Item,
    Judged,
    JudgeQuestion,
    Likelihood,
)
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.question import advice, unread_reply
from equipoise.matches.match_play import Batch, play
from equipoise.players.base import Actor, Scorer, TextScorer
from equipoise.runs.contexts import judge_context
from equipoise.runs.database import to_json
from equipoise.runs.judge_matches import judge_missing, most_common
from equipoise.runs.ledger import MEETING
from equipoise.runs.monitor import within
from equipoise.runs.named_sets.recorded_answers import (
    PART,
    planned_conversations,
    recorded_answers,
    recorded_matches,
)
from equipoise.runs.named_sets.results import SOURCE, STAGE, log, stage_key
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import chunks, moves_of, unplayed_chunks
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, Turn, View, record_id

OTHER = PlayerId("reference")  # who gave the answers that a set's data bring


def measure_set(
    run: OpenRun, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
) -> BenchmarkResult:
    """Score `player` on a set called `name`; recorded, and read where it was measured before.

    Raises ConfigError for a player that cannot be asked, NoSignal where no answer could be scored.
    """
    key = record_id(benchmark.digest, run.config.seed, *map(to_json, items))[:16]
    stage = stage_key(name, player, key)
    facts = run.ledger.stage_facts(stage)
    if facts is not None:
        return BenchmarkResult.read(facts)
    with run.stage(STAGE, stage, player.generation) as facts:
        result = _measure(run, name, benchmark, items, player, stage)
        result = msgspec.structs.replace(result, key=key)
        log(run.directory, stage, result)
        facts.update(result.facts())
    return result


def _measure(
    run: OpenRun,
    name: str,
    benchmark: Benchmark,
    items: Sequence[Item],
    player: PlayerId,
    stage: str,
) -> BenchmarkResult:
    run.ledger.add_prompts([asked_prompt(item) for item in items], PART, player.generation)
    answers = _record_answers(run, name, benchmark, items, player)
    if benchmark.judge is None:
        judged = []
    elif isinstance(benchmark.game_played, Conversation):
        judged = _judge_answers(run, name, benchmark, benchmark.judge, items, player, answers)
    else:
        judged = _judge_games(run, name, benchmark, benchmark.judge, items, player)
    scores = benchmark.score(items, answers, judged)
    result = benchmark.summary(scores, items)
    reasons = Counter(row.reason for row in scores if row.reason)
    if result.unscored and result.unscored == len(scores):
        raise NoSignal(
            f"{name}: no answer has a score. {most_common(reasons)}{_unread(run, benchmark)}"
        )
    run.ledger.add_benchmark_scores(stage, scores)
    return msgspec.structs.replace(
        result,
        name=name,
        player=str(player),
        source=SOURCE,
        reasons=dict(reasons),
        settings=benchmark.settings(),
    )


# -- judging


def _unread(run: OpenRun, benchmark: Benchmark) -> str:
    """One reply in which no verdict could be found, and what may help; "" for none."""
    judge = benchmark.judge
    unread = unread_reply(run.ledger.without_score(judge.name, PART)) if judge else ""
    return f". For example: {unread}. {advice(judge, unread)}" if judge and unread else ""


def _judge_answers(
    run: OpenRun,
    name: str,
    benchmark: Benchmark,
    judge: Judge,
    items: Sequence[Item],
    player: PlayerId,
    answers: Mapping[str, Sequence[Answer]],
) -> list[Judged]:
    """Have the judge score the answers, in the order of `questions`."""
    start = PlayerId(player.name)
    others: Mapping[str, Sequence[Answer]] = {}
    if benchmark.against_start:
        others = _record_answers(run, name, benchmark, items, start)
    questions = benchmark.questions(items, answers, others)
    opponent = start if benchmark.against_start else OTHER
    matches = [_as_match(run, q, benchmark, player, opponent) for q in questions]
    run.ledger.add_matches(matches)
    prompts = [question.prompt for question in questions]
    judgements = _record_judgements(run, name, benchmark, judge, matches, prompts, player)
    return [
        Judged(question, judgement.utilities("1") or None, judgement.reason)
        for question, judgement in zip(questions, judgements, strict=True)
    ]


def _judge_games(
    run: OpenRun,
    name: str,
    benchmark: Benchmark,
    judge: Judge,
    items: Sequence[Item],
    player: PlayerId,
) -> list[Judged]:
    """Have the judge score matches of a game, by item, sample and seat."""
    played = _record_games(run, name, benchmark, items, player)
    matches = [match for _, match in played]
    prompts = [item.prompt for item, _ in played]
    judgements = _record_judgements(run, name, benchmark, judge, matches, prompts, player)
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


def _record_judgements(
    run: OpenRun,
    name: str,
    benchmark: Benchmark,
    judge: Judge,
    matches: Sequence[Match],
    prompts: Sequence[Prompt],
    player: PlayerId,
) -> list[Judgement]:
    """The judgement of each match on its prompt, made where none is recorded."""
    by_id = {prompt.id: prompt for prompt in prompts}
    run.ledger.add_prompts(by_id.values(), PART, player.generation)
    ids = [match.id for match in matches]
    known = run.ledger.judgements_of(ids, judge.name)
    waiting = [match for match in matches if match.id not in known]
    if waiting:
        title = f"{name}: judge {player}"
        run.monitor.stage(title, len(waiting), player.generation)
        judge_missing(run, judge.at(_judge_context(run, benchmark)), waiting, by_id)
    recorded = run.ledger.judgements_of(ids, judge.name)
    return [recorded[match.id] for match in matches]


def _as_match(
    run: OpenRun,
    question: JudgeQuestion,
    benchmark: Benchmark,
    player: PlayerId,
    opponent: PlayerId,
) -> Match:
    """A question to the judge as a match: the answer in seat 1, the other in seat 2."""
    view = View(question.prompt.messages)
    turns = [Turn("1", view, question.answer)]
    seats = {"1": player}
    if question.other is not None:
        turns.append(Turn("2", view, Move(question.other)))
        seats["2"] = opponent
    texts = [turn.move.text for turn in turns]
    seed = seeds.child(run.config.seed, PART, benchmark.seed)
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


def _judge_context(run: OpenRun, benchmark: Benchmark) -> JudgeContext:
    """The same for every player, so that all are judged alike."""
    context = judge_context(run, 0)
    seed = seeds.child(run.config.seed, PART, "judge", benchmark.seed)
    return with_changes(context, game=benchmark.game_played, seed=seed)


# -- asking


def _record_answers(
    run: OpenRun, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
) -> dict[str, list[Answer]]:
    """Item id -> `samples` answers of each of the player's seats. Raises ConfigError."""
    sampled = [item for item in items if not item.choices]
    scored = [item for item in items if item.choices]
    _ask(run, name, benchmark, sampled, player)
    seed = run.config.seed
    answers = recorded_answers(run.ledger, seed, benchmark, sampled, player)
    if scored:
        answers |= _likelihoods(run, name, scored, player)
    return answers


def _record_games(
    run: OpenRun, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
) -> list[tuple[Item, Match]]:
    """Every item with the matches on it, `samples` of each, the player in all seats."""
    _ask(run, name, benchmark, items, player)
    seed = run.config.seed
    return recorded_matches(run.ledger, seed, benchmark, items, player)


def _ask(
    run: OpenRun, name: str, benchmark: Benchmark, items: Sequence[Item], player: PlayerId
) -> None:
    seed = run.config.seed
    conversations = planned_conversations(seed, benchmark, items, player)
    known = run.ledger.recorded_ids("matches", [plan.id for plan in conversations])
    # What a killed measurement left are whole chunks, so that those that follow are composed as
    # they would have been.
    planned = [plan for plan in conversations if plan.id not in known]
    if not planned:
        return
    run.monitor.stage(f"{name}: {player} answers", len(planned), player.generation)

    actor = _actor(run, player, benchmark.temperature, benchmark.max_new_tokens)

    def act(batches: Sequence[Batch]) -> list[list[Move]]:
        return [actor.act(views, dice) for _, views, dice in batches]

    for chunk in unplayed_chunks(run, planned):
        with within(run.monitor, len(chunk), moves_of(benchmark.game_played, chunk)):
            made = play(chunk, benchmark.game_played, None, act)
        run.ledger.add_matches(made)


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
    run: OpenRun, name: str, items: Sequence[Item], player: PlayerId
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
    keys = [row.key for row in rows]
    known = run.ledger.logprobs(player, actor.encoding, keys)
    for chunk in chunks(rows, run.config.commit_every):
        missing = {row.key: row for row in chunk if row.key not in known}
        for plain in (False, True):
            part = {key: row for key, row in missing.items() if row.plain == plain}
            if part:
                texts = list(part)
                with within(run.monitor, len(part), len(part)):
                    values = _logprobs(name, player, actor, list(part.values()), plain)
                run.ledger.add_logprobs(player, actor.encoding, texts, values)
                known |= dict(zip(texts, values, strict=True))
        run.monitor.advance(len(chunk))
    return {
        item.id: [
            Answer(
                item=item.id,
                likelihoods=tuple(Likelihood(*known[text.key]) for text in item.continuations),
            )
        ]
        for item in items
    }


def _logprobs(
    name: str, player: PlayerId, actor: Actor, rows: Sequence[Continuation], plain: bool
) -> list[tuple[float, int]]:
    """(log p of each text after what comes before it, its tokens)."""
    texts = [row.text for row in rows]
    if not plain:
        assert isinstance(actor, Scorer)
        chats = [row.messages for row in rows]
        return actor.logprobs(chats, texts, whole=True, cut=[not r.ended for r in rows])
    if not isinstance(actor, TextScorer):
        raise ConfigError(
            f"{name}: {player} cannot score plain texts without a chat template; "
            "measure a local model"
        )
    contexts = [row.messages[-1].content for row in rows]
    return actor.continuation_logprobs(contexts, texts)
