"""Playing an open run out before the eyes of whoever waits for it."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from equipoise.models.quiet import ignore_known_warnings
from equipoise.runs.directory import RunDirectory
from equipoise.runs.playing import Played, explain_devices, play_out


def play(run: RunDirectory, progress: bool) -> Played:
    """Play an open run out: with a bar on a terminal, elsewhere with one line a stage, or
    silently.
    """
    from equipoise.report.terminal import Display, show_notes

    shown = console()
    show_notes(run.notes)
    devices = explain_devices(run.config) if progress else ""
    if devices:
        shown.print(f"device: {devices}", highlight=False, soft_wrap=True)
    with (
        warnings.catch_warnings(),
        Display(run.config.generations, shown, silent=not progress) as display,
    ):
        ignore_known_warnings()
        return play_out(run, display)


def console() -> Any:
    """Where progress is shown."""
    from rich.console import Console

    # A notebook gets the plain lines of a file: each of rich's own outputs there is a block of
    # HTML, and its kernel asks for colours in the environment.
    return Console(force_jupyter=False, force_terminal=sys.stdout.isatty())
