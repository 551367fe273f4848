"""`equipoise resume RUN`: go on with a run that was stopped or killed."""

from __future__ import annotations

from equipoise.cli.options import Json, RunFolder


def resume(folder: RunFolder, json: Json = False) -> None:
    """Go on where a run stopped. What is recorded is not done again; a finished run only prints its result."""
    from equipoise.cli.playing import play_out
    from equipoise.run import Run

    with Run.open(folder) as opened:
        play_out(opened, json)
