"""`equipoise recipes`: what can be run by name."""

from __future__ import annotations

from equipoise.options import Json, show


def recipes(json: Json = False) -> None:
    """List the packaged recipes."""
    from rich.console import Console
    from rich.table import Table

    from equipoise.run.recipes import packaged

    descriptions = packaged()
    if json:
        show(descriptions)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, description in descriptions.items():
        table.add_row(f"[bold]{name}[/]", description)
    Console().print(table)
