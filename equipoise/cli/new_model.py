"""`equipoise new-model --corpus FILE --out DIR`: a tokenizer and a small untrained
model, so that no hub is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.options import Json, show
from equipoise.errors import ConfigError, DataError


def new_model(
    corpus: Annotated[
        list[str],
        typer.Option(
            help="text, JSONL, JSON or Parquet; a file or pattern; may be repeated"
        ),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    size: Annotated[
        str,
        typer.Option(
            help="tiny (about 1M parameters), small (about 10M) or medium (about 40M)"
        ),
    ] = "tiny",
    vocabulary: Annotated[
        int, typer.Option(help="tokens of the tokenizer, special ones included")
    ] = 3000,
    context: Annotated[
        int, typer.Option(min=16, help="longest text the model takes, in tokens")
    ] = 512,
    hidden: Annotated[
        int | None, typer.Option(min=2, help="width, instead of the size's")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="depth, instead of the size's")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(min=1, help="attention heads, instead of the size's")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="take these columns' texts only; may be repeated"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of the random weights")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="write into a folder that is not empty")
    ] = False,
    json: Json = False,
) -> None:
    """Fit a tokenizer to a corpus and draw a small Llama's weights at random."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not overwrite):
        raise ConfigError(
            f"{out}: is not an empty folder; name another one, or say --overwrite to write into a folder"
        )
    texts = list(read_texts(corpus, column or ()))
    from equipoise.models import new_model as model

    shape = model.resize(size, hidden=hidden, layers=layers, heads=heads)
    made = model.new_model(
        texts, out, vocabulary=vocabulary, size=shape, context=context, seed=seed
    )
    if json:
        show(asdict(made))
    else:
        typer.echo(
            f"{made.parameters:,} parameters, {made.vocabulary:,} tokens of vocabulary in {made.folder}"
        )
        typer.echo(f"the corpus: {len(texts):,} texts, {made.corpus_tokens:,} tokens")


def read_texts(paths: Sequence[str], columns: Sequence[str] = ()) -> Iterator[str]:
    """Every text of the files: lines of .txt and .md; of rows, all texts, or those
    under `columns`.

    Raises DataError naming a file that is missing, empty, malformed, or without text.
    """
    from equipoise.prompts import files

    for file, part in files.find(tuple(paths), Path()):
        found = False
        for text in (
            _lines(file)
            if file.suffix.lower() in (".txt", ".md", ".text")
            else _rows(file, part, columns)
        ):
            if text.strip():
                found = True
                yield text
        if not found:
            raise DataError(f"{file}: holds no text; a corpus needs some")


def _lines(file: Path) -> Iterator[str]:
    try:
        yield from file.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error


def _rows(file: Path, part: str, columns: Sequence[str]) -> Iterator[str]:
    from equipoise.component import nearest
    from equipoise.prompts import files

    for where, row in files.read(file, part):
        for column in columns:
            if not isinstance(row, dict) or column not in row:
                known = [str(key) for key in row] if isinstance(row, dict) else []
                raise DataError(
                    f"{where}: no column '{column}'; {nearest(column, known) if known else 'no columns'}"
                )
        yield from _texts([row[column] for column in columns] if columns else row)


def _texts(value: Any) -> Iterator[str]:
    """The texts in a row: a message's content without its role, all strings of lists
    and objects.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in (
            [value["content"]]
            if {"role", "content"} <= value.keys()
            else value.values()
        ):
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
