"""`equipoise welfare RUN_A RUN_B`: two runs of the assistant's game, prompt by prompt."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

import typer

from equipoise.cli.options import Json, at_generation, names, show

ROWS = (
    ("user", "utility to the user"),
    ("llm", "utility to the model"),
    ("welfare", "welfare"),
    ("nash_welfare", "Nash welfare"),
    ("cobb_douglas", "Cobb–Douglas"),
    ("coverage", "ε-coverage of the joint front"),
    ("regret", "regret"),
    ("spread", "spread"),
    ("spread_user", "spread of the user's"),
    ("spread_llm", "spread of the model's"),
    ("hypervolume", "hypervolume"),
    ("tokens", "tokens of an answer"),
    ("quality_per_1000_tokens", "answer score per 1000 tokens"),
    ("response_share", "response's share of the answer"),
)
RunAt = Annotated[
    str,
    typer.Argument(
        metavar="RUN[@GENERATION]", help="a run directory of the game assistance"
    ),
]


def welfare(
    run_a: RunAt,
    run_b: RunAt,
    generation_a: Annotated[
        int | None, typer.Option(min=0, help="of the first run [default: the last]")
    ] = None,
    generation_b: Annotated[
        int | None, typer.Option(min=0, help="of the second run [default: the last]")
    ] = None,
    eps: Annotated[
        float,
        typer.Option(
            min=0,
            help="ε: of dominance in units of the pay-off, of coverage as a share of its range",
        ),
    ] = 0.0,
    alpha: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="the user's weight in welfare and Cobb–Douglas"
        ),
    ] = 0.5,
    reference: Annotated[
        tuple[float, float],
        typer.Option(metavar="USER LLM", help="where the hypervolume is counted from"),
    ] = (0.0, 0.0),
    json: Json = False,
) -> None:
    """Compare the utilities of two runs, or of two generations of one, on the held-out
    prompts that both measured.
    """
    from math import isfinite

    from equipoise.environments.assistance.comparison import compared, entry
    from equipoise.errors import ConfigError
    from equipoise.run.directory import Run

    if not all(map(isfinite, (eps, alpha, *reference))):
        raise ConfigError(
            f"--eps {eps}, --alpha {alpha}, --reference {reference}: each must be a finite number"
        )
    asked = [
        at_generation(run_a, generation_a, "--generation-a"),
        at_generation(run_b, generation_b, "--generation-b"),
    ]
    with ExitStack() as stack:
        runs = [stack.enter_context(Run.read(folder)) for folder, _ in asked]
        titles = names([folder for folder, _ in asked])
        first, second = (
            entry(run, title, t)
            for run, title, (_, t) in zip(runs, titles, asked, strict=True)
        )
    facts = compared(first, second, eps, alpha, reference)
    show(facts) if json else _print(facts)


def _print(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from equipoise.report.section import number
    from equipoise.report.terminal import status_table

    titles = [
        f"{run}@{t}" for run, t in zip(facts["runs"], facts["generations"], strict=True)
    ]
    console, prompts = Console(), facts["prompts"]
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.title = f"{prompts['both']} prompts in both"
    table.add_column("")
    for column in (*titles, "difference, 95 % interval"):
        table.add_column(Text(column), justify="right", no_wrap=True)
    for name, words in ROWS:
        between = (
            _between(facts["differences"][name]) if name in facts["differences"] else ""
        )
        unit = "%" if name in ("coverage", "regret", "response_share") else ""
        table.add_row(
            words,
            *(number(facts[side][name], unit) for side in ("first", "second")),
            between,
        )
    console.print(table)
    won = facts["dominance"]
    rows: list[tuple[str, Any]] = [
        (f"{titles[0]} dominates", f"at {won['first_dominates']} prompts"),
        (f"{titles[1]} dominates", f"at {won['second_dominates']} prompts"),
        ("equal, incomparable", f"{won['equal']}, {won['incomparable']}"),
    ]
    rows += [
        (f"only in {run}", f"{prompts[key]} prompts, left out")
        for run, key in zip(titles, ("only_first", "only_second"), strict=True)
        if prompts[key]
    ]
    console.print(status_table([*rows, *(("note", note) for note in facts["notes"])]))


def _between(found: dict[str, Any]) -> str:
    from equipoise.payoffs.intervals import Interval

    mean, low, high = (
        float("nan") if found[name] is None else found[name]
        for name in ("mean", "low", "high")
    )
    return Interval(mean, low, high, found["n"]).text()
