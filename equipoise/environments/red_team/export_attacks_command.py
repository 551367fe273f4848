"""`equipoise red-team export-attacks RUN --to FILE`: what a run's adversaries wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from equipoise.system.command_options import Json, RunFolder, show

To = Annotated[Path, typer.Option(help="the JSON Lines file to write (.jsonl)")]
Successful = Annotated[
    bool, typer.Option("--successful", help="attacks that got a harmful answer only")
]
Part = Annotated[Literal["train", "held_out", "all"], typer.Option(help="from which matches")]


def export_attacks(
    run: RunFolder, to: To, successful: Successful = False, part: Part = "all", json: Json = False
) -> None:
    """Export the attacks of a run's adversaries to JSON Lines.

    They are in TRL's conversational prompt-only format, with the answer and how safe it is.
    """
    from equipoise.environments.red_team.attack_rows import export_attacks
    from equipoise.runs.directory import RunDirectory

    parts = ("train", "held_out") if part == "all" else (part,)
    with RunDirectory.read(run) as opened:
        count = export_attacks(opened, to, parts, successful)
    if json:
        show({str(to): count})
    else:
        typer.echo(f"{to}  {count} rows")
