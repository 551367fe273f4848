"""`equipoise run RECIPE` plays a recipe out in a run directory; `equipoise resume RUN` goes on with
one that was stopped or killed; `best-response RUN@PLAYER` trains a fresh player against one of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.errors import RunError
from equipoise.system.command_options import Json, Recipe, RunFolder, Set, Trust, override, show

if TYPE_CHECKING:
    from equipoise.api.handle import Run

Additions = Annotated[
    list[str], override("what adds or limits: generations=6, players.NAME.budget.calls=1000")
]
Directory = Annotated[
    Path | None,
    typer.Option(
        help="the folder that relative paths of the configuration belong to from now on",
        show_default="where the run was started",
    ),
]


def run(
    recipe: Recipe,
    set: Set = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="the run directory", show_default="runs/RECIPE")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace an earlier run in that directory")
    ] = False,
    json: Json = False,
) -> None:
    """Run a recipe: play matches, train the learners, write a report."""
    from equipoise.api import functions as api

    played = api.run(recipe, set, out, overwrite=overwrite, progress=not json)
    print_run(played, json)


def resume(
    folder: RunFolder,
    set: Additions = [],  # noqa: B006
    directory: Directory = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Continue a run that was stopped, or make it longer.

    Nothing that is recorded is done again. `-s generations=6` makes the run longer. `-s` may also
    raise its limits: budgets, time-outs, max_unjudged. A setting that would change recorded results
    is refused, and so is an edited config.yaml. A run that somebody else started, and that
    executes, sends or reads anything outside its folder, is resumed only with --trust.
    """
    from equipoise.api.handle import Run, ask_for_trust

    run = Run(folder, trust=ask_for_trust(folder, trust, directory))
    print_run(run.resume(set, directory=directory, progress=not json), json)


def print_run(run: Run, json: bool) -> None:
    """Print what a run measured."""
    from equipoise.blocks.terminal import before_after, duration, headline, terminal

    played = run.played
    assert played is not None
    if json:
        show(
            {
                "run": str(played.run),
                "report": str(played.report),
                "seconds": round(played.seconds, 1),
                "seconds_in_all": round(played.seconds_in_all, 1),
                "records": played.records,
                "measured": played.measured,
                "cautions": list(played.cautions),
            }
        )
        return
    console = terminal()
    if played.changes:
        console.print(before_after(played.changes))
    numbers = [(line.label, line.value) for line in played.headlines]
    if played.which_to_trust:
        numbers.append(("which to trust", played.which_to_trust))
    took = duration(played.seconds)
    if played.seconds_in_all > 1.02 * played.seconds + 1:  # it was resumed
        took = f"{took} since it was resumed, {duration(played.seconds_in_all)} in all"
    numbers += [("took", took), ("go deeper", f"equipoise status {played.run}")]
    console.print(headline(played.name, numbers, played.report, played.cautions))


Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="RUN@PLAYER@GENERATION, or RUN@PLAYER for its newest"),
]
Start = Annotated[
    str,
    typer.Option(
        help="how the exploiter begins: a model's folder, hub id or packaged name, or a "
        "player of the run (NAME@GENERATION)",
        show_default="as the run's own player of its role was given",
    ),
]
Role = Annotated[
    str,
    typer.Option(
        help="the exploiter's role in the game, where several are left", show_default=False
    ),
]
Settings = Annotated[
    list[str], override("a setting of the exploiter's run: generations=50, learner.learning_rate=…")
]


def best_response(
    target: Target,
    start: Start = "",
    role: Role = "",
    set: Settings = [],  # noqa: B006
    out: Annotated[
        Path | None,
        typer.Option(
            help="the exploiter's run directory",
            show_default="RUN/best_responses/PLAYER@GENERATION",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace an earlier run in that directory")
    ] = False,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Train an exploiter against a frozen player, to bound its exploitability.

    It plays the run's own game, prompts and judge, for what it gets alone, and as many generations
    as the run had unless `-s generations=…` says otherwise. The exploiter has a run directory of
    its own, which is resumed like any run.
    """
    from equipoise.api.handle import Run, ask_for_trust
    from equipoise.runs.directory import is_run, named_run

    folder, player = named_run(target)
    if not player:
        raise RunError(f"{target}: name a player, as in {folder}@NAME@GENERATION")
    if not is_run(folder):
        raise RunError(f"{target}: there is no run in {folder}")
    run = Run(folder, trust=ask_for_trust(Path(folder), trust))
    exploiters = run.best_response(
        player, start, set, role=role, out=out, overwrite=overwrite, progress=not json
    )
    facts = exploiters.status()["best_response"]
    if json:
        show(facts)
    else:
        print_response(facts)


def print_response(facts: dict[str, Any]) -> None:
    """Print what an exploiter gets."""
    from equipoise.blocks.learning_sections import estimate_text
    from equipoise.blocks.terminal import status_table, terminal

    league, budget = facts["league"], facts["budget"]
    by = f"   {league['by']}" if league["by"] else ""
    rows = [
        ("against", f"{facts['against']['player']} of {facts['against']['run']}"),
        (f"{facts['exploiter']} gets", f"{estimate_text(facts['gets'])} {facts['unit']}"),
        ("at its start", estimate_text(facts["at_start"])),
        ("the league's best", estimate_text(league["gets"]) + by),
        ("updates", f"{budget['updates']:,}"),
        ("samples, tokens", f"{budget['samples']:,}, {budget['tokens']:,}"),
        ("go deeper", f"equipoise report {facts['run']}"),
    ]
    terminal().print(status_table(rows))
