"""Asking whether a run that somebody else began is trusted."""

from __future__ import annotations

import sys
from pathlib import Path

import typer


def agreed(folder: Path, trust: bool) -> bool:
    """Whether the user trusts a run: said with --trust, or asked on a terminal.

    Where there is nobody to ask, opening the run says what it needs --trust for.
    """
    from equipoise.runs.consent import is_agreed
    from equipoise.runs.directory import RunDirectory

    if trust or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return trust
    with RunDirectory.read(folder) as run:
        reached = run.reach()
        if is_agreed(run.ledger, reached):
            return False
    typer.echo(f"{folder} was not begun here by you. It", err=True)
    for note in reached.notes():
        typer.echo(f"  {note}", err=True)
    return typer.confirm("Do you trust it?", err=True)
