"""`equipoise sft MODEL DATA --out DIR`: supervised fine-tuning, to make a start that a
game can improve on.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import Json, show

if TYPE_CHECKING:
    from equipoise.learners.sft import SFT
    from equipoise.report.terminal import Display
    from equipoise.types import Message, Prompt


def sft(
    model: Annotated[
        str, typer.Argument(help="a causal language model: hub id, folder, or builtin")
    ],
    data: Annotated[
        str,
        typer.Argument(
            help="JSONL, JSON or Parquet in TRL's prompt-completion or messages format"
        ),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    epochs: Annotated[float, typer.Option(help="passes over the data")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="peak learning rate")] = 1e-4,
    batch_size: Annotated[int, typer.Option(help="examples a step")] = 16,
    max_length: Annotated[
        int | None,
        typer.Option(help="tokens of prompt and answer [default: the model's]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="order of the data")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace what is in the folder")
    ] = False,
    json: Json = False,
) -> None:
    """Train a model on answers: the loss falls on answer tokens only."""
    from rich.console import Console

    from equipoise.errors import RunError
    from equipoise.learners.sft import SFT
    from equipoise.prompts.files import Files
    from equipoise.report.terminal import Display

    if out.exists() and any(out.iterdir()) and not overwrite:
        raise RunError(f"{out}: is not empty; --overwrite, or another --out")
    prompts = Files.model_validate({"path": data}).load().training
    examples = [
        (prompt.messages, _completion(prompt, i)) for i, prompt in enumerate(prompts, 1)
    ]
    settings = SFT.model_validate(
        {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
    )
    with Display(console=Console(stderr=json), silent=json) as display:
        facts = train_into(out, model, examples, settings, display, seed, max_length)
    if json:
        show({"model": str(out), **facts, "examples": len(examples)})
    else:
        typer.echo(out)


def train_into(
    out: Path,
    model: str,
    examples: Sequence[tuple[Sequence[Message], str]],
    settings: SFT,
    display: Display,
    seed: int,
    max_length: int | None,
) -> dict[str, float]:
    """Train a model on (chat, answer) examples into the folder `out`, which appears
    whole or not at all.
    """
    from equipoise.learners.sft import train_sft

    draft = out.with_name(f".{out.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    display.stage("learn", settings.steps(len(examples)))

    def log(line: dict[str, Any]) -> None:
        display.advance(int(line.get("steps", 0)))
        display.numbers(
            **{
                name: line[name]
                for name in ("loss", "tokens_per_second")
                if name in line
            }
        )

    facts = train_sft(
        model, examples, draft, settings, seed=seed, max_length=max_length, log=log
    )
    shutil.rmtree(out, ignore_errors=True)
    draft.rename(out)
    return facts


def _completion(prompt: Prompt, row: int) -> str:
    """The answer that a row teaches: a text, or the contents of its messages."""
    from equipoise.errors import DataError

    found = prompt.facts.get("completion")
    if isinstance(found, list):
        found = "\n".join(message["content"] for message in found)
    if not isinstance(found, str) or not found.strip():
        raise DataError(
            f"row {row} ({prompt.source}): no completion to learn from; give `completion`, or `messages`"
        )
    return found
