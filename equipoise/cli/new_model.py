"""`equipoise new-model --corpus FILE --out DIR`: make a tokenizer and a small untrained model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, say, show
from equipoise.system.locks import check_writable

if TYPE_CHECKING:
    from equipoise.models.fresh_model import NewModel

Shrink = Annotated[bool, typer.Option("--shrink", help="fewer tokens where the corpus has no more")]


def new_model(
    corpus: Annotated[
        list[str],
        typer.Option(help="a file or pattern: text, JSONL, JSON or Parquet; may be repeated"),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    size: Annotated[
        str,
        typer.Option(help="tiny (about 1M parameters), small (about 10M) or medium (about 40M)"),
    ] = "tiny",
    vocabulary: Annotated[
        int, typer.Option(help="tokens of the tokenizer, special ones included")
    ] = 3000,
    shrink: Shrink = False,
    context: Annotated[
        int, typer.Option(min=16, help="longest text the model can read, in tokens")
    ] = 512,
    hidden: Annotated[
        int | None, typer.Option(min=2, help="width", show_default="the size's")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="depth", show_default="the size's")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(min=1, help="attention heads", show_default="the size's")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="of rows, read this column only; may be repeated")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random weights")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="write into a folder that is not empty")
    ] = False,
    json: Json = False,
) -> None:
    """Make a small untrained model and its tokenizer from a corpus."""
    from equipoise.models import fresh_model as model
    from equipoise.models.fresh_model import read_texts

    _check_out(out, overwrite)
    texts = list(read_texts(corpus, column or ()))
    shape = model.resize(size, hidden=hidden, layers=layers, heads=heads)
    made = model.new_model(
        texts, out, vocabulary=vocabulary, size=shape, context=context, seed=seed, shrink=shrink
    )
    if json:
        show(asdict(made))
    else:
        _print(made, len(texts))


def _print(made: NewModel, texts: int) -> None:
    size = f"{made.parameters:,} parameters, {made.vocabulary:,} tokens of vocabulary"
    say(f"{size} in {made.folder}")
    say(f"the corpus: {texts:,} texts, {made.corpus_tokens:,} tokens")


def _check_out(out: Path, overwrite: bool) -> None:
    """Raises ConfigError for what holds something, RunError where nothing can be written."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not overwrite):
        raise ConfigError(
            f"{out}: is not an empty folder; choose another --out, or --overwrite to write into it"
        )
    check_writable(out)
