"""`equipoise rate RUN --by …`: ratings of a run's players, computed anew from its ledger alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from equipoise.system.command_options import Json, RunFolder, Trust, override, say, show

if TYPE_CHECKING:
    from equipoise.ratings.base import Rating
    from equipoise.runs.rerate import Rerating


def rate(
    folder: RunFolder,
    by: Annotated[
        str,
        typer.Option(
            help="a kind of rating, a YAML file, or YAML: {kind: elo, k: 8}",
            show_default="the run's",
        ),
    ] = "",
    of: Annotated[
        Literal["matches", "league", "votes"] | None,
        typer.Option(
            help="matches: the players, by their training matches; league: every "
            "generation, by held-out pay-offs; votes: every generation, by people's",
            show_default="votes, for --judge human; matches, where several players met in training",
        ),
    ] = None,
    judge: Annotated[
        str,
        typer.Option(
            help="whose judgements count, as the ledger names the judge; human: people's votes",
            show_default="the run's",
        ),
    ] = "",
    set: Annotated[list[str], override("a setting of the rating: k=8")] = [],  # noqa: B006
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Rate a run's players anew, from its ledger.

    By the training matches, after every generation, or the whole league by held-out pay-offs.
    """
    from equipoise.runs.handle import Run

    rerating = Run(folder, trust=trust).rerate(by or None, set, of=of, judge=judge)
    if json:
        show(
            {
                "of": rerating.rated_by,
                "warning": rerating.warning,
                "ratings": [[asdict(r) for r in rated] for rated in rerating.ratings],
            }
        )
    else:
        _print(rerating)


def _print(rerating: Rerating) -> None:
    for t, rated in enumerate(rerating.ratings):
        when = {
            "matches": f"after generation {t}",
            "league": "of the league",
            "votes": "by people's votes",
        }[rerating.rated_by]
        _print_table(f"{rerating.kind} {when}", rated)
    if rerating.warning:
        say(f"warning: {rerating.warning}")


def _print_table(title: str, ratings: Sequence[Rating]) -> None:
    from rich.table import Table

    from equipoise.report.terminal import terminal

    table = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="dim")
    for column in ("player", "rating", "95 % interval"):
        table.add_column(column, justify="left" if column == "player" else "right")
    digits = 1 if max((abs(r.value) for r in ratings), default=0) >= 10 else 3
    for rating in ratings:
        unknown = rating.low != rating.low
        interval = f"{rating.low:.{digits}f} to {rating.high:.{digits}f}"
        table.add_row(rating.name, f"{rating.value:.{digits}f}", "–" if unknown else interval)
    terminal().print(table)
