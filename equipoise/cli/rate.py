"""`equipoise rate RUN --by …`: ratings of a run's players, computed anew from its ledger alone.
`equipoise judge RUN --with …`: another judge's judgements of its matches, beside its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec import to_builtins

from equipoise.system.command_options import Json, RunFolder, Trust, override, say, show

if TYPE_CHECKING:
    from equipoise.api.rejudge import Rejudgement
    from equipoise.api.rerate import Rerating
    from equipoise.blocks.terminal import Value
    from equipoise.ratings.base import Rating


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
            help="the judge whose scores count, by its name in the ledger; human: people's votes",
            show_default="the run's",
        ),
    ] = "",
    set: Annotated[list[str], override("a setting of the rating: k=8")] = [],  # noqa: B006
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Rate a run's players again from its records, by another method or judge.

    By the training matches, after each generation; or the whole league, by held-out pay-offs.
    """
    from equipoise.api.handle import Run

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
        print_ratings(rerating)


def print_ratings(rerating: Rerating) -> None:
    """Print the ratings."""
    for t, rated in enumerate(rerating.ratings):
        when = {
            "matches": f"after generation {t}",
            "league": "of the league",
            "votes": "by people's votes",
        }[rerating.rated_by]
        print_table(f"{rerating.kind} {when}", rated)
    if rerating.warning:
        say(f"warning: {rerating.warning}")


def print_table(title: str, ratings: Sequence[Rating]) -> None:
    """Print rows in columns."""
    from rich.table import Table

    from equipoise.blocks.terminal import terminal

    table = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="dim")
    for column in ("player", "rating", "95 % interval"):
        table.add_column(column, justify="left" if column == "player" else "right")
    digits = 1 if max((abs(r.value) for r in ratings), default=0) >= 10 else 3
    for rating in ratings:
        unknown = rating.low != rating.low
        interval = f"{rating.low:.{digits}f} to {rating.high:.{digits}f}"
        table.add_row(rating.name, f"{rating.value:.{digits}f}", "–" if unknown else interval)
    terminal().print(table)


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
    """Let another judge score the recorded matches of a run.

    Nothing is played; its judgements are recorded beside the run's.
    """
    from equipoise.api.handle import Run, ask_for_trust

    rejudgement = Run(folder, trust=ask_for_trust(folder, trust)).rejudge(
        by, set, part=part, generation=generation, progress=not json
    )
    if json:
        show({**asdict(rejudgement), **_plain(rejudgement)})
    else:
        print_judgement(rejudgement)


def print_judgement(rejudgement: Rejudgement) -> None:
    """Print what a judge said again, beside what was said."""
    from rich.table import Table

    from equipoise.blocks.terminal import status_table, terminal

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
