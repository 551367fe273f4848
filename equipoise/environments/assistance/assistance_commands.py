"""Verbs of the assistant's game: `welfare RUN_A RUN_B` compares two runs, prompt by prompt,
`dominance RUN RUN …` sets several over one another, and `traces RECIPE --teacher … --out DIR` makes
training data of a teacher's best plays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.report.history import at_generation, short_names
from equipoise.system.command_options import Json, Recipe, override, say, show
from equipoise.system.plugins import plugin_table

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.environments.assistance.comparison import Comparison


ROWS: Mapping[str, tuple[str, str]] = {  # a field of `ComparedRun` -> its title and unit
    "user": ("utility to the user", ""),
    "llm": ("utility to the model", ""),
    "welfare": ("welfare", ""),
    "nash_welfare": ("Nash welfare", ""),
    "cobb_douglas": ("Cobb–Douglas", ""),
    "coverage": ("ε-coverage of the joint front", "%"),
    "regret": ("regret", "%"),
    "spread": ("spread", ""),
    "spread_user": ("spread of the user's", ""),
    "spread_llm": ("spread of the model's", ""),
    "hypervolume": ("hypervolume", ""),
    "epsilon_indicator": ("ε-indicator to the other's front", ""),
    "scalarisation_regret": ("scalarisation regret", ""),
    "constrained_user": ("best to the user, the model held", "%"),
    "constrained_llm": ("best to the model, the user held", "%"),
    "tokens": ("tokens of an answer", ""),
    "quality_per_1000_tokens": ("answer score per 1000 tokens", ""),
    "quality_per_1000_characters": ("answer score per 1000 characters", ""),
    "response_share": ("response's share of the answer", "%"),
}
RunAt = Annotated[
    str, typer.Argument(metavar="RUN[@GENERATION]", help="a run directory of the game assistance")
]
Eps = Annotated[
    float,
    typer.Option(
        min=0, help="ε: of dominance in units of the pay-off, of coverage as a share of its range"
    ),
]


def welfare(
    run_a: RunAt,
    run_b: RunAt,
    generation_a: Annotated[
        int | None, typer.Option(min=0, help="of the first run", show_default="the last")
    ] = None,
    generation_b: Annotated[
        int | None, typer.Option(min=0, help="of the second run", show_default="the last")
    ] = None,
    eps: Eps = 0.0,
    alpha: Annotated[
        float, typer.Option(min=0, max=1, help="the user's weight in welfare and Cobb–Douglas")
    ] = 0.5,
    reference: Annotated[
        tuple[float, float],
        typer.Option(metavar="USER LLM", help="where the hypervolume is counted from"),
    ] = (0.0, 0.0),
    json: Json = False,
) -> None:
    """Compare the utilities of two runs, or of two generations of one, on the held-out prompts that
    both measured.
    """
    from math import isfinite

    from equipoise.blocks.terminal import status_table, terminal
    from equipoise.environments.assistance.comparison import (
        ComparisonSettings,
        compare_runs,
        measured_run,
    )
    from equipoise.errors import ConfigError
    from equipoise.runs.directory import RunDirectory

    if not all(map(isfinite, (eps, alpha, *reference))):
        raise ConfigError(
            f"--eps {eps}, --alpha {alpha}, --reference {reference}: each must be a finite number"
        )
    folder_a, a = at_generation(run_a, generation_a, "--generation-a")
    folder_b, b = at_generation(run_b, generation_b, "--generation-b")
    title_a, title_b = short_names([folder_a, folder_b])
    with RunDirectory.read(folder_a) as first, RunDirectory.read(folder_b) as second:
        comparison = compare_runs(
            measured_run(first, title_a, a),
            measured_run(second, title_b, b),
            ComparisonSettings(eps, alpha, reference),
        )
    if json:
        show(comparison.facts())
        return
    console = terminal()
    console.print(_numbers(comparison))
    console.print(status_table(_remarks(comparison)))


def dominance(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN[@GENERATION]…", help="two run directories or more")
    ],
    eps: Eps = 0.0,
    json: Json = False,
) -> None:
    """Print how far each of several runs dominates each other one, prompt by prompt.

    A cell holds the advantage of the row's run over the column's, on the prompts that both
    measured: GTAlign's heat maps as numbers.
    """
    from contextlib import ExitStack
    from math import isfinite

    from equipoise.blocks.section import number
    from equipoise.blocks.terminal import terminal
    from equipoise.environments.assistance.comparison import measured_run
    from equipoise.environments.assistance.dominance import MEASURES, dominance_table
    from equipoise.errors import ConfigError
    from equipoise.runs.directory import RunDirectory

    if not isfinite(eps):
        raise ConfigError(f"--eps {eps}: must be a finite number")
    places = [at_generation(run) for run in runs]
    titles = short_names([folder for folder, _ in places])
    with ExitStack() as stack:
        measured = []
        for (folder, generation), title in zip(places, titles, strict=True):
            opened = stack.enter_context(RunDirectory.read(folder))
            measured.append(measured_run(opened, title, generation))
        made = dominance_table(measured, eps)
    if json:
        show(made.facts())
        return
    names = [f"{run}@{at}" for run, at in zip(made.runs, made.generations, strict=True)]
    for field, title in MEASURES.items():
        unit = "%" if field != "hypervolume" else ""
        rows = getattr(made, field)
        texts = [[number(value, unit) for value in row] for row in rows]
        for place in range(len(names)):
            texts[place][place] = "–"
        say(f"{title}:")
        terminal().print(square_table(names, texts))


def square_table(names: Sequence[str], texts: Sequence[Sequence[str]]) -> Table:
    """A table of N rows and columns with these names."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in names:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for name, row in zip(names, texts, strict=True):
        table.add_row(Text(name), *row)
    return table


def _titles(comparison: Comparison) -> list[str]:
    runs = zip(comparison.runs, comparison.generations, strict=True)
    return [f"{run}@{generation}" for run, generation in runs]


def _numbers(comparison: Comparison) -> Table:
    from rich.table import Table
    from rich.text import Text

    from equipoise.blocks.section import number

    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.title = f"{comparison.prompts.both} prompts in both"
    table.add_column("")
    for column in (*_titles(comparison), "difference, 95 % interval"):
        table.add_column(Text(column), justify="right", no_wrap=True)
    for field, (title, unit) in ROWS.items():
        difference = getattr(comparison.differences, field, None)
        table.add_row(
            title,
            number(getattr(comparison.first, field), unit),
            number(getattr(comparison.second, field), unit),
            "" if difference is None else difference.interval.text(),
        )
    return table


def _remarks(comparison: Comparison) -> list[tuple[str, str]]:
    dominance = comparison.dominance
    prompts = comparison.prompts
    first, second = _titles(comparison)
    remarks = [
        (f"{first} dominates", f"at {dominance.first_dominates} prompts"),
        (f"{second} dominates", f"at {dominance.second_dominates} prompts"),
        ("neither", f"{dominance.incomparable} prompts, {dominance.equal} of them equal"),
    ]
    left_out = ((first, prompts.only_first), (second, prompts.only_second))
    for title, count in left_out:
        if count:
            remarks.append((f"only in {title}", f"{count} prompts, left out"))
    return remarks + [("note", note) for note in comparison.notes]


Teacher = Annotated[
    str,
    typer.Option(
        help=f"who plays the learner's part: {', '.join(plugin_table('TEACHERS'))}, a YAML "
        "file, or YAML: {kind: …}"
    ),
]
Out = Annotated[
    Path, typer.Option(help="the folder for traces.jsonl, candidates.jsonl and the ledger")
]
Candidates = Annotated[int, typer.Option(min=1, help="plays on each prompt; the best one is kept")]
Count = Annotated[
    int | None, typer.Option(min=1, help="prompts to play on", show_default="all training prompts")
]
Least = Annotated[float, typer.Option(help="the least pay-off of a play that is kept")]
Train = Annotated[
    str | None, typer.Option(help="also train this model on the traces: hub id, folder, builtin")
]
Epochs = Annotated[float, typer.Option(help="with --train: passes over the traces")]
LearningRate = Annotated[float, typer.Option(help="with --train: peak learning rate")]
BatchSize = Annotated[int, typer.Option(help="with --train: traces per step")]


def traces(
    recipe: Recipe,
    teacher: Teacher,
    out: Out,
    candidates: Candidates = 9,
    count: Count = None,
    least: Least = 0.0,
    train: Train = None,
    epochs: Epochs = 1.0,
    learning_rate: LearningRate = 1e-5,
    batch_size: BatchSize = 16,
    set: Annotated[list[str], override("a setting of the recipe: prompts.path=train.parquet")] = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Have a teacher play a recipe's game, and keep its best plays.

    It plays on the training prompts; with --train, a model is trained on the best plays to start
    from. Run again, it goes on where it stopped: what was played and judged is in
    DIR/ledger.sqlite.
    """
    from equipoise.api.cold_start import cold_start, load, teacher_named
    from equipoise.blocks.terminal import Display, terminal
    from equipoise.learners.sft_learner import SFT

    config = load(recipe, set, train)
    training = SFT.model_validate(
        {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
    )
    with Display(console=terminal(stderr=json), silent=json) as display:
        started = cold_start(
            config,
            teacher_named(teacher),
            out,
            candidates=candidates,
            count=count,
            least=least,
            train=train,
            training=training,
            monitor=display,
        )
    if json:
        facts = asdict(started)
        show({name: value for name, value in facts.items() if value is not None})
        return
    say(
        f"{started.traces}  {started.kept} of {started.played} plays, "
        f"mean pay-off {started.mean:.3f}"
    )
    if started.model is not None:
        say(started.model)
