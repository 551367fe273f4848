"""`equipoise import-scores RUN@PLAYER FILE… --from …`: what a harness or an official judge wrote of
a generation becomes records beside the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, Trust, show


def import_scores(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN@PLAYER[@GENERATION]",
            help="whose scores they are; without a generation the newest",
        ),
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="who wrote the files: lm_eval, evalscope, inspect, alpaca_eval, "
            "arena_hard or mt_bench",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            help="the model that is meant, by its name in the files", show_default="the only one"
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(help="what the run calls the set", show_default="its own name")
    ] = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Record scores that another program measured, beside their run.

    `status`, `report` and `export` show them with their source.
    """
    from equipoise.cli import ask_for_trust
    from equipoise.runs.handle import Run

    folder, at, player = target.partition("@")
    if not at or not player:
        raise ConfigError(f"{target}: name whose scores they are: {folder}@PLAYER@GENERATION")
    run = Run(folder, trust=ask_for_trust(Path(folder), trust))
    results = run.import_scores(player, files, source, model=model, name=name)
    if json:
        show([result.facts() for result in results])
        return
    for result in results:
        typer.echo(f"{result.name} of {result.player}, by {result.source}")
        for metric, value in result.rows():
            typer.echo(f"  {metric}  {value}")
        if result.note:
            typer.echo(f"  note: {result.note}")
