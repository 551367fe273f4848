"""`equipoise judge RUN --with …`: another judge's judgements of a run's matches, beside its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec import to_builtins

from equipoise.system.command_options import Json, RunFolder, Trust, override, show

if TYPE_CHECKING:
    from equipoise.report.terminal import Value
    from equipoise.runs.rejudge import Rejudgement


def judge(
    folder: RunFolder,
    by: Annotated[
        str, typer.Option("--with", help="a kind of judge, a YAML file, or YAML: {kind: rubric, …}")
    ],
    part: Annotated[
        Literal["train", "held_out", "test", "people"],
        typer.Option(help="which matches; people: what they voted on"),
    ] = "held_out",
    generation: Annotated[
        int | None, typer.Option(min=0, help="judge this generation only", show_default="all")
    ] = None,
    set: Annotated[list[str], override("a setting of the judge: model=org/name")] = [],  # noqa: B006
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Have another judge judge a run's matches.

    Nothing is played; its judgements are recorded beside the run's.
    """
    from equipoise.runs.handle import Run, ask_for_trust

    rejudgement = Run(folder, trust=ask_for_trust(folder, trust)).rejudge(
        by, set, part=part, generation=generation, progress=not json
    )
    if json:
        show({**asdict(rejudgement), **_plain(rejudgement)})
    else:
        _print(rejudgement)


def _print(rejudgement: Rejudgement) -> None:
    from rich.table import Table

    from equipoise.report.terminal import status_table, terminal

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("player")
    for name in (rejudgement.judge, rejudgement.beside or "–"):
        table.add_column(name, justify="right")
    for player in sorted({*rejudgement.scores, *rejudgement.scores_beside}):
        table.add_row(
            player, _score(rejudgement.scores, player), _score(rejudgement.scores_beside, player)
        )
    console = terminal()
    console.print(table)
    console.print(
        f"{rejudgement.judge} on {rejudgement.matches} matches", style="bold", highlight=False
    )
    plain = _plain(rejudgement)
    facts = {**(plain["agreement"] or {}), **(plain["report"] or {})}
    console.print(status_table(_rows(facts)))


def _plain(rejudgement: Rejudgement) -> dict[str, Any]:
    return {
        "agreement": to_builtins(rejudgement.agreement),
        "report": to_builtins(rejudgement.report),
    }


def _score(scores: Mapping[str, float], player: str) -> str:
    return f"{scores[player]:.3f}" if player in scores else "–"


def _rows(facts: Mapping[str, Any]) -> list[tuple[str, Value]]:
    """The facts that are a number or an interval; others are for `--json`."""
    from equipoise.payoffs.intervals import Interval

    rows: list[tuple[str, Value]] = []
    for name, value in facts.items():
        if not isinstance(value, dict):
            rows.append((name, value))
        elif {"mean", "low", "high", "n"} <= value.keys():
            interval = Interval(value["mean"], value["low"], value["high"], value["n"])
            rows.append((name, interval))
    return rows
