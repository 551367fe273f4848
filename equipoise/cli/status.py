"""`equipoise status RUN`: how far a run is, from its ledger alone; it may be running."""

from __future__ import annotations

from typing import Any

from equipoise.options import Json, RunFolder, show


def status(folder: RunFolder, json: Json = False) -> None:
    """Say how far a run is and what it has measured."""
    from equipoise.run.directory import RunDirectory
    from equipoise.run.progress import progress

    with RunDirectory.read(folder) as run:
        facts = progress(run)
    if json:
        show(facts)
    else:
        _print(facts)


def _print(facts: dict[str, Any]) -> None:
    from rich.console import Console

    from equipoise.report.terminal import status_table

    nested = ("records", "spent", "measured")
    plain = {name: value for name, value in facts.items() if name not in nested}
    spent = [
        (
            f"spent by {account}",
            f"{values['calls']:,} calls, {values['tokens']:,} tokens, "
            f"{values['money']:g} in money",
        )
        for account, values in facts["spent"].items()
    ]
    rows = [
        *plain.items(),
        *facts["records"].items(),
        *spent,
        *facts["measured"].items(),
    ]
    Console().print(status_table(rows))
