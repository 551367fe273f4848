"""`equipoise recipes`: what can be run by name."""

from __future__ import annotations

from equipoise.cli.options import Json, show


def recipes(json: Json = False) -> None:
    """List the packaged recipes."""
    from rich.console import Console
    from rich.table import Table

    from equipoise.run import config

    found = config.recipes()
    if json:
        show(found)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, text in found.items():
        table.add_row(f"[bold]{name}[/]", text)
    Console().print(table)
