"""Prompts from JSON Lines, JSON, CSV and Parquet files; `rows` has the shapes of a row."""

import csv
import glob
import io
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts.base import PromptSource
from equipoise.prompts.hub import Hub
from equipoise.prompts.row_prompts import RowPrompts
from equipoise.system.effects import DATA, ReadPath
from equipoise.system.parquet_rows import LARGEST_ROW, parquet_rows
from equipoise.types import Prompt

Paths = Annotated[str, DATA] | tuple[ReadPath, ...]
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
UNREAD = {  # suffix of a format that is not read -> what to do
    **dict.fromkeys((".gz", ".zip", ".zst", ".bz2", ".xz"), "unpack it first; "),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as .csv; "),
    **dict.fromkeys((".arrow", ".feather"), "write it by to_parquet(); "),
    **dict.fromkeys((".yaml", ".yml", ".md", ".pkl", ".pt"), "write its rows as .jsonl; "),
}
MOST_COLUMNS = 10_000  # of a CSV file: each of its rows holds all of them
TRUTHS = {"true": True, "false": False}
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".txt")


class Files(RowPrompts):
    """Rows of a file, a pattern (`data/*.jsonl`), or a list of either; `file.json#part`."""

    kind: Literal["files"] = "files"
    path: Paths = Field(
        description="file, pattern or list of them; .jsonl, .json (#part), .csv, .tsv, .txt (a "
        "prompt a line) or .parquet; org/name, where no such file is here, is a data set of the hub"
    )
    held_out_path: Paths | None = Field(
        None, description="the source's own held-out part, given likewise"
    )
    test_path: Paths | None = Field(None, description="the source's own test, given likewise")

    @property
    def names(self) -> tuple[str, ...]:
        paths = (self.path, self.held_out_path, self.test_path)
        texts = [t for p in paths for t in ([p] if isinstance(p, str) else p or ())]
        return tuple(dict.fromkeys(t if t in self.hub_ids else Path(t).name for t in texts))

    @property
    def hub_ids(self) -> tuple[str, ...]:
        paths = (self.path, self.held_out_path, self.test_path)
        ids = (path for path in paths if isinstance(path, str) and names_hub_data(path, Path()))
        return tuple(dict.fromkeys(path for path in ids if not Path(path).is_dir()))

    def load(self, folder: Path = Path()) -> PromptSource:
        """Every row of the paths, duplicates included; an absent org/name is read from the hub."""
        others = (self.held_out_path, self.test_path)
        held_out, test = (None if paths is None else self._load(paths, folder) for paths in others)
        return PromptSource(self._load(self.path, folder), held_out, test)

    def raw_rows(self, folder: Path = Path()) -> Iterator[tuple[str, Any, str]]:
        """(where, row, source) of every row of `path`, as it stands in the file."""
        if isinstance(self.path, str) and names_hub_data(self.path, folder):
            yield from Hub.model_validate({"id": self.path}).raw_rows(folder)
            return
        for file, part in find(self.path, folder):
            for where, row in read(file, part):
                yield where, row, file.name

    def _load(self, paths: Paths, folder: Path) -> list[Prompt]:
        if isinstance(paths, str) and names_hub_data(paths, folder):
            settings = {n: getattr(self, n) for n in RowPrompts.model_fields if n != "kind"}
            return Hub(id=paths, **settings).load(folder).training
        prompts: list[Prompt] = []
        for file, part in find(paths, folder):
            prompts += self.prompts(read(file, part), file.name)
        return prompts


def names_hub_data(path: str, folder: Path) -> bool:
    """True if a path is the id of a data set: `org/name` that is not here, or a folder here."""
    place = folder / path
    if not HUB_ID.fullmatch(path) or place.suffix.lower() in SUFFIXES:
        return False
    return place.is_dir() or not (place.exists() or place.parent.is_dir())


def find(paths: Paths, folder: Path) -> list[tuple[Path, str]]:
    """The (file, part or "") pairs that `paths` names in `folder`, each once, patterns in order."""
    files: dict[tuple[Path, str], None] = {}
    for text in [paths] if isinstance(paths, str) else paths:
        path = folder / Path(text).expanduser()
        part = ""
        if ".json#" in text and not path.exists():
            text, _, part = text.rpartition("#")
            path = folder / Path(text).expanduser()
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name its files, e.g. {text}/*.jsonl")
        for file in matching(path):
            files[file, part] = None
    if not files:
        raise DataError("prompts.path names no file")
    return list(files)


def matching(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    paths = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    files = [path for path in paths if path.is_file()]
    if not files and re.search(r"(^|/)(https?|s3|gs|hf|file):/", str(path)):
        hub = re.search(r"/datasets/([\w.-]+/[\w.-]+)$", str(path))
        raise DataError(
            f"{path.name}: addresses are not read; download the file and name it, or name a data "
            f"set of the hub as {hub[1] if hub else 'org/name'}"
        )
    if not files and "," in path.name:
        raise DataError(f"{path}: no such file; several are named by [first.jsonl, second.jsonl]")
    if not files:
        folder = path.parent
        names = (other.name for other in folder.iterdir()) if folder.is_dir() else ()
        others = [name for name in names if not name.startswith(".")]
        hint = "" if folder.is_dir() else f"; there is no folder {folder}"
        hint = f"; {nearest(path.name, others)}" if others else hint
        raise DataError(f"{path}: no such file{hint}")
    return files


def read(file: Path, part: str = "") -> Iterator[tuple[str, Any]]:
    """(where, row) for every row of a file, by its suffix. Raises DataError with file and line.

    `part`: the list of rows in a JSON object; where there is a single list, it may be left out.
    """
    readers = {
        ".jsonl": json_lines,
        ".ndjson": json_lines,
        ".json": partial(_json, part=part),
        ".csv": partial(_csv, separator=","),
        ".tsv": partial(_csv, separator="\t"),
        ".parquet": parquet,
        ".txt": _lines,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        advice = UNREAD.get(file.suffix.lower(), "")
        raise DataError(
            f"{file}: unknown suffix '{file.suffix}'; {advice}known: {', '.join(readers)}"
        )
    where = ""
    try:
        for where, row in reader(file):
            if "json" in file.suffix.lower():
                msgspec.json.encode(row)
            yield where, row
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):x}"
        raise DataError(f"{where}: holds half a character ({half}); mend or drop it") from error
    if not where:
        raise DataError(f"{file}: is empty; it must hold at least one row")


def json_lines(file: Path) -> Iterator[tuple[str, Any]]:
    with file.open("rb") as lines:
        number = 0
        while line := lines.readline(LARGEST_ROW + 1):
            number += 1
            if len(line) > LARGEST_ROW:
                raise DataError(
                    f"{file}:{number}: has more than the {LARGEST_ROW:,} bytes that a row may have"
                )
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
            f"{file}#{part}: the file is a list of rows, without parts; leave out #{part}"
        )
    for number, row in enumerate(rows, 1):
        yield f"{file}: row {number}", row


def _part(whole: Any, file: Path, part: str) -> Iterator[tuple[str, Any]]:
    """The rows of a part of an object, each with the object's `dataset` and `task_type`."""
    whole = whole if isinstance(whole, dict) else {}
    parts = {key: rows for key, rows in whole.items() if are_rows(rows)}
    if not parts:
        raise DataError(
            f"{file}: must be a list of rows, but is no list, nor an object with lists of rows; "
            "pandas writes one by to_json(orient='records')"
        )
    if not part and len(parts) == 1:
        (part,) = parts
    if part not in parts:
        problem = f"there are lists under {', '.join(parts)}"
        if part:
            problem = f"no list is under {part}; {nearest(part, list(parts))}"
        raise DataError(
            f"{file}: {problem}; name the list to read: {file.name}#{next(iter(parts))}"
        )
    name = whole.get("dataset", whole.get("name"))
    about = {"dataset": name, "task_type": whole.get("task_type")}
    about = {key: value for key, value in about.items() if isinstance(value, str)}
    rows = parts[part]
    if isinstance(rows, dict):
        named = [(id, {"id": id, **row}) for id, row in rows.items()]
    else:
        named = enumerate(rows, 1)
    for name, row in named:
        yield f"{file}#{part}: row {name}", {**about, **row} if isinstance(row, Mapping) else row


def are_rows(rows: Any) -> bool:
    """True for a list, and for an object of rows: id -> row."""
    if isinstance(rows, dict):
        return bool(rows) and all(isinstance(row, dict) for row in rows.values())
    return isinstance(rows, list)


def _lines(file: Path) -> Iterator[tuple[str, Any]]:
    """A prompt a line; blank lines are counted as empty prompts."""
    text = _decode(file.read_bytes(), str(file))
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        yield f"{file}:{number}", line.strip()


def _csv(file: Path, separator: str) -> Iterator[tuple[str, Any]]:
    """The rows; where semicolons, tabs or bars part header and first row alike, these part cells,
    unless the header has the separator.

    Cells are text, but for a column `harmful`, whose `true` and `false` are read in any case.
    """
    csv.field_size_limit(LARGEST_ROW)  # of a cell, in characters
    text = _decode(file.read_bytes(), str(file))
    if separator not in text.partition("\n")[0]:
        separator = next((other for other in ";\t|," if parts_alike(text, other)), separator)
    lines = io.StringIO(text, newline="")
    reader = csv.DictReader(lines, delimiter=separator, strict=True)
    try:
        if len(reader.fieldnames or ()) > MOST_COLUMNS:
            raise DataError(f"{file}:1: has more than the {MOST_COLUMNS:,} columns that are read")
        for row in reader:
            where = f"{file}:{reader.line_num}"
            if None in row:
                raise DataError(
                    f"{where}: has more cells than the header has columns; a cell with "
                    "a separator or a line break needs quotes"
                )
            cells = {name: cell or None for name, cell in row.items()}
            harmful = str(cells.get("harmful")).lower()
            yield where, cells | ({"harmful": TRUTHS[harmful]} if harmful in TRUTHS else {})
    except csv.Error as error:
        raise DataError(f"{file}:{reader.line_num + 1}: not CSV: {error}") from error


def parts_alike(text: str, separator: str) -> bool:
    """True if it parts the first two rows into as many cells, two or more."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        cells = [len(row) for row in islice(filter(None, reader), 2)]
    except csv.Error:
        return False
    return len(cells) == 2 and cells[0] == cells[1] > 1


def parquet(file: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    if file.stat().st_size == 0:
        return
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            for row in parquet_rows(table, str(file)):
                number += 1
                yield f"{file}: row {number}", row
    except (pyarrow.ArrowException, MemoryError) as error:
        raise DataError(f"{file}: is not a readable Parquet file ({error})") from error


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error


def _parse(text: str, file: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{file}:{line + error.lineno - 1}"
        hint = ""
        if error.msg == "Extra data" and file.suffix == ".json":
            hint = "; is it JSON Lines? Then name it .jsonl"
        elif text.lstrip().startswith(("{'", "['")):
            hint = "; JSON has double quotes around keys and texts (write it by json.dumps)"
        elif error.msg == "Extra data" and text.endswith(","):
            hint = "; a line is one row, without a comma after it"
        elif file.suffix != ".json" and text.strip() in ("[", "{", "[{"):
            hint = "; is the file one JSON value? Then name it .json"
        raise DataError(f"{where}: not JSON: {error.msg} at column {error.colno}{hint}") from error
    except (RecursionError, ValueError) as error:
        why = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DataError(f"{file}:{line}: {why.partition(';')[0]}") from error
