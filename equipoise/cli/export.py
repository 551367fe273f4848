"""`equipoise export RUN --to DIR`: the ledger as Parquet, in shapes that other tools load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import Json, RunFolder, show


def export(
    folder: RunFolder,
    to: Annotated[Path, typer.Option(help="the folder to write Parquet files into")],
    json: Json = False,
) -> None:
    """Export every record to Parquet; pairs.parquet is in TRL's conversational preference format."""
    from equipoise.data.export import export as write
    from equipoise.run import Run

    with Run.read(folder) as opened:
        written = write(opened.ledger, to)
    if json:
        show({str(path): rows for path, rows in written.items()})
        return
    for path, rows in written.items():
        typer.echo(f"{path}  {rows} rows")
