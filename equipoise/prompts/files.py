"""Prompts from JSON Lines, JSON and Parquet files; `rows` says which shapes a row may have."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts.base import Source
from equipoise.prompts.rows import Rows
from equipoise.types import Prompt

Paths = str | tuple[str, ...]


class Files(Rows):
    """Rows of one file, of all files that a pattern matches (`data/*.jsonl`), or of a list of either."""

    kind: Literal["files"] = "files"
    path: Paths = Field(description="file, pattern or list of them; .jsonl, .json or .parquet")
    held_out_path: Paths | None = Field(None, description="the source's own held-out part, given likewise")
    test_path: Paths | None = Field(None, description="the source's own test, given likewise")

    def load(self, folder: Path = Path()) -> Source:
        """Every row of `path`, and of `held_out_path` and `test_path` where given; duplicates are still in."""
        own = (None if paths is None else self._load(paths, folder) for paths in (self.held_out_path, self.test_path))
        return Source(self._load(self.path, folder), *own)

    def _load(self, paths: Paths, folder: Path) -> list[Prompt]:
        return [prompt for file in find(paths, folder) for prompt in self.prompts(read(file), file.name)]


def find(paths: Paths, folder: Path) -> list[Path]:
    """The files that `paths` names, relative to `folder`, patterns in alphabetical order; each file once."""
    files: dict[Path, None] = {}
    for text in [paths] if isinstance(paths, str) else paths:
        path = folder / Path(text).expanduser()
        matched = [path] if path.is_file() else sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        matched = [name for name in matched if name.is_file()]
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name its files, e.g. {text}/*.jsonl")
        if not matched:
            beside = [name.name for name in path.parent.iterdir()] if path.parent.is_dir() else []
            hint = nearest(path.name, beside) if beside else f"there is no folder {path.parent}"
            raise DataError(f"{path}: no such file; {hint}")
        files.update(dict.fromkeys(matched))
    if not files:
        raise DataError("prompts.path names no file")
    return list(files)


def read(file: Path) -> Iterator[tuple[str, Any]]:
    """(where, row) for every row of a file; the suffix says how to read it. DataError names file and line."""
    readers = {".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json, ".parquet": _parquet}
    if file.suffix.lower() not in readers:
        raise DataError(f"{file}: unknown suffix '{file.suffix}'; known: {', '.join(readers)}")
    try:
        empty = True
        for where, row in readers[file.suffix.lower()](file):
            empty = False
            yield where, row
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error
    if empty:
        raise DataError(f"{file}: is empty; it must hold at least one row")


def _json_lines(file: Path) -> Iterator[tuple[str, Any]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = _decode(line, f"{file}:{number}")
            if text.strip():
                yield f"{file}:{number}", _parse(text.rstrip(), file, number)


def _json(file: Path) -> Iterator[tuple[str, Any]]:
    text = _decode(file.read_bytes(), str(file))
    if not text.strip():
        return
    rows = _parse(text, file, 1)
    if not isinstance(rows, list):
        lists = [key for key, value in rows.items() if isinstance(value, list)] if isinstance(rows, dict) else []
        found = f"an object with lists under {', '.join(lists)}" if lists else "no list"
        raise DataError(f"{file}: must be a list of rows, but is {found}; write the rows to a file of their own")
    for number, row in enumerate(rows, 1):
        yield f"{file}: row {number}", row


def _parquet(file: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    if file.stat().st_size == 0:
        return
    try:
        number = 0
        with pyarrow.parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(1024):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{file}: row {number}", row
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{file}: is not a readable Parquet file ({error})") from error


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: is not UTF-8 text (byte {error.start})") from error


def _parse(text: str, file: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{file}:{line + error.lineno - 1}"
        hint = "; is it JSON Lines? then name it .jsonl" if error.msg == "Extra data" and file.suffix == ".json" else ""
        raise DataError(f"{where}: not JSON: {error.msg} at column {error.colno}{hint}") from error
