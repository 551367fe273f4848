"""`equipoise assistance traces RECIPE --teacher … --out DIR`: a teacher plays a recipe's game, and
its best plays become training data.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import Json, Recipe, override, show
from equipoise.system.wings import added

Teacher = Annotated[
    str,
    typer.Option(
        help=f"who plays the learner's part: {', '.join(added('TEACHERS'))}, a YAML "
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
    from rich.console import Console

    from equipoise.learners.sft_learner import SFT
    from equipoise.report.terminal import Display
    from equipoise.runs.cold_start import cold_start, load, teacher_named

    config = load(recipe, set, train)
    training = SFT.model_validate(
        {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
    )
    with Display(console=Console(stderr=json), silent=json) as display:
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
    typer.echo(
        f"{started.traces}  {started.kept} of {started.played} plays, "
        f"mean pay-off {started.mean:.3f}"
    )
    if started.model is not None:
        typer.echo(started.model)
