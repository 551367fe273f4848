"""`equipoise report RUN`: write the HTML report from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import RunFolder, Trust, say


def report(
    folder: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="where to write it", show_default="RUN/report.html")
    ] = None,
    beside: Annotated[
        list[str],
        typer.Option(
            metavar="RUN[@GENERATION]",
            help="another run to draw beside this one, where the evaluation compares runs",
        ),
    ] = [],  # noqa: B006
    trust: Trust = False,
) -> None:
    """Write the run's report, one HTML file that works offline."""
    from equipoise.runs.handle import Run

    say(Run(folder, trust=trust).report(out or folder / "report.html", beside))
