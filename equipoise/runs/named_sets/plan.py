"""What the named sets of a recipe take: answers, likelihoods, questions to judges, money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.evaluation.named_sets.base import Benchmark
from equipoise.evaluation.named_sets.records import Item
from equipoise.players.base import Player
from equipoise.players.endpoint_settings import EndpointSettings
from equipoise.runs.config import RunConfig
from equipoise.runs.named_sets.checks import players_in

BYTES_PER_TOKEN = 4  # of English text, about
TEMPLATE_TOKENS = 300  # of a judge's question without what it quotes, about


@dataclass(frozen=True)
class SetPlan:
    """What one set takes over a whole run.

    `players` are the player and generation pairs that are measured; `money` is about what endpoints
    with prices take, None where none has any.
    """

    name: str
    items: int
    players: int
    answers: int
    likelihoods: int
    questions: int
    sampled_tokens_at_most: int
    money: float | None

    def text(self) -> str:
        """The plan to read, on one line."""
        parts = [f"{self.items:,} items × {self.players:,} players and generations"]
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
    """What each of the recipe's sets takes; `measured` generations are measured.

    Raises DataError as the sets do.
    """
    return [
        _plan(config, name, benchmark, benchmark.items(), measured)
        for name, benchmark in config.evaluate.sets.items()
    ]


def _plan(
    config: RunConfig, name: str, benchmark: Benchmark, items: Sequence[Item], measured: int
) -> SetPlan:
    answered = [item for item in items if not item.choices]
    asked = benchmark.samples * sum(1 + len(item.turns) for item in answered)
    judged = benchmark.samples * sum(map(benchmark.judged_turns, answered))
    judge = benchmark.judge
    seats = 2 if benchmark.compares else 1
    questions = judged * judge.questions(seats, len(config.players)) if judge else 0
    # Generation 0 of players that do not learn is recorded once and never asked again.
    times = measured if config.learning else 1
    names = config.measured
    lengths = [_longest(benchmark, config.players[player]) for player in names]
    prompt_tokens = _mean_tokens(answered)
    costs = [
        asked * _price(config.players[player], prompt_tokens, length)
        for player, length in zip(names, lengths, strict=True)
        if _has_price(config.players[player])
    ]
    if judge is not None:
        read = prompt_tokens + seats * max(lengths) + TEMPLATE_TOKENS
        costs += [
            len(names) * questions * _price(model, read, _longest(None, model))
            for _, model in players_in(judge, "judge")
            if _has_price(model)
        ]
    return SetPlan(
        name=name,
        items=len(items),
        players=times * len(names),
        answers=times * len(names) * asked,
        likelihoods=times * len(names) * sum(len(item.choices) for item in items),
        questions=times * len(names) * questions,
        sampled_tokens_at_most=times * asked * sum(lengths),
        money=times * sum(costs) if costs else None,
    )


def _longest(benchmark: Benchmark | None, player: Player) -> int:
    """The most tokens of an answer; 0 for players that are no language models."""
    own = getattr(player, "max_new_tokens", 0)
    limit = benchmark.max_new_tokens if benchmark else None
    return own if limit is None or not own else limit


def _mean_tokens(items: Sequence[Item]) -> float:
    texts = [m.content for item in items for m in item.prompt.messages]
    length = sum(len(text.encode()) for text in texts)
    return length / BYTES_PER_TOKEN / max(1, len(items))


def _has_price(player: Player) -> bool:
    return isinstance(player, EndpointSettings) and player.prices is not None


def _price(player: Player, tokens_in: float, tokens_out: float) -> float:
    """About what one question costs."""
    assert isinstance(player, EndpointSettings) and player.prices is not None
    prices = player.prices
    return (tokens_in * prices.input + tokens_out * prices.output) / 1e6
