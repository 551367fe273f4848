"""`equipoise report RUN`: write the HTML report from the ledger."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from equipoise.options import RunFolder
from equipoise.run.reference import at_generation, short_names


def report(
    folder: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option(help="where to write it", show_default="RUN/report.html"),
    ] = None,
    beside: Annotated[
        list[str],
        typer.Option(
            metavar="RUN[@GENERATION]",
            help="another run of the game assistance, drawn in the same plane",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Write the run's report, one HTML file that works offline."""
    from equipoise.environments.assistance.comparison import measured_run
    from equipoise.environments.assistance.page_facts import plane
    from equipoise.report.html import render
    from equipoise.run.collect import facts
    from equipoise.run.directory import Run

    path = out or folder / "report.html"
    asked = [at_generation(one) for one in beside]
    with ExitStack() as stack:
        opened = stack.enter_context(Run.read(folder))
        if beside:
            measured_run(
                opened, folder.name
            )  # other runs' planes have their place only beside a plane of its own
        others = []
        for name, (other, generation) in zip(
            short_names([one for one, _ in asked]), asked, strict=True
        ):
            found = measured_run(stack.enter_context(Run.read(other)), name, generation)
            others.append(plane(f"{name}@{found.generation}", found.measures.facts({})))
        path.write_text(render(facts(opened, beside=others)), encoding="utf-8")
    typer.echo(path)
