"""`equipoise resume RUN`: go on with a run that was stopped or killed."""

from __future__ import annotations

import os

from equipoise.cli.options import Json, RunFolder


def resume(folder: RunFolder, json: Json = False) -> None:
    """Go on where a run stopped. What is recorded is not done again; a finished run only prints its result."""
    from equipoise.cli.playing import play_out
    from equipoise.run import Run

    with Run.open(folder.resolve()) as opened:
        os.chdir(opened.ledger.meta("directory"))  # relative paths in the configuration mean what they meant
        play_out(opened, json)
