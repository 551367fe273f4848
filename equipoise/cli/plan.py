"""`equipoise plan RECIPE`: what a run would do and cost, without loading a model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.options import Json, Recipe, Set, show

if TYPE_CHECKING:
    from equipoise.config import RunConfig

EFFICIENCY = 0.3  # share of a large matrix product's speed that sampling and training reach; the estimate's one guess


def plan(recipe: Recipe, set: Set = [], json: Json = False) -> None:  # noqa: B006
    """Print the resolved configuration, the counts that follow from it, and an estimate of memory and time."""
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.table import Table

    from equipoise import config

    resolved = config.load(recipe, set)
    counts = _counts(resolved)
    estimates = _estimates(resolved, counts)
    if json:
        show({"configuration": resolved.model_dump(mode="json"), "counts": counts, "estimates": estimates})
        return
    console = Console()
    console.print(Syntax(resolved.yaml(), "yaml", background_color="default"))
    table = Table(title="what the run does", box=None, show_header=False, title_justify="left")
    for name, value in counts.items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    console.print(table)
    for found in estimates:
        title = "estimate, as if every player were like these"
        table = Table(title=title, box=None, show_header=False, title_justify="left")
        for name, value in found.items():
            table.add_row(name.replace("_", " "), str(value))
        console.print(table)


def _counts(config: RunConfig) -> dict[str, int]:
    """Upper bounds that follow from the configuration alone: every match judged, every possible pair made."""
    from equipoise.matches.base import Lobby
    from equipoise.types import PlayerId, Prompt

    prompts = [Prompt(str(i), ()) for i in range(config.prompts.per_generation)]
    others = [PlayerId(name) for name, player in config.players.items() if not player.learns]
    seats, learners, pool = len(config.game.seats), len(config.learning), len(config.players)
    judges = {judge.name: judge for judge in map(config.judge_of, config.learning)}.values()
    measuring = {judge.name: judge for judge in ([config.evaluate.judge] if config.evaluate.judge else judges)}.values()
    matches = pairs = steps = scored = 0
    for t in range(config.generations):
        table = [PlayerId(name, t) for name in config.learning]
        past = [PlayerId(name, g) for name in config.learning for g in range(t - 1, -1, -1)]
        lobby = Lobby(config.game, table + others, past, config.seed, learners=table)
        seatings = config.schedule.seatings(prompts, lobby)
        matches += len(seatings)
        for player in table:
            heard = [seat for _, seat in seatings if config.lessons == "all" or player in seat.values()]
            taught = 0 if config.learner.needs == "game" else len(heard) * config.pairs.most(seats)
            pairs += taught
            steps += config.learner.steps(taught)
            if config.learner.needs == "pairs" and config.loss is not None:
                peers = [peer for peer in table if peer != player]
                own = [PlayerId(player.name, g) for g in range(t, -1, -1)]
                scored += 2 * taught * len(config.loss.opponents(own, peers, others))
    league = learners * (config.generations + 1) + len(others)
    each = config.evaluate.matches(config.prompts.held_out, seats)
    held_out = league * each + 2 * config.evaluate.matches(config.prompts.test, seats)
    meetings = config.evaluate.meetings(config.prompts.held_out) * league * (league - 1) // 2
    judged = {judge.name: (meetings if judge.compares else held_out) for judge in measuring}
    answers = (matches + held_out) * seats
    longest = max((_new_tokens(player) for player in config.players.values()), default=0)
    return {
        "generations": config.generations,
        "players": pool,
        "prompts": config.generations * config.prompts.per_generation,
        "held_out_prompts": config.prompts.held_out,
        "test_prompts": config.prompts.test,
        "matches": matches,
        "held_out_matches": held_out,
        "judgements": matches * len(judges) + sum(judged.values()),
        "questions_to_judges": matches * sum(judge.questions(seats, pool) for judge in judges)
        + sum(judged[judge.name] * judge.questions(2 if judge.compares else seats, pool) for judge in measuring),
        "answers": answers,
        "sampled_tokens_at_most": answers * longest,
        "pairs_at_most": pairs,
        "opponent_log_probabilities_at_most": scored,
        "optimizer_steps_at_most": steps,
    }


def _new_tokens(player: Any) -> int:
    return player.max_new_tokens if player.kind in ("local", "endpoint") else 0


def _prompt_tokens(config: RunConfig) -> float:
    """Mean prompt length, at four characters a token; 64 where the source is not there yet."""
    from equipoise.errors import DataError

    try:
        prompts = config.prompts.load().training
    except DataError as error:
        typer.echo(f"note: prompts are not readable yet, 64 tokens each are assumed ({error})", err=True)
        return 64.0
    return sum(len(m.content) for p in prompts for m in p.messages) / 4 / max(1, len(prompts))


def _estimates(config: RunConfig, counts: dict[str, int]) -> list[dict[str, Any]]:
    """The estimates of all learners that have one; learners for whom it is the same are named together."""
    found: dict[str, dict[str, Any]] = {}
    for name in config.learning:
        estimate = _estimate(config, name, counts)
        if estimate:
            alike = str({key: value for key, value in estimate.items() if key not in ("learner", "time")})
            first = found.setdefault(alike, estimate)
            if first is not estimate:
                first["learner"] += f", {name}"
    return list(found.values())


def _estimate(config: RunConfig, learner: str, counts: dict[str, int]) -> dict[str, Any] | None:
    """Memory and time of a local learner on this machine; None for a player without a model."""
    player: Any = config.players[learner]
    if player.kind != "local":
        return None
    from equipoise.players.loading import describe

    model = describe(player.model, player.lora)
    prompt = _prompt_tokens(config)
    answer = player.max_new_tokens
    wide = 2 if player.dtype in ("bfloat16", "float16") else 4
    training = model.parameters * wide + model.trainable * (wide + 8)  # weights; gradients and two Adam moments
    rows = 2 * getattr(config.learner, "batch_size", 1)
    activations = rows * (prompt + answer) * model.hidden * model.layers * 16 * wide
    cache = player.batch_size * (prompt + answer) * model.kv_numbers * wide
    tokens_sampled = counts["answers"] * (prompt + answer)
    tokens_scored = counts["opponent_log_probabilities_at_most"] * (prompt + answer)
    tokens_trained = 2 * counts["pairs_at_most"] * (prompt + answer)
    work = 2 * model.parameters * (tokens_sampled + tokens_scored + 3 * tokens_trained)
    speed, where = _speed()
    return {
        "learner": learner,
        "parameters": f"{model.parameters:,}",
        "trainable": f"{model.trainable:,}",
        "mean_prompt_tokens": round(prompt),
        "memory_while_sampling": _bytes(model.parameters * wide + cache),
        "memory_while_training": _bytes(training + activations),
        "arithmetic": f"{work:.2e} operations at most",
        "time": f"about {_duration(work / (speed * EFFICIENCY))} on {where}, at {EFFICIENCY:.0%} of its matrix speed",
    }


def _speed() -> tuple[float, str]:
    """(floating-point operations a second of a large matrix product here, the device's name)."""
    import torch

    cuda = torch.cuda.is_available()
    size, kind = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    a = torch.rand(size, size, dtype=kind, device="cuda" if cuda else "cpu")
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        (a @ a)[0, 0].item()
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best, torch.cuda.get_device_name() if cuda else "this CPU"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
