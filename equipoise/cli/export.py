"""`equipoise export RUN --to DIR`: the ledger as Parquet; `equipoise export attacks RUN
--to FILE`: what broke whom.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from equipoise.options import Json, show

if TYPE_CHECKING:
    from equipoise.run.directory import Run
    from equipoise.types import Match

Part = Literal["train", "held_out", "all"]


def export(
    what: Annotated[
        list[Path],
        typer.Argument(
            metavar="[attacks] RUN",
            help="a run directory; `attacks RUN`: only what its adversaries wrote",
        ),
    ],
    to: Annotated[
        Path,
        typer.Option(
            help="the folder to write Parquet files into; of attacks, the JSON Lines file (.jsonl)"
        ),
    ],
    successful: Annotated[
        bool,
        typer.Option("--successful", help="attacks that got a harmful answer only"),
    ] = False,
    part: Annotated[
        Part | None, typer.Option(help="of attacks: from which matches [default: all]")
    ] = None,
    json: Json = False,
) -> None:
    """Export every record to Parquet, or the attacks of a run's adversaries to JSON
    Lines.

    pairs.parquet is in TRL's conversational preference format, attacks are in its
    conversational prompt-only format.
    """
    from equipoise.errors import ConfigError
    from equipoise.run.directory import Run
    from equipoise.run.export import export as write

    only = len(what) == 2 and str(what[0]) == "attacks"
    if len(what) != 1 and not only:
        raise ConfigError(
            f"export {' '.join(map(str, what))}: write `export RUN`, or `export attacks RUN`"
        )
    if not only and (successful or part):
        raise ConfigError(
            "--successful and --part choose among attacks: `equipoise export attacks RUN --to FILE`"
        )
    with Run.read(what[-1]) as opened:
        written = (
            {to: _attacks(opened, to, part or "all", successful)}
            if only
            else write(opened.ledger, to)
        )
    if json:
        show({str(path): rows for path, rows in written.items()})
        return
    for path, rows in written.items():
        typer.echo(f"{path}  {rows} rows")


def _attacks(run: Run, to: Path, part: Part, successful: bool) -> int:
    """How many attacks were written into the file `to`."""
    from equipoise.environments.red_team.export_attacks import attacks, write_attacks
    from equipoise.environments.red_team.game import RedTeam
    from equipoise.errors import ConfigError, RunError

    game, config = run.config.game, run.config
    if not isinstance(game, RedTeam):
        raise RunError(
            f"{run.folder}: plays the game '{game.kind}', in which nobody attacks; red_team has adversaries"
        )
    if to.suffix.lower() != ".jsonl" or to.is_dir():
        raise ConfigError(
            f"--to {to}: attacks are written into one JSON Lines file; name it with .jsonl"
        )

    def judge_of(match: Match) -> str:
        teacher = config.judge_of(
            match.seats[
                next(seat for seat in match.seats if game.role(seat) == "defender")
            ].name
        )
        return (
            (config.evaluate.judge or teacher).name
            if match.split == "held_out"
            else teacher.name
        )

    parts = ("train", "held_out") if part == "all" else (part,)
    to.parent.mkdir(parents=True, exist_ok=True)
    count = write_attacks(
        to, attacks(run.ledger, game.threads, judge_of, parts, successful)
    )
    if not count and not successful:
        to.unlink()
        raise RunError(
            f"{run.folder}: its {part.replace('_', '-')} matches hold no attack that was answered"
        )
    return count
