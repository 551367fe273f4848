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
    from equipoise.run.directory import RunDirectory
    from equipoise.run.export import export as write
    from equipoise.run.model_card import copy_cards, write_data_card
    from equipoise.run.publishing import hub_repository

    repository = hub_repository(push, "dataset") if push else None
    with RunDirectory.read(folder) as opened:
        written = write(opened.ledger, to)
        cards = copy_cards(opened, to / "cards")
        cards += write_data_card(opened, written, to)
    address = repository and repository.upload(to, [*written, *cards])
    if json:
        show({str(path): rows for path, rows in written.items()})
        return
    for path, rows in written.items():
        typer.echo(f"{path}  {rows} rows")
    if address:
        typer.echo(address)
