"""Check and plan a recipe's named sets: faults of data and judges; answers, questions, money."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.harnesses.base import Harness
from equipoise.evaluation.sets.base import Benchmark
from equipoise.evaluation.sets.lm_eval_set import LmEvalSet
from equipoise.judges.base import JudgeContext
from equipoise.ledger.item_scores import Item, Items
from equipoise.models.resources import Resources
from equipoise.players.base import Player, players_in
from equipoise.players.endpoint_settings import EndpointSettings
from equipoise.runs.config import RunConfig
from equipoise.runs.named_sets.harness import local_settings
from equipoise.types import PlayerId, Prompt

BYTES_PER_TOKEN = 4  # of English text, about
TEMPLATE_TOKENS = 300  # of a judge's question without what it quotes, about


@dataclass(frozen=True)
class SetPlan:
    """The work of one set over a whole run; `money` is None where no endpoint has a price.

    What a harness asks of its `tasks` is not known before.
    """

    name: str
    items: int
    players: int
    answers: int
    likelihoods: int
    questions: int
    sampled_tokens_at_most: int
    money: float | None
    tasks: tuple[str, ...] = ()

    def text(self) -> str:
        """The plan to read, on one line."""
        content = f"{self.items:,} items"
        if self.tasks:
            content = f"lm-eval's {', '.join(self.tasks)}"
        parts = [f"{content} × {self.players:,} players and generations"]
        named = {
            "answers": self.answers,
            "likelihoods": self.likelihoods,
            "questions to judges": self.questions,
        }
        parts += [f"{number:,} {what}" for what, number in named.items() if number]
        if self.money is not None:
            parts.append(f"about {self.money:,.2f} in money")
        return "; ".join(parts)


def plan_sets(config: RunConfig, measured: int) -> list[SetPlan]:
    """The work of each of the recipe's sets at `measured` generations. Raises DataError."""
    return [
        _plan(config, name, benchmark, benchmark.items(), measured)
        for name, benchmark in config.evaluate.sets.items()
    ]


def _plan(
    config: RunConfig, name: str, benchmark: Benchmark, items: Items, measured: int
) -> SetPlan:
    answered = [item for item in items if not item.choices]
    answers = benchmark.samples * sum(1 + len(item.turns) for item in answered)
    judged = benchmark.samples * sum(map(benchmark.judged_turns, answered))
    judge = benchmark.judge
    seats = 2 if benchmark.compares else 1
    questions = judged * judge.questions(seats, len(config.players)) if judge else 0
    # Generation 0 of players that do not learn is recorded once and never asked again.
    times = measured if config.learning else 1
    names = config.measured
    lengths = [longest(benchmark, config.players[player]) for player in names]
    prompt_tokens = mean_tokens([item.prompt for item in answered])
    costs = [
        answers * _price(config.players[player], prompt_tokens, length)
        for player, length in zip(names, lengths, strict=True)
        if has_price(config.players[player])
    ]
    if judge is not None:
        read = prompt_tokens + seats * max(lengths) + TEMPLATE_TOKENS
        costs += [
            len(names) * questions * _price(model, read, longest(None, model))
            for _, model in players_in(judge, "judge")
            if has_price(model)
        ]
    return SetPlan(
        name=name,
        items=len(items),
        players=times * len(names),
        answers=times * len(names) * answers,
        likelihoods=times * len(names) * sum(len(item.choices) for item in items),
        questions=times * len(names) * questions,
        sampled_tokens_at_most=times * answers * sum(lengths),
        money=times * sum(costs) if costs else None,
        tasks=benchmark.tasks if isinstance(benchmark, LmEvalSet) else (),
    )


def longest(benchmark: Benchmark | None, player: Player) -> int:
    """The most tokens of an answer; 0 for players that are no language models."""
    own = getattr(player, "max_new_tokens", 0)
    limit = benchmark.max_new_tokens if benchmark else None
    return own if limit is None or not own else limit


def mean_tokens(prompts: Sequence[Prompt]) -> float:
    """About how many tokens a prompt has."""
    texts = []
    for prompt in prompts:
        for message in prompt.messages:
            texts.append(message.content)
    length = sum(len(text.encode()) for text in texts)
    return length / BYTES_PER_TOKEN / max(1, len(prompts))


def has_price(player: Player) -> bool:
    return isinstance(player, EndpointSettings) and player.prices is not None


def _price(player: Player, tokens_in: float, tokens_out: float) -> float:
    assert isinstance(player, EndpointSettings)
    return player.cost(tokens_in, tokens_out)


Sets = Mapping[str, Benchmark]
ItemsBySet = Mapping[str, Items]


def check_sets(
    players: Mapping[str, Player], sets: Sets, measured: Iterable[PlayerId]
) -> ItemsBySet:
    """Items by set name, of sets by which some of these players are measured.

    Raises DataError or ConfigError with all faults, one a line.
    """
    items: dict[str, list[Item]] = {}
    unreadable = []
    for name, benchmark in sets.items():
        try:
            items[name] = benchmark.items()
        except DataError as error:
            unreadable.append(f"{name}: {error}")
    if unreadable:
        raise DataError("\n".join(unreadable))
    faults = list(faults_of_sets(players, sets, items))
    for name, benchmark in sets.items():
        if not isinstance(benchmark, Harness):
            continue
        for player in measured:
            try:
                local_settings(players, player)
            except ConfigError as error:
                faults.append(f"{name}: {error}")
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return items


def faults_of_sets(players: Iterable[str], sets: Sets, items: ItemsBySet) -> Iterator[str]:
    """Faults that keep these sets from being measured in a run of these players."""
    pool = [PlayerId(name) for name in players]
    for name, benchmark in sets.items():
        game = benchmark.game_played
        context = JudgeContext(game, 0, pool, {}, Resources(), nobody_plays)
        for fault in benchmark.faults(items[name], context):
            yield f"{name}: {fault}"
        for place, player in players_in(benchmark.judge, "judge"):
            for fault in player.faults():
                yield f"{name}.{place}: {fault}"


def nobody_plays(player: Any) -> Any:
    """In place of the function that opens players, before a run begins."""
    raise AssertionError("nobody is asked anything before the run begins")
