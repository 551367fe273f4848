"""The texts of a corpus: lines of text files, and the strings in rows of JSON Lines, JSON and
Parquet files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts import files

TEXT_FILES = (".txt", ".md", ".text")


def read_texts(paths: Sequence[str], columns: Sequence[str] = ()) -> Iterator[str]:
    """Every text of the files that is not blank, in order.

    Args: paths: files or patterns; columns: of rows take these only, () for all. Raises DataError
    naming a file that is missing, empty, malformed, or without text.
    """
    for file, part in files.find(tuple(paths), Path()):
        is_text = file.suffix.lower() in TEXT_FILES
        texts = _lines(file) if is_text else _rows(file, part, columns)
        empty = True
        for text in texts:
            if text.strip():
                empty = False
                yield text
        if empty:
            raise DataError(f"{file}: holds no text; a corpus needs some")


def _lines(file: Path) -> Iterator[str]:
    try:
        yield from file.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error


def _rows(file: Path, part: str, columns: Sequence[str]) -> Iterator[str]:
    for where, row in files.read(file, part):
        for column in columns:
            if not isinstance(row, dict) or column not in row:
                known = [str(key) for key in row] if isinstance(row, dict) else []
                hint = nearest(column, known) if known else "the row has no columns"
                raise DataError(f"{where}: no column '{column}'; {hint}")
        yield from _texts([row[column] for column in columns] if columns else row)


def _texts(value: Any) -> Iterator[str]:
    """The strings in a row, however deep; of a chat message its content, not its role."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, dict):
        is_message = {"role", "content"} <= value.keys()
        value = [value["content"]] if is_message else list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
