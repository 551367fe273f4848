"""`equipoise resume RUN`: go on with a run that was stopped or killed."""

from __future__ import annotations

import os
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
    from equipoise.cli.playing import play_and_print
    from equipoise.run.directory import RunDirectory

    with RunDirectory.open(folder.resolve()) as opened:
        # Relative paths in the configuration mean what they meant at the start.
        os.chdir(opened.ledger.meta("directory"))
        if set:
            opened.allow(set)
        play_and_print(opened, json)
