"""`equipoise export RUN --to DIR`: the ledger as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.options import Json, RunFolder, show


def export(
    folder: RunFolder,
    to: Annotated[Path, typer.Option(help="the folder to write Parquet files into")],
    json: Json = False,
) -> None:
    """Export every record of a run to Parquet.

    pairs.parquet is in TRL's conversational preference format, prompts.parquet in its
    conversational prompt-only format.
    """
    from equipoise.run.directory import RunDirectory
    from equipoise.run.export import export as write

    with RunDirectory.read(folder) as opened:
        written = write(opened.ledger, to)
    if json:
        show({str(path): rows for path, rows in written.items()})
        return
    for path, rows in written.items():
        typer.echo(f"{path}  {rows} rows")
