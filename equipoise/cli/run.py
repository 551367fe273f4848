"""`equipoise run RECIPE`: make a run directory and play it out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from equipoise.options import Json, Recipe, Set


def run(
    recipe: Recipe,
    set: Set = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="the run directory", show_default="runs/RECIPE")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="replace an earlier run in that directory"),
    ] = False,
    json: Json = False,
) -> None:
    """Play a recipe, train its learners, and report what came of it."""
    from equipoise.cli.playing import play_and_print
    from equipoise.run import recipes
    from equipoise.run.directory import RunDirectory

    folder = out or Path("runs") / Path(recipe).stem
    settings = [part for text in set for part in ("-s", text)]
    command = shlex.join(["equipoise", "run", recipe, *settings, "--out", str(folder)])
    with RunDirectory.create(
        recipes.load(recipe, set), folder, overwrite, command
    ) as opened:
        play_and_print(opened, json)
