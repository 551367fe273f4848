"""`equipoise resume RUN`: go on with a run that was stopped or killed."""

from __future__ import annotations

from typing import Annotated

from equipoise.options import Json, RunFolder, override

Limits = Annotated[list[str], override("a limit: players.NAME.budget.calls=1000")]


def resume(
    folder: RunFolder,
    set: Limits = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Go on with a run that was stopped.

    What is recorded is not done again; a finished run only prints its result. `-s` may
    raise what limits a run without changing what it computes: budgets, time-outs,
    concurrency, addresses.
    """
    from equipoise.cli.playing import print_played
    from equipoise.run.handle import Run

    print_played(Run(folder).resume(set, progress=not json), json)
