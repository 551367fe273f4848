"""`equipoise crossplay RUN…`: every adversary of one or several runs against every
defender.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from equipoise.options import Json, Set, show


def crossplay(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="run directories of the game red_team"),
    ],
    generations: Annotated[
        Literal["last", "measured"] | None,
        typer.Option(
            help="last: the start and the newest; measured: all [default: measured; of several runs last]"
        ),
    ] = None,
    prompts: Annotated[
        int, typer.Option(min=1, help="held-out harmful prompts of the first run")
    ] = 64,
    by: Annotated[
        str,
        typer.Option(
            "--with",
            help="a judge's kind, YAML file or YAML [default: the first run's]",
        ),
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="write the table to this JSON file as well")
    ] = None,
    set: Set = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Let adversaries and defenders of one or several runs meet: a table of attack
    success and what follows from it.

    One run plays what it has not measured yet and records it; several runs are only
    read.
    """
    from rich.console import Console

    from equipoise.environments.red_team.cross_play import Tournament
    from equipoise.environments.red_team.cross_play_table import summary
    from equipoise.errors import ConfigError
    from equipoise.judges.base import Judge
    from equipoise.report.terminal import Display
    from equipoise.run import config
    from equipoise.run.directory import Run

    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.absolute().parent}")
    if set and not by:
        raise ConfigError(
            f"-s {set[0]}: changes the judge of --with, and there is none"
        )
    judge = config.part(Judge, by, set, "--with") if by else None
    several = len(folders) > 1
    with ExitStack() as stack:
        runs = [
            stack.enter_context((Run.read if several else Run.open)(folder))
            for folder in folders
        ]
        met = Tournament(
            runs, generations or ("last" if several else "measured"), prompts, judge
        )
        with Display(console=Console(stderr=json), silent=json) as display:
            cells = met.play(display)
        adversaries, defenders = (
            [entrant.name for entrant in side]
            for side in (met.adversaries, met.defenders)
        )
        facts = {
            "runs": {
                name: str(run.folder) for name, run in zip(met.names, runs, strict=True)
            },
            "judge": met.judge.name,
            "notes": met.notes,
            **summary(cells, adversaries, defenders),
        }
    if several:  # generations of different runs are in no order
        facts = {
            name: value
            for name, value in facts.items()
            if name not in ("forgetting", "cycling")
        }
    if out is not None:
        _write(out, facts)
    show(facts) if json else _print(facts, out)


def _write(out: Path, facts: dict[str, Any]) -> None:
    import json

    from equipoise.errors import ConfigError

    try:
        out.write_text(
            json.dumps(facts, indent=2, ensure_ascii=False), encoding="utf-8"
        )
    except OSError as error:
        raise ConfigError(
            f"--out {out}: cannot be written: {error.strerror or error}"
        ) from error


def _print(facts: dict[str, Any], out: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from equipoise.report.terminal import status_table

    found, console = facts["crossplay"], Console()
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.title = (
        f"attack success in % on {found['prompts']} prompts, by {facts['judge']}"
    )
    table.add_column("adversary")
    for defender in (*found["defenders"], "mean"):
        table.add_column(Text(defender), justify="right")
    for name, row in zip(found["adversaries"], found["success"], strict=True):
        table.add_row(
            Text(name), *map(_percent, row), _percent(facts["mean"][name]["mean"])
        )
    console.print(table)
    worst = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("defender", "worst case, 95 % interval", "by"):
        worst.add_column(column)
    for name, case in facts["worst"].items():
        worst.add_row(Text(name), _between(case), Text(case["adversary"]))
    console.print(worst)
    rows: list[tuple[str, Any]] = [
        (name, facts[name]) for name in ("forgetting", "cycling") if name in facts
    ]
    if "meta_game" in facts:
        game = facts["meta_game"]
        rows.append(("value of the meta-game", game["value"]))
        rows += [
            (f"{side}'s mixture", _mixture(game[side]))
            for side in ("adversary", "defender")
        ]
    rows += [("note", note) for note in facts["notes"]] + (
        [("written", str(out))] if out else []
    )
    console.print(status_table(rows))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _between(case: dict[str, Any]) -> str:
    from equipoise.payoffs.intervals import Interval

    mean, low, high = (
        float("nan") if case[name] is None else case[name]
        for name in ("mean", "low", "high")
    )
    return Interval(mean, low, high, case["n"]).percent()


def _mixture(weights: dict[str, float]) -> str:
    return ", ".join(
        f"{name} {weight:.0%}" for name, weight in weights.items() if weight >= 0.005
    )
