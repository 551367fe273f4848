"""`equipoise evaluate RUN … --on …`: what any generation, model or endpoint scores on
named sets; nothing is trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from equipoise.options import Json, Trust, override, show

if TYPE_CHECKING:
    from equipoise.evaluate.benchmarks.records import AgainstStart

PLAYER = "player."  # what settings of a bare model begin with

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="RUN, RUN@PLAYER, RUN@PLAYER@GENERATION (or @all); a model's folder, hub "
        "id or packaged name; an endpoint's address",
    ),
]
On = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="SET",
        help="a benchmark's name, a file of prompts (or org/name), a YAML file, or YAML: "
        "{kind: gsm8k, limit: 100}; NAME=SET names it; may be given again",
    ),
]


def evaluate(
    targets: Targets,
    on: On,
    judge: Annotated[
        str,
        typer.Option(
            help="judges every set that names no judge: a kind, a YAML file, or YAML",
            show_default=False,
        ),
    ] = "",
    set: Annotated[
        list[str],
        override(
            "a setting of every set: limit=100; of a bare model: player.batch_size=8"
        ),
    ] = [],  # noqa: B006
    out: Annotated[
        Path | None,
        typer.Option(
            help="the run directory that is made for a model",
            show_default="runs/evaluate/MODEL",
        ),
    ] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Measure players on named sets, and record what they score.

    Nothing is trained, and what is recorded is not asked again. Of a run, the start and
    the newest generation of everyone who learns are measured where no player is named.
    """
    from equipoise.cli.trusting import agreed
    from equipoise.run import api
    from equipoise.run.evaluation import is_run

    of_player = [text.removeprefix(PLAYER) for text in set if text.startswith(PLAYER)]
    of_sets = [text for text in set if not text.startswith(PLAYER)]
    rows: list[tuple[Path, AgainstStart]] = []
    for target, players in _by_run(targets).items():
        trusted = is_run(target) and agreed(Path(target), trust)
        run = api.run_to_measure(target, out, of_player, trust=trusted)
        results = run.evaluate(on, players, judge or None, of_sets, progress=not json)
        rows += [(run.path, row) for row in run.beside_start(results)]
    if json:
        show([{"run": str(path), **_plain(row)} for path, row in rows])
    else:
        _print(rows)


def _by_run(targets: list[str]) -> dict[str, list[str]]:
    """Run, model or address -> the players of it that are named."""
    from equipoise.errors import RunError
    from equipoise.run.evaluation import is_run

    runs: dict[str, list[str]] = {}
    for target in targets:
        folder, _, player = target.partition("@")
        if player and is_run(folder):
            runs.setdefault(folder, []).append(player)
        elif player and "://" not in target:
            raise RunError(f"{target}: there is no run in {folder}")
        else:
            runs.setdefault(target, [])
    return runs


def _plain(row: AgainstStart) -> dict[str, object]:
    facts = row.result.facts()
    return {**facts, "differences": to_builtins(row.differences)}


def _print(rows: list[tuple[Path, AgainstStart]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from equipoise.evaluate.benchmarks.section import (
        difference_text,
        estimate_text,
        words,
    )

    several = len(_paths(rows)) > 1
    names = {row.result.name for _, row in rows}
    judges = len({(row.result.name, row.result.judge) for _, row in rows}) > len(names)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in (*(["run"] if several else []), "set", "player", "metric"):
        table.add_column(column)
    for column in ("95 % interval", "over the start", "items"):
        table.add_column(column, justify="right")
    for path, (result, _, differences) in rows:
        metric, unit = result.headline, result.unit(result.headline)
        difference = differences.get(metric)
        unscored = f", {result.unscored:,} unscored" if result.unscored else ""
        name = f"{result.name} ({result.judge})" if judges else result.name
        cells = [path.name] if several else []
        cells += [name, result.player, words(metric)]
        cells.append(estimate_text(result.score, unit))
        cells.append(difference_text(difference, unit) if difference else "–")
        table.add_row(*map(Text, [*cells, f"{result.n:,}{unscored}"]))
    console = Console()
    console.print(table)
    for path in _paths(rows):
        console.print(
            f"go deeper: equipoise report {path}", style="dim", soft_wrap=True
        )


def _paths(rows: list[tuple[Path, AgainstStart]]) -> list[Path]:
    return list(dict.fromkeys(path for path, _ in rows))
