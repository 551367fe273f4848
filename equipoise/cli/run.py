"""`equipoise run RECIPE`: make a run directory and play it out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import Json, Recipe, Set


def run(
    recipe: Recipe,
    set: Set = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="the run directory", show_default="runs/RECIPE")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace an earlier run in that directory")
    ] = False,
    json: Json = False,
) -> None:
    """Play a recipe, train its learners, and report what came of it."""
    from equipoise.cli.playing import print_played
    from equipoise.runs import api

    played = api.run(recipe, set, out, overwrite=overwrite, progress=not json)
    print_played(played, json)
