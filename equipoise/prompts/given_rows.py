"""Prompts that are given from Python: a list of texts, of rows, or a data frame."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from equipoise.errors import DataError
from equipoise.prompts.base import PromptSource
from equipoise.prompts.row_prompts import RowPrompts
from equipoise.system.effects import Text

MOST_ROWS = 20_000
MOST_CHARACTERS = 10_000_000


class GivenRows(RowPrompts):
    """Rows that stand in the settings: texts, or JSON objects as a line of a file has them."""

    kind: Literal["given"] = "given"
    rows: tuple[Text, ...] = Field(
        min_length=1, description="prompts as texts, rows as mappings, or a data frame of these"
    )
    shrink: bool = Field(
        True,
        description="where there are fewer prompts, play and set aside as many as there are, and "
        "say so (else: an error)",
    )

    @field_validator("rows", mode="before")
    @classmethod
    def _as_lines(cls, rows: Any) -> Any:
        if isinstance(rows, str) or not isinstance(rows, Sequence):
            raise ValueError("give a list of texts or of rows, or a data frame")
        lines = [row if is_line(row) else line_of(row) for row in rows]
        if len(lines) > MOST_ROWS or sum(map(len, lines)) > MOST_CHARACTERS:
            raise ValueError(
                f"more than {MOST_ROWS:,} rows or {MOST_CHARACTERS:,} characters; write them to a "
                "file: frame.to_json('prompts.jsonl', orient='records', lines=True)"
            )
        return lines

    def load(self, folder: Path = Path()) -> PromptSource:
        """Every row, duplicates included."""
        rows = ((where, row) for where, row, _ in self.raw_rows(folder))
        return PromptSource(self.prompts(rows, "given"))

    def raw_rows(self, folder: Path = Path()) -> Iterator[tuple[str, Any, str]]:
        """(where, row, source) of every row."""
        for number, line in enumerate(self.rows, 1):
            yield f"row {number} of the given prompts", json.loads(line), "given"


def is_line(row: Any) -> bool:
    """True for the JSON text of an object, which stands for itself."""
    if not (isinstance(row, str) and row.startswith("{")):
        return False
    try:
        return isinstance(json.loads(row), dict)
    except ValueError:
        return False


def line_of(row: Any) -> str:
    """A text or a mapping as the JSON text of a row. Raises ValueError for anything else."""
    if isinstance(row, str):
        row = {"prompt": row}
    if not isinstance(row, Mapping):
        raise ValueError(f"a prompt is a text or a mapping, and this is {type(row).__name__}")
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"a row cannot be recorded: {error}") from error


def rows_of(frame: Any) -> list[Any] | None:
    """The rows of a data frame of pandas or polars, an Arrow table, a data set; None for others."""
    if isinstance(frame, (str, bytes, Mapping, list, tuple, type)):
        return None
    for name in ("to_dicts", "to_pylist"):  # polars; Arrow
        if hasattr(frame, name):
            return list(getattr(frame, name)())
    if hasattr(frame, "to_dict") and hasattr(frame, "columns"):  # pandas
        return [known_values(row) for row in frame.to_dict(orient="records")]
    if hasattr(frame, "tolist") and hasattr(frame, "index"):  # a column of pandas
        return list(frame.tolist())
    if hasattr(frame, "to_list") and hasattr(frame, "column_names"):  # Hugging Face's data sets
        return list(frame.to_list())
    return None


def known_values(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of pandas without its missing values, which are NaN there."""
    known: dict[str, Any] = {}
    for name, value in row.items():
        plain: Any = getattr(value, "item", lambda value=value: value)()
        if plain is not None and not (isinstance(plain, float) and math.isnan(plain)):
            known[str(name)] = plain
    return known


def as_prompts(value: Any) -> Any:
    """Settings of prompts for a list of texts or rows, and for a mapping with `rows` and no kind;
    others as they are.
    """
    if isinstance(value, list | tuple):
        return {"kind": "given", "rows": list(value)}
    if isinstance(value, Mapping) and "rows" in value and "kind" not in value:
        return {"kind": "given", **value}
    return value
