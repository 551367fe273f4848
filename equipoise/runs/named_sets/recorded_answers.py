"""Plans of benchmarks' conversations, and their recorded answers."""

from equipoise import seeds
from equipoise.answer import public_match
from equipoise.errors import RunError
from equipoise.evaluation.sets.base import Benchmark, Conversation, asked_prompt
from equipoise.ledger.database import to_json
from equipoise.ledger.item_scores import Answer, BenchmarkResult, Item, Items
from equipoise.ledger.ledger import Ledger
from equipoise.matches.base import Planned
from equipoise.runs.directory import RunDirectory
from equipoise.types import Match, PlayerId, record_id

PART = "benchmark"  # the split of prompts, matches and judgements of benchmarks


def planned_conversations(
    run_seed: int, benchmark: Benchmark, items: Items, player: PlayerId
) -> list[Planned]:
    """A conversation, or a match of the set's game, for each item and sample, in order."""
    seed = seeds.child(run_seed, PART, benchmark.seed)
    decoding = (benchmark.temperature, benchmark.max_new_tokens)
    game = benchmark.game_played
    plans = []
    for item in items:
        prompt = asked_prompt(item)
        content = [to_json(prompt.messages)]
        if not isinstance(game, Conversation):  # whose rules may read facts
            content = [to_json(prompt), to_json(game.settings())]
        for sample in range(benchmark.samples):
            identity = record_id(PART, seed, player, prompt.id, *content, sample, *decoding)
            dice = seeds.child(seed, "match", prompt.id, sample)
            seats = dict.fromkeys(game.seats_for(prompt), player)
            plans.append(Planned(identity, player.generation, PART, prompt, seats, dice))
    return plans


def recorded_matches(
    ledger: Ledger, run_seed: int, benchmark: Benchmark, items: Items, player: PlayerId
) -> list[tuple[Item, Match]]:
    """Every item with each of its recorded matches. Raises RunError where one is missing."""
    plans = planned_conversations(run_seed, benchmark, items, player)
    matches = ledger.matches_of(plan.id for plan in plans)
    missing = sum(plan.id not in matches for plan in plans)
    if missing:
        raise RunError(
            f"{benchmark.kind}: {missing} of {len(plans)} answers of {player} are not "
            "recorded; its data or settings are not those that were measured"
        )
    item_of_match = [item for item in items for _ in range(benchmark.samples)]
    return [(item, matches[plan.id]) for item, plan in zip(item_of_match, plans, strict=True)]


def recorded_answers(
    ledger: Ledger, run_seed: int, benchmark: Benchmark, items: Items, player: PlayerId
) -> dict[str, list[Answer]]:
    """Item id -> a recorded answer for each sample and seat. Raises RunError if one is missing."""
    answers: dict[str, list[Answer]] = {item.id: [] for item in items}
    played = recorded_matches(ledger, run_seed, benchmark, items, player)
    for item, match in played:
        for seat in match.seats:
            shown = match if benchmark.game_played.raw_moves else public_match(match)
            turns = [turn for turn in shown.turns if turn.seat == seat]
            answer = Answer(
                item=item.id,
                sample=len(answers[item.id]),
                moves=tuple(turn.move for turn in turns),
                views=tuple(turn.view for turn in turns),
            )
            answers[item.id].append(answer)
    return answers


def answers_of(
    run: RunDirectory, result: BenchmarkResult
) -> tuple[list[Item], dict[str, list[Answer]]]:
    """A result's items, read again, and answers; DataError if missing, RunError if changed."""
    benchmark = run.recorded_part(Benchmark, dict(result.settings), result.name)
    items = benchmark.items()
    player = PlayerId.parse(result.player)
    seed = run.config.seed
    return items, recorded_answers(run.ledger, seed, benchmark, items, player)
