"""`equipoise resume RUN`: go on with a run that was stopped or killed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import Json, RunFolder, Trust, override

Limits = Annotated[list[str], override("a limit: players.NAME.budget.calls=1000")]


Directory = Annotated[
    Path | None,
    typer.Option(
        help="the folder that relative paths of the configuration belong to from now on",
        show_default="where the run was started",
    ),
]


def resume(
    folder: RunFolder,
    set: Limits = [],  # noqa: B006
    directory: Directory = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped.

    What is recorded is not done again; a finished run only prints its result. `-s` may raise what
    limits a run without changing what it computes: budgets, time-outs, concurrency, addresses.
    config.yaml may not be edited. A run that somebody else began and that names code or keys of
    theirs is resumed only with --trust.
    """
    from equipoise.cli import ask_for_trust
    from equipoise.cli.playing import print_played
    from equipoise.runs.handle import Run

    run = Run(folder, trust=ask_for_trust(folder, trust))
    print_played(run.resume(set, directory=directory, progress=not json), json)
