"""`equipoise best-response RUN@PLAYER@GENERATION`: train a fresh player against a frozen one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.errors import RunError
from equipoise.system.command_options import Json, Trust, override, show

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
    """Train a fresh player against a frozen one, and say what it gets.

    It plays the run's own game, prompts and judge, for what it gets alone, and as many generations
    as the run had unless `-s generations=…` says otherwise. The exploiter has a run directory of
    its own, which is resumed like any run.
    """
    from equipoise.runs.handle import Run, ask_for_trust
    from equipoise.runs.measure_sets import is_run

    folder, _, player = target.partition("@")
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
        _print(facts)


def _print(facts: dict[str, Any]) -> None:
    from equipoise.report.learning_sections import estimate_text
    from equipoise.report.terminal import status_table, terminal

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
