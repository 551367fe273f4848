"""`equipoise plan RECIPE`: what a run would do and cost, without loading a model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.options import Json, Recipe, Set, show

if TYPE_CHECKING:
    from equipoise.prompts.split import Split
    from equipoise.run.config import RunConfig

EFFICIENCY = 0.3  # share of a large matrix product's speed that sampling and training reach; the estimate's one guess


def plan(recipe: Recipe, set: Set = [], json: Json = False) -> None:  # noqa: B006
    """Print the resolved configuration, the counts that follow from it, and an estimate
    of memory and time.
    """
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.table import Table

    from equipoise.run import config

    resolved = config.load(recipe, set)
    counts = _counts(resolved)
    estimates = _estimates(resolved, counts)
    if json:
        show(
            {
                "configuration": resolved.model_dump(mode="json"),
                "counts": counts,
                "estimates": estimates,
            }
        )
        return
    console = Console()
    console.print(Syntax(resolved.yaml(), "yaml", background_color="default"))
    table = Table(
        title="what the run does", box=None, show_header=False, title_justify="left"
    )
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
    """Upper bounds that follow from configuration and prompts alone: every match
    judged, every possible pair made.
    """
    from equipoise import seeds
    from equipoise.evaluate.base import EvaluationPlan
    from equipoise.matches.base import MatchContext
    from equipoise.matches.roles import Roles
    from equipoise.run.roster import foreseen
    from equipoise.types import PlayerId

    dealt = _dealt(config)
    others = [
        PlayerId(name) for name, player in config.players.items() if not player.learns
    ]
    seats, pool = len(config.game.seats), len(config.players)
    judges = {
        judge.name: judge for judge in map(config.judge_of, config.learning)
    }.values()
    rosters = foreseen(config.turns, config.learning, config.generations)
    past: dict[str, list[PlayerId]] = {
        name: [] for name in config.learning
    }  # newest first, each but its newest
    matches = moves = pairs = episodes = steps = scored = 0
    for t, (table, learn) in enumerate(rosters[:-1]):
        history = [old for name in config.learning for old in past[name]]
        match_context = MatchContext(
            config.game,
            table + others,
            history,
            seeds.child(config.seed, "seats", t),
            learners=table,
        )
        seatings = config.schedule.seatings(dealt.parts[t], match_context)
        matches += len(seatings)
        moved = [(config.game.moves(prompt), seated) for prompt, seated in seatings]
        moves += sum(sum(count.values()) for count, _ in moved)
        for player in (player for player in table if player.name in learn):
            trainer = config.learner_of(player.name)
            heard = [
                seated
                for _, seated in seatings
                if config.lessons == "all" or player in seated.values()
            ]
            taught = (
                len(heard) * config.pairs.most(seats)
                if trainer.needs in ("pairs", "answers")
                else 0
            )
            paid = [
                n
                for count, seated in moved
                for seat, n in count.items()
                if seated[seat] == player
            ]
            pairs += taught
            episodes += sum(paid) if trainer.needs == "episodes" else 0
            steps += trainer.steps(sum(paid) if trainer.needs == "episodes" else taught)
            if trainer.needs == "pairs" and config.loss is not None:
                peers = [peer for peer in table if peer != player]
                scored += (
                    2
                    * taught
                    * len(
                        config.loss.opponents(
                            [player, *past[player.name]], peers, others
                        )
                    )
                )
            past[player.name].insert(0, player)
    measured = [
        table
        for t, (table, _) in enumerate(rosters)
        if config.evaluate.due(t, config.generations)
    ]
    roles = config.schedule.roles if isinstance(config.schedule, Roles) else {}
    effort = config.evaluate.planned(
        EvaluationPlan(
            config.game,
            measured,
            others,
            roles,
            dealt.held_out,
            dealt.test,
            config.judge_of,
        )
    )
    longest = max(
        (_new_tokens(player) for player in config.players.values()), default=0
    )
    return {
        "generations": config.generations,
        "players": pool,
        "prompts": sum(map(len, dealt.parts)),
        "held_out_prompts": len(dealt.held_out),
        "test_prompts": len(dealt.test),
        "matches": matches,
        "held_out_matches": effort.matches,
        "judgements": matches * len(judges)
        + sum(shown for _, shown, _ in effort.judged),
        "questions_to_judges": matches
        * sum(judge.questions(seats, pool) for judge in judges)
        + sum(
            shown * judge.questions(beside, pool)
            for judge, shown, beside in effort.judged
        ),
        "answers": moves + effort.moves,
        "sampled_tokens_at_most": (moves + effort.moves) * longest,
        "pairs_at_most": pairs,
        "episodes_at_most": episodes,
        "opponent_log_probabilities_at_most": scored,
        "optimizer_steps_at_most": steps,
    }


def _dealt(config: RunConfig) -> Split:
    """The prompts as the run will deal them; blank ones, one as good as another, where
    they are not there yet.
    """
    from equipoise.errors import DataError
    from equipoise.prompts.split import Split, dealt
    from equipoise.types import Prompt, user

    try:
        return dealt(config.prompts, config.generations, config.seed)
    except DataError as error:
        typer.echo(
            f"note: prompts cannot be dealt yet, any are assumed ({error})", err=True
        )
    source = config.prompts
    blank = [
        Prompt(str(i), (user(""),))
        for i in range(max(source.per_generation, source.held_out, source.test))
    ]
    parts = [blank[: source.per_generation]] * config.generations
    return Split(parts, blank[: source.held_out], blank[: source.test])


def _new_tokens(player: Any) -> int:
    return player.max_new_tokens if player.kind in ("local", "endpoint") else 0


def _prompt_tokens(config: RunConfig) -> float:
    """Mean prompt length, at four characters a token; 64 where the source is not there
    yet.
    """
    from equipoise.errors import DataError

    try:
        prompts = config.prompts.load().training
    except DataError as error:
        typer.echo(
            f"note: prompts are not readable yet, 64 tokens each are assumed ({error})",
            err=True,
        )
        return 64.0
    return (
        sum(len(m.content) for p in prompts for m in p.messages)
        / 4
        / max(1, len(prompts))
    )


def _estimates(config: RunConfig, counts: dict[str, int]) -> list[dict[str, Any]]:
    """The estimates of all learners that have one; learners for whom it is the same are
    named together.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in config.learning:
        estimate = _estimate(config, name, counts)
        if estimate:
            alike = str(
                {
                    key: value
                    for key, value in estimate.items()
                    if key not in ("learner", "time")
                }
            )
            first = found.setdefault(alike, estimate)
            if first is not estimate:
                first["learner"] += f", {name}"
    return list(found.values())


def _estimate(
    config: RunConfig, learner: str, counts: dict[str, int]
) -> dict[str, Any] | None:
    """Memory and time of a local learner on this machine; None for a player without a
    model.
    """
    player: Any = config.players[learner]
    if player.kind != "local":
        return None
    from equipoise.models.loading import describe

    model = describe(player.model, player.lora)
    prompt = _prompt_tokens(config)
    answer = player.max_new_tokens
    wide = 2 if player.dtype in ("bfloat16", "float16") else 4
    training = model.parameters * wide + model.trainable * (
        wide + 8
    )  # weights; gradients and two Adam moments
    trainer = config.learner_of(learner)
    training += trainer.kept(model.parameters, player.lora is not None)
    rows = (1 if trainer.needs == "episodes" else 2) * getattr(trainer, "batch_size", 1)
    activations = rows * (prompt + answer) * model.hidden * model.layers * 16 * wide
    cache = player.batch_size * (prompt + answer) * model.kv_numbers * wide
    tokens_sampled = counts["answers"] * (prompt + answer)
    tokens_scored = counts["opponent_log_probabilities_at_most"] * (prompt + answer)
    tokens_trained = (2 * counts["pairs_at_most"] + counts["episodes_at_most"]) * (
        prompt + answer
    )
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
    """(floating-point operations a second of a large matrix product here, the device's
    name).
    """
    import torch

    from equipoise.models.device import choose_device

    device = choose_device()
    fast = device.type == "cuda"
    size, kind = (8192, torch.bfloat16) if fast else (1024, torch.float32)
    a = torch.rand(size, size, dtype=kind, device=device)
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        (a @ a)[0, 0].item()
        best = min(best, time.perf_counter() - started)
    return (
        2 * size**3 / best,
        torch.cuda.get_device_name() if fast else f"this {device.type.upper()}",
    )


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
