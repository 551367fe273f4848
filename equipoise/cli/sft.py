"""`equipoise sft MODEL DATA --out DIR`: fine-tune a model that a game can then improve."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import Json, say, show


def sft(
    model: Annotated[
        str, typer.Argument(help="a causal language model: hub id, folder, or builtin")
    ],
    data: Annotated[
        str,
        typer.Argument(help="JSONL, JSON or Parquet in TRL's prompt-completion or messages format"),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    epochs: Annotated[float, typer.Option(help="passes over the data")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="peak learning rate")] = 1e-4,
    batch_size: Annotated[int, typer.Option(help="examples per step")] = 16,
    max_length: Annotated[
        int | None, typer.Option(help="tokens of prompt and answer", show_default="the model's")
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of the data's order")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace what is in the folder")
    ] = False,
    json: Json = False,
) -> None:
    """Fine-tune a model on answers.

    Only the tokens of answers are trained on.
    """
    from equipoise.learners.sft_learner import SFT
    from equipoise.report.terminal import Display, terminal
    from equipoise.runs.fine_tune import fine_tune

    settings = SFT.model_validate(
        {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
    )
    with Display(console=terminal(stderr=json), silent=json) as display:
        tuned = fine_tune(
            model,
            data,
            out,
            settings,
            seed=seed,
            max_length=max_length,
            overwrite=overwrite,
            monitor=display,
        )
    if json:
        show({"model": str(out), **tuned.metrics, "examples": tuned.examples})
    else:
        say(out)
