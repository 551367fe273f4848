"""`equipoise run RECIPE` plays a recipe out in a run directory; `equipoise resume RUN` goes on with
one that was stopped or killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.system.command_options import Json, Recipe, RunFolder, Set, Trust, override, show

if TYPE_CHECKING:
    from equipoise.runs.handle import Run

Additions = Annotated[
    list[str], override("what adds or limits: generations=6, players.NAME.budget.calls=1000")
]
Directory = Annotated[
    Path | None,
    typer.Option(
        help="the folder that relative paths of the configuration belong to from now on",
        show_default="where the run was started",
    ),
]


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
    from equipoise.runs import api

    played = api.run(recipe, set, out, overwrite=overwrite, progress=not json)
    _print(played, json)


def resume(
    folder: RunFolder,
    set: Additions = [],  # noqa: B006
    directory: Directory = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped, or make it longer.

    What is recorded is not done again. `-s generations=6` adds to it; `-s` may also raise what
    limits a run: budgets, time-outs, max_unjudged. What would change recorded results is refused by
    name, and config.yaml may not be edited. A run that somebody else began and that executes, sends
    or reads anything beyond itself is resumed only with --trust.
    """
    from equipoise.runs.handle import Run, ask_for_trust

    run = Run(folder, trust=ask_for_trust(folder, trust, directory))
    _print(run.resume(set, directory=directory, progress=not json), json)


def _print(run: Run, json: bool) -> None:
    from equipoise.report.terminal import before_after, duration, headline, terminal

    played = run.played
    assert played is not None
    if json:
        show(
            {
                "run": str(played.run),
                "report": str(played.report),
                "seconds": round(played.seconds, 1),
                "records": played.records,
                "measured": played.measured,
                "cautions": list(played.cautions),
            }
        )
        return
    console = terminal()
    if played.changes:
        console.print(before_after(played.changes))
    numbers = [(line.label, line.value) for line in played.headlines]
    if played.which_to_trust:
        numbers.append(("which to trust", played.which_to_trust))
    numbers += [("took", duration(played.seconds)), ("go deeper", f"equipoise status {played.run}")]
    console.print(headline(played.name, numbers, played.report, played.cautions))
