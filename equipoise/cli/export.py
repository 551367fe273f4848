"""`equipoise export RUN --to DIR`: the ledger as Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, Push, RunFolder, Trust, say, show


def export(
    folder: RunFolder,
    to: Annotated[Path, typer.Option(help="the folder to write Parquet files into")],
    push: Push = "",
    answers: Annotated[
        bool,
        typer.Option(
            "--answers",
            help="instead, the answers to AlpacaEval and Arena-Hard, in the "
            "files that the official judges take",
        ),
    ] = False,
    votes: Annotated[
        bool,
        typer.Option(
            "--votes",
            help="instead, what people preferred, in TRL's preference format, to be "
            "learned from with pairs=data",
        ),
    ] = False,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Export every record of a run to Parquet.

    pairs.parquet is in TRL's conversational preference format, prompts.parquet in its
    conversational prompt-only format. The generations' model cards come along, and README.md
    describes the files as a data set.
    """
    from equipoise.api.handle import Run
    from equipoise.people.vote_results import export_votes

    if sum(map(bool, (push, answers, votes))) > 1:
        raise ConfigError("--push, --answers, --votes: give one of them; records alone are pushed")
    address = ""
    if votes:
        written = export_votes(folder, to)
    elif answers:
        written = Run(folder, trust=trust).export_answers(to)
    else:
        exported = Run(folder).export(to, push)
        written, address = exported.rows, exported.address
    if json:
        facts: dict[str, object] = {str(path): rows for path, rows in written.items()}
        return show(facts | ({"pushed": address} if address else {}))
    for path, rows in written.items():
        say(f"{path}  {rows} rows")
    if address:
        say(address)
