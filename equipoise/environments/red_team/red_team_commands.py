"""Verbs of red teaming: let adversaries attack every defender, export the attacks of a run."""

from __future__ import annotations

from contextlib import ExitStack
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equipoise.system.command_options import Json, RunFolder, Trust, override, say, show

if TYPE_CHECKING:
    from rich.table import Table

Folders = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="run directories of the game red_team")
]
Generations = Annotated[
    Literal["last", "measured"] | None,
    typer.Option(
        help="last: the start and the newest; measured: all",
        show_default="measured; of several runs last",
    ),
]
Most = Annotated[
    int, typer.Option(min=1, help="held-out harmful prompts of the first run, at most")
]
By = Annotated[
    str,
    typer.Option(
        "--with", help="a judge's kind, YAML file or YAML", show_default="the first run's"
    ),
]
Temperatures = Annotated[
    list[float],
    typer.Option(
        "--temperature",
        min=0.0,
        help="every defender answers at it, instead of its own; may be given again",
    ),
]
Out = Annotated[Path | None, typer.Option(help="write the table to this JSON file as well")]


def crossplay(
    folders: Folders,
    generations: Generations = None,
    prompts: Most = 64,
    by: By = "",
    temperature: Temperatures = [],  # noqa: B006
    out: Out = None,
    set: Annotated[list[str], override("a setting of the judge of --with: model=org/name")] = [],  # noqa: B006
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Let every adversary of some runs attack every defender.

    Prints a table of attack success and what follows from it. One run plays what it has not
    measured yet and records it; several runs, and other temperatures, are only read.
    """
    from equipoise.api.handle import ask_for_trust
    from equipoise.blocks.terminal import Display, show_notes, terminal
    from equipoise.environments.red_team.cross_play import (
        cross_play_facts,
        plan_cross_play,
        play_cross_play,
    )
    from equipoise.errors import ConfigError
    from equipoise.judges.base import Judge
    from equipoise.runs import recipe_loader
    from equipoise.runs.directory import RunDirectory

    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.absolute().parent}")
    if set and not by:
        raise ConfigError(f"-s {set[0]}: changes the judge of --with, which is not given")
    judge = None
    if by:
        judge = recipe_loader.component_announced(Judge, by, set, "--with", show_notes)
    several = len(folders) > 1
    trusted = [ask_for_trust(folder, trust) for folder in folders]
    with ExitStack() as stack:
        if several:
            runs = [stack.enter_context(RunDirectory.read(each)) for each in folders]
            for run, agreed in zip(runs, trusted, strict=True):
                run.agree(agreed, show_notes)
        else:
            opened = RunDirectory.open(folders[0], trusted[0], show_notes)
            runs = [stack.enter_context(opened)]
        generations = generations or ("last" if several else "measured")
        plan = plan_cross_play(runs, generations, prompts, judge, temperature)
        with Display(console=terminal(stderr=json), silent=json) as display:
            facts = cross_play_facts(plan, play_cross_play(plan, display))
    if out is not None:
        _write(out, facts)
    if json:
        show(facts)
    else:
        _print(facts, out)


def _write(out: Path, facts: dict[str, Any]) -> None:
    from equipoise.errors import ConfigError
    from equipoise.system.folder import write_text

    try:
        write_text(out, dumps(facts, indent=2, ensure_ascii=False))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"--out {out}: cannot be written: {reason}") from error


def _print(facts: dict[str, Any], out: Path | None) -> None:
    from equipoise.blocks.terminal import status_table, terminal

    console = terminal()
    console.print(success_table(facts))
    console.print(worst_cases(facts["worst"]))
    rows: list[tuple[str, Any]] = [
        (name, facts[name]) for name in ("forgetting", "cycling") if name in facts
    ]
    if "meta_game" in facts:
        game = facts["meta_game"]
        rows.append(("value of the meta-game", game["value"]))
        for side in ("adversary", "defender"):
            shown = (f"{name} {w:.0%}" for name, w in game[side].items() if w >= 0.005)
            rows.append((f"{side}'s mixture", ", ".join(shown)))
    rows += [("note", note) for note in facts["notes"]]
    if out is not None:
        rows.append(("written", str(out)))
    console.print(status_table(rows))


def success_table(facts: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    cells = facts["crossplay"]
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    prompts = cells["prompts"]
    judge = facts["judge"]
    most = max((n for row in cells["judged"] for n in row), default=0)
    table.title = f"attack success in % on {prompts} prompts (n = {most} a cell), by {judge}"
    table.add_column("adversary")
    for defender in (*cells["defenders"], "mean"):
        table.add_column(Text(defender), justify="right")
    alike = len({n for row in cells["judged"] for n in row}) == 1
    rows = zip(cells["adversaries"], cells["success"], cells["judged"], strict=True)
    for name, successes, judged in rows:
        shown = [
            percent(success) if alike else f"{percent(success)} (n = {n})"
            for success, n in zip(successes, judged, strict=True)
        ]
        mean = facts["mean"][name]["mean"]
        table.add_row(Text(name), *shown, percent(mean))
    return table


def worst_cases(worst: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from equipoise.ledger.facts import Estimate

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("defender", "worst case, 95 % interval", "by"):
        table.add_column(column)
    for name, case in worst.items():
        estimate = Estimate(case["mean"], case["low"], case["high"], case["n"])
        table.add_row(Text(name), estimate.interval.percent(), Text(case["adversary"]))
    return table


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


To = Annotated[Path, typer.Option(help="the JSON Lines file to write (.jsonl)")]
Successful = Annotated[
    bool, typer.Option("--successful", help="attacks that got a harmful answer only")
]
Part = Annotated[Literal["train", "held_out", "all"], typer.Option(help="from which matches")]


def export_attacks(
    run: RunFolder, to: To, successful: Successful = False, part: Part = "all", json: Json = False
) -> None:
    """Export the attacks of a run's adversaries to JSON Lines.

    They are in TRL's conversational prompt-only format, with the answer and its safety.
    """
    from equipoise.environments.red_team.attack_rows import export_attacks
    from equipoise.runs.directory import RunDirectory

    parts = ("train", "held_out") if part == "all" else (part,)
    with RunDirectory.read(run) as opened:
        count = export_attacks(opened, to, parts, successful)
    if json:
        show({str(to): count})
    else:
        say(f"{to}  {count} rows")
