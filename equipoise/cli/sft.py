"""`equipoise sft MODEL DATA --out DIR`: supervised fine-tuning, to make a start that a game can improve on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import Json


def sft(
    model: Annotated[str, typer.Argument(help="a causal language model: hub id or folder")],
    data: Annotated[Path, typer.Argument(help="JSONL, JSON or Parquet in TRL's prompt-completion or messages format")],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    epochs: Annotated[float, typer.Option(help="passes over the data")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="peak learning rate")] = 1e-4,
    batch_size: Annotated[int, typer.Option(help="examples a step")] = 16,
    seed: Annotated[int, typer.Option(help="order of the data")] = 0,
    json: Json = False,
) -> None:
    """Train a model on answers: the loss falls on answer tokens only."""
