"""What `run` and `resume` share: play an open run out, and print what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.options import show

if TYPE_CHECKING:
    from rich.console import Console

    from equipoise.run.directory import RunDirectory


def play_and_print(run: RunDirectory, json: bool) -> None:
    """Play the run out under a progress display, then print its result."""
    from rich.console import Console

    from equipoise.report.terminal import Display
    from equipoise.run.playing import explain_devices, play_out

    console = Console(stderr=json)
    if not json and (devices := explain_devices(run.config)):
        console.print(f"device: {devices}", highlight=False, soft_wrap=True)
    with Display(run.config.generations, console, silent=json) as display:
        played = play_out(run, display)
    if json:
        show(
            {
                "run": str(played.run),
                "report": str(played.report),
                "seconds": round(played.seconds, 1),
                "records": played.records,
                "measured": played.measured,
            }
        )
    else:
        _print(console, run, played.seconds)


def _print(console: Console, run: RunDirectory, seconds: float) -> None:
    """Before and after, the numbers that matter, and where the report is."""
    from equipoise.report.terminal import before_after, duration, headline
    from equipoise.run.page import changes, headlines

    rows = changes(run)
    if rows:
        console.print(before_after(rows))
    numbers = [(line.label, line.value) for line in headlines(run)]
    numbers += [
        ("took", duration(seconds)),
        ("go deeper", f"equipoise status {run.folder}"),
    ]
    console.print(headline(run.config.name, numbers, run.folder / "report.html"))
