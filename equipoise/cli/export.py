"""`equipoise export RUN --to DIR`: the ledger as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.options import Json, Push, RunFolder, show


def export(
    folder: RunFolder,
    to: Annotated[Path, typer.Option(help="the folder to write Parquet files into")],
    push: Push = "",
    json: Json = False,
) -> None:
    """Export every record of a run to Parquet.

    pairs.parquet is in TRL's conversational preference format, prompts.parquet in its
    conversational prompt-only format. The generations' model cards come along, and
    README.md describes the files as a data set.
    """
    from equipoise.run.handle import Run

    exported = Run(folder).export(to, push)
    if json:
        show({str(path): rows for path, rows in exported.rows.items()})
        return
    for path, rows in exported.rows.items():
        typer.echo(f"{path}  {rows} rows")
    if exported.address:
        typer.echo(exported.address)
