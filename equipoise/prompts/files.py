"""Prompts from JSON Lines, JSON and Parquet files; `rows` says which shapes a row may
have.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Mapping
from functools import partial
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
    """Rows of one file, of all files that a pattern matches (`data/*.jsonl`), or of a
    list of either.

    A JSON file that is an object with several lists of rows has parts, and
    `file.json#part` is one of them.
    """

    kind: Literal["files"] = "files"
    path: Paths = Field(
        description="file, pattern or list of them; .jsonl, .json (#part) or .parquet"
    )
    held_out_path: Paths | None = Field(
        None, description="the source's own held-out part, given likewise"
    )
    test_path: Paths | None = Field(
        None, description="the source's own test, given likewise"
    )

    def load(self, folder: Path = Path()) -> Source:
        """Every row of `path`, and of `held_out_path` and `test_path` where given;
        duplicates are still in.
        """
        own = (
            None if paths is None else self._load(paths, folder)
            for paths in (self.held_out_path, self.test_path)
        )
        return Source(self._load(self.path, folder), *own)

    def _load(self, paths: Paths, folder: Path) -> list[Prompt]:
        return [
            prompt
            for file, part in find(paths, folder)
            for prompt in self.prompts(read(file, part), file.name)
        ]


def find(paths: Paths, folder: Path) -> list[tuple[Path, str]]:
    """(file, part) that `paths` names, relative to `folder`, patterns in alphabetical
    order; each once.

    The part is "" where none is named.
    """
    files: dict[tuple[Path, str], None] = {}
    for text in [paths] if isinstance(paths, str) else paths:
        path, part = folder / Path(text).expanduser(), ""
        if ".json#" in text and not path.exists():
            text, _, part = text.rpartition("#")
            path = folder / Path(text).expanduser()
        matched = (
            [path]
            if path.is_file()
            else sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        )
        matched = [name for name in matched if name.is_file()]
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name its files, e.g. {text}/*.jsonl")
        if not matched:
            beside = (
                [name.name for name in path.parent.iterdir()]
                if path.parent.is_dir()
                else []
            )
            hint = (
                nearest(path.name, beside)
                if beside
                else f"there is no folder {path.parent}"
            )
            raise DataError(f"{path}: no such file; {hint}")
        files.update(dict.fromkeys((name, part) for name in matched))
    if not files:
        raise DataError("prompts.path names no file")
    return list(files)


def read(file: Path, part: str = "") -> Iterator[tuple[str, Any]]:
    """(where, row) for every row of a file; the suffix says how to read it. DataError
    names file and line.

    `part` names the list of rows in a JSON file that is an object; where there is one
    list only, it is that one.
    """
    readers = {
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".json": partial(_json, part=part),
        ".parquet": _parquet,
    }
    if file.suffix.lower() not in readers:
        raise DataError(
            f"{file}: unknown suffix '{file.suffix}'; known: {', '.join(readers)}"
        )
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


def _json(file: Path, part: str) -> Iterator[tuple[str, Any]]:
    text = _decode(file.read_bytes(), str(file))
    if not text.strip():
        return
    rows = _parse(text, file, 1)
    if not isinstance(rows, list):
        yield from _part(rows, file, part)
        return
    if part:
        raise DataError(
            f"{file}#{part}: the file is one list of rows, without parts; leave out #{part}"
        )
    for number, row in enumerate(rows, 1):
        yield f"{file}: row {number}", row


def _part(whole: Any, file: Path, part: str) -> Iterator[tuple[str, Any]]:
    """The rows of one part of an object, each with what the object says of all:
    `dataset` (or name), `task_type`.
    """
    whole = whole if isinstance(whole, dict) else {}
    parts = {
        key: rows
        for key, rows in whole.items()
        if isinstance(rows, list) or _by_id(rows)
    }
    if not parts:
        raise DataError(
            f"{file}: must be a list of rows, but is no list, nor an object with lists of rows"
        )
    if not part and len(parts) == 1:
        (part,) = parts
    if part not in parts:
        names = ", ".join(parts)
        found = (
            f"no list is under {part}; {nearest(part, list(parts))}"
            if part
            else f"there are lists under {names}"
        )
        raise DataError(
            f"{file}: {found}; name the one to read: {file.name}#{next(iter(parts))}"
        )
    about = {
        "dataset": whole.get("dataset", whole.get("name")),
        "task_type": whole.get("task_type"),
    }
    about = {key: value for key, value in about.items() if isinstance(value, str)}
    rows = parts[part]
    named = rows.items() if isinstance(rows, dict) else enumerate(rows, 1)
    for name, row in named:
        row = {"id": name, **row} if isinstance(rows, dict) else row
        yield (
            f"{file}#{part}: row {name}",
            {**about, **row} if isinstance(row, Mapping) else row,
        )


def _by_id(rows: Any) -> bool:
    """Whether `rows` is an object of rows: id -> row."""
    return (
        isinstance(rows, dict)
        and bool(rows)
        and all(isinstance(row, dict) for row in rows.values())
    )


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
        hint = (
            "; is it JSON Lines? then name it .jsonl"
            if error.msg == "Extra data" and file.suffix == ".json"
            else ""
        )
        raise DataError(
            f"{where}: not JSON: {error.msg} at column {error.colno}{hint}"
        ) from error
