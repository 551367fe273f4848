"""`equipoise traces RECIPE --teacher … --out DIR`: a cold start: a teacher plays, the
best plays are learned from.
"""

from __future__ import annotations

import json as js
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import Json, Recipe, Set, show

if TYPE_CHECKING:
    from equipoise.report.terminal import Display
    from equipoise.run.config import RunConfig
    from equipoise.run.traces import Trace


def traces(
    recipe: Recipe,
    teacher: Annotated[
        str,
        typer.Option(
            help="who plays the learner's part: clerk (the built-in world's), a YAML file, or YAML: {kind: …}"
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="the folder for traces.jsonl, candidates.jsonl and the ledger"
        ),
    ],
    candidates: Annotated[
        int, typer.Option(min=1, help="plays on each prompt, of which the best is kept")
    ] = 4,
    count: Annotated[
        int | None,
        typer.Option(min=1, help="of so many prompts [default: all training prompts]"),
    ] = None,
    least: Annotated[
        float, typer.Option(help="the least pay-off of a play that is kept")
    ] = 0.0,
    train: Annotated[
        str | None,
        typer.Option(help="train this model on the traces: hub id, folder, builtin"),
    ] = None,
    epochs: Annotated[
        float, typer.Option(help="passes over the traces, in training")
    ] = 1.0,
    learning_rate: Annotated[
        float, typer.Option(help="peak learning rate, in training")
    ] = 1e-5,
    batch_size: Annotated[int, typer.Option(help="traces a step, in training")] = 16,
    set: Set = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Have a teacher play a recipe's game on its training prompts, keep the best plays,
    and train a start on them.

    Asked again, it goes on where it was stopped: what was played and judged is in
    DIR/ledger.sqlite.
    """
    from rich.console import Console

    from equipoise.players.base import Player
    from equipoise.report.terminal import Display
    from equipoise.run import config as configs
    from equipoise.run.ledger import Ledger
    from equipoise.run.traces import Lessons, write_traces

    config = _config(recipe, set, train)
    known = {
        "clerk": "{kind: scripted, call: 'equipoise.environments.clerk.assistance:teacher'}"
    }
    lessons = Lessons(
        config,
        configs.part(Player, known.get(teacher, teacher), [], "--teacher"),
        candidates,
        count,
    )
    config.game.check()
    out.mkdir(parents=True, exist_ok=True)
    path = out / "ledger.sqlite"
    with (
        Ledger.open(path) if path.exists() else Ledger.create(path) as ledger,
        Display(console=Console(stderr=json), silent=json) as display,
    ):
        met = lessons.played(ledger, out / "players", display)
        with (out / "candidates.jsonl").open("w", encoding="utf-8") as lines:
            lines.writelines(
                js.dumps(row, ensure_ascii=False) + "\n" for row in lessons.plays(met)
            )
        found = lessons.kept(met, least)
        write_traces(found, out / "traces.jsonl")
        facts: dict[str, Any] = {
            "traces": str(out / "traces.jsonl"),
            "kept": len(found),
            "played": len(met),
        }
        facts["prompts"] = len(lessons.prompts)
        facts["mean"] = sum(trace.scores[config.utility] for trace in found) / len(
            found
        )
        if train is not None:
            settings = {
                "epochs": epochs,
                "learning_rate": learning_rate,
                "batch_size": batch_size,
            }
            facts["model"] = str(
                _train(train, found, out / "model", settings, config, display)
            )
    if json:
        show(facts)
        return
    typer.echo(
        f"{facts['traces']}  {facts['kept']} of {facts['played']} plays, mean pay-off {facts['mean']:.3f}"
    )
    if train is not None:
        typer.echo(facts["model"])


def _config(recipe: str, overrides: list[str], train: str | None) -> RunConfig:
    """The recipe's configuration; a learner's model that it leaves open is the one to
    be trained.
    """
    from equipoise.component import nearest
    from equipoise.errors import ConfigError
    from equipoise.run import config as configs

    values = configs.read(recipe)
    open_ = [
        name
        for name, player in (values.get("players") or {}).items()
        if player and "model" in player
    ]
    blank = [
        f"players.{name}.model={train or 'builtin'}"
        for name in open_
        if values["players"][name]["model"] is None
    ]
    given = [text for text in overrides if text.partition("=")[0].endswith(".model")]
    if not values.get("players"):
        raise ConfigError(
            f"{recipe}: has no players; {nearest(recipe, list(configs.recipes()))}"
        )
    return configs.load(recipe, [*([] if given else blank), *overrides])


def _train(
    model: str,
    found: list[Trace],
    home: Path,
    settings: dict[str, Any],
    config: RunConfig,
    display: Display,
) -> Path:
    """The folder of `model`, trained on the traces at the learner's own length."""
    from equipoise.cli.sft import train_into
    from equipoise.learners.sft import SFT
    from equipoise.players.local import Local

    player = config.players[config.learning[0]]
    longest = player.max_length if isinstance(player, Local) else None
    examples = [(trace.messages, trace.text) for trace in found]
    train_into(
        home,
        model,
        examples,
        SFT.model_validate(settings),
        display,
        config.seed,
        longest,
    )
    return home
