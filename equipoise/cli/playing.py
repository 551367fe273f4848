"""What `run` and `resume` share: print what came of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.system.command_options import show

if TYPE_CHECKING:
    from equipoise.runs.handle import Run
    from equipoise.runs.play_out import Played


def print_played(run: Run, json: bool) -> None:
    """Print what came of a run that this process played."""
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
            }
        )
    else:
        _print(played)


def _print(played: Played) -> None:
    """Before and after, the numbers that matter, and where the report is."""
    from rich.console import Console

    from equipoise.report.terminal import before_after, duration, headline

    console = Console()
    if played.changes:
        console.print(before_after(played.changes))
    numbers = [(line.label, line.value) for line in played.headlines]
    numbers += [("took", duration(played.seconds)), ("go deeper", f"equipoise status {played.run}")]
    console.print(headline(played.name, numbers, played.report))
