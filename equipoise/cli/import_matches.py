"""The verb `equipoise import-matches`."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import Json, say, show


def import_matches(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="JSON, JSON Lines, CSV or Parquet; or what `export` wrote"
        ),
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="the program that wrote the files: mnpo, sparta, gtalign, lmarena, textarena, "
            "verifiers or equipoise",
        ),
    ],
    out: Annotated[Path, typer.Option(help="the run directory to make")],
    limit: Annotated[
        int | None, typer.Option(min=1, help="the first so many matches", show_default="all")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace a run there")] = False,
    json: Json = False,
) -> None:
    """Make a run from matches that other programs played and judged.

    `rate`, `judge` and `report` work on it as on any run; nobody plays or learns.
    """
    from equipoise.api.played_elsewhere import record_matches

    made = record_matches(files, source, out, limit, overwrite)
    if json:
        show({"run": str(out), **made})
    else:
        say("{matches:,} matches of {players:,} players, {judged:,} judged".format(**made))
        deeper = f"report {out}" if made["judged"] else f"judge {out} --with … --part train"
        say(f"go deeper: equipoise {deeper}")
