"""`equipoise doctor`: examine this machine, and try the parts on it."""

from __future__ import annotations

import typer

from equipoise.system.command_options import Json, show


def doctor(json: Json = False) -> None:
    """Check what this machine has, and that the parts work on it.

    Versions, cores, memory, disk, device, ledger, and the built-in model.
    """
    from rich.table import Table
    from rich.text import Text

    from equipoise.report.terminal import terminal
    from equipoise.runs.machine_checks import examine

    checks = examine()
    if json:
        show([{"check": c.name, "ok": c.ok, "found": c.finding} for c in checks])
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for check in checks:
            mark = Text("ok", style="green") if check.ok else Text("no", style="red")
            table.add_row(mark, check.name, check.finding)
        terminal().print(table)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
