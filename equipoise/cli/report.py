"""`equipoise report RUN`: write the HTML report from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import RunFolder


def report(
    folder: RunFolder,
    out: Annotated[Path | None, typer.Option(help="where to write it [default: RUN/report.html]")] = None,
) -> None:
    """Write the run's report, one HTML file that works offline."""
    from equipoise.report.collect import facts
    from equipoise.report.html import render
    from equipoise.run import Run

    path = out or folder / "report.html"
    with Run.read(folder) as opened:
        path.write_text(render(facts(opened)), encoding="utf-8")
    typer.echo(path)
