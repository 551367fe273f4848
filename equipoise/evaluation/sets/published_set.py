"""Published sets: their rows, from the hub or a file, and their settings of a judge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.evaluation.sets.base import Benchmark
from equipoise.judges.base import Judge
from equipoise.judges.pairwise import Comparing
from equipoise.judges.question import QuestionSettings
from equipoise.prompts.hub import Hub
from equipoise.prompts.prompt_files import find, read
from equipoise.prompts.written_chat import type_name
from equipoise.system.effects import ReadPath

Row = Mapping[str, Any]
PlacedRow = tuple[str, Row]
"""(file and line, or data set and number, for messages; the row)"""


@dataclass(frozen=True)
class HubData:
    """A part of a data set of the hub: its id, configuration and split."""

    id: str
    name: str | None = None
    split: str = "test"


class Published(Benchmark):
    """A benchmark whose rows are fetched from the hub, or read from a file in the benchmark's own
    columns.
    """

    data: ClassVar[HubData | None] = None
    """The rows' place on the hub; None: a file is needed."""

    temperature: float | None = Field(
        0.0, ge=0, description="of the player's sampling; 0: the most likely token"
    )
    path: ReadPath | None = Field(
        None,
        description="a file (or several, by a pattern) in the benchmark's own columns; "
        "null: the hub's data set by its usual id",
    )

    def rows(self) -> Iterator[PlacedRow]:
        """Every row, with its place for messages. Raises DataError."""
        yield from self.rows_of(self.path, self.data, "path")

    def rows_of(self, path: str | None, data: HubData | None, setting: str) -> Iterator[PlacedRow]:
        """The rows of a file, or of a part of a data set where no file is given; the messages call
        the file's setting `setting`. Raises DataError.
        """
        if path is not None:
            places = ((file, read(file, part)) for file, part in find(path, Path()))
            for file, rows in places:
                for where, row in rows:
                    yield where, _object(row, where, file.name)
            return
        if data is None:
            raise DataError(f"{self.kind}: its data lie on no hub; set {setting}")
        try:
            source = Hub.model_validate({"id": data.id, "name": data.name})
            rows = source.rows(Path(), data.split)
        except DataError as error:
            raise DataError(
                f"{self.kind}: {str(error).removeprefix('prompts.id: ')}; or set "
                f"{setting} to a file of its rows (licence: {self.licence})"
            ) from error
        for number, row in enumerate(rows, 1):
            yield f"{data.id} {data.split} row {number}", row


def _object(row: Any, where: str, file: str) -> Row:
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: a row of {file} is {type_name(row)}, not an object")
    return row


def text_of(row: Row, where: str, *names: str) -> str:
    """The text in the first of these columns that the row has. Raises DataError."""
    for name in names:
        if isinstance(row.get(name), str) and row[name].strip():
            return row[name]
    if there := [name for name in names if name in row]:
        raise DataError(f"{where}: needs a text in the column '{there[0]}', which holds none")
    hint = nearest(names[0], [str(key) for key in row]) if row else "the row is empty"
    raise DataError(f"{where}: needs a text in the column '{names[0]}'; {hint}")


def list_of(row: Row, where: str, name: str) -> list[Any]:
    """The list in this column. Raises DataError."""
    value = row.get(name)
    if isinstance(value, list | tuple) and value:
        return list(value)
    if name in row:
        raise DataError(f"{where}: needs a list in the column '{name}', which holds none")
    hint = nearest(name, [str(key) for key in row]) if row else "the row is empty"
    raise DataError(f"{where}: needs a list in the column '{name}'; {hint}")


def name_of(row: Row, where: str, *names: str) -> str:
    """The item's name in its data: the first of these columns that there is, else its place, which
    is then the name in this file only.
    """
    for name in names:
        if row.get(name) is not None:
            return str(row[name])
    return where.rpartition(":")[2].strip() if ":" in where else where.rpartition(" ")[2]


def with_defaults(judge: Judge | None, criteria: str) -> Judge | None:
    """The judge with these criteria; one that compares counts both orders of the answers
    (`flip: mean`). What the user set stays.
    """
    if judge is None:
        return None
    wanted: dict[str, Any] = {}
    if isinstance(judge, QuestionSettings):
        wanted["criteria"] = criteria
    if isinstance(judge, Comparing):
        wanted["flip"] = "mean"
    change = {name: wanted[name] for name in wanted if name not in judge.model_fields_set}
    return judge.model_copy(update=change) if change else judge


def why_not_comparing(kind: str, judge: Judge | None) -> list[str]:
    """A fault where a set of comparisons has a judge that does not compare."""
    if judge is None or judge.compares:
        return []
    return [
        f"'{kind}' sets each answer beside another one; judge '{judge.kind}' scores "
        "answers alone. Name one that compares, such as pairwise or preference_model"
    ]
