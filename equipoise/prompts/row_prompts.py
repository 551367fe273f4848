"""Prompts from rows: the settings of a source, and the prompt of a row. `row` reads rows."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field

from equipoise.errors import DataError
from equipoise.prompts.base import Prompts
from equipoise.prompts.row import Row, prompt_id, read_row
from equipoise.prompts.schemas.published_schemas import Norm
from equipoise.prompts.schemas.schema import PromptText
from equipoise.system.effects import Text
from equipoise.types import Message, Prompt


class RowPrompts(Prompts):
    """Settings of every source whose prompts are rows of a data set."""

    prompt_column: Text | None = Field(
        None,
        description="the column of the prompt; by default `prompt`, `messages`, "
        "`conversations` or a task's own",
    )
    row_schema: Text | None = Field(
        None,
        description="the schema of the rows by its name (`equipoise rows --schemas` lists them); "
        "null: the one whose columns a row has",
    )
    text: PromptText = Field(
        "prompt",
        description="the part of a GTAlign row: its `prompt` with all instructions, the bare "
        "`chat` that led to it, or the `single` request that the ground truth "
        "answers",
    )
    norm: Norm = Field(
        "country",
        description="context of a NormAd row: its `country`, its `value` (and country), or "
        "its `rule_of_thumb`",
    )
    system: Text | None = Field(
        None, description="a system message for chats that have none; null: none is added"
    )
    suffix: Text | None = Field(
        None,
        description="a text behind the last message of every prompt, as it stands, such as "
        "SPARTA's \"Let's solve this problem step by step.\"; null: none",
    )
    cut_at: int | None = Field(None, ge=1, description="most characters of a prompt's last message")

    @abstractmethod
    def raw_rows(self, folder: Path = Path()) -> Iterator[tuple[str, Any, str]]:
        """(where, row, source) of every row to train on, as it stands in the data."""

    def read_rows(self, folder: Path = Path()) -> Iterator[Row]:
        """Every row to train on, in order. Raises DataError for one that cannot be read."""
        for where, row, source in self.raw_rows(folder):
            yield self.read(row, where, source)

    def read(self, row: Any, where: str, source: str) -> Row:
        """A row as this source reads it. Raises DataError beginning with `where`."""
        read = read_row(
            row,
            where,
            source,
            schema=self.row_schema,
            text=self.text,
            column=self.prompt_column,
            norm=self.norm,
        )
        if self.suffix is not None and read.messages:
            *before, last = read.messages
            last = Message(last.role, last.content + self.suffix, last.further)
            read = replace(read, messages=(*before, last))
        if self.system is not None and read.messages and read.messages[0].role != "system":
            messages = (Message("system", self.system), *read.messages)
            learned = tuple(place + 1 for place in read.learned)
            read = replace(read, messages=messages, learned=learned)
        return read

    def prompts(self, rows: Iterable[tuple[str, Any]], source: str) -> list[Prompt]:
        """A prompt for each (where, row), in order. Raises DataError beginning with `where`."""
        prompts = []
        for where, row in rows:
            prompt = prompt_of(self.read(row, where, source))
            if self.cut_at is not None:
                *before, last = prompt.messages
                last = Message(last.role, last.content[: self.cut_at], last.further)
                messages = (*before, last)
                identity = prompt_id(messages)
                prompt = msgspec.structs.replace(prompt, id=identity, messages=messages)
            prompts.append(prompt)
        return prompts


def prompt_of(row: Row) -> Prompt:
    """The prompt of a row. Raises DataError for a row that asks nothing."""
    if not row.messages:
        raise DataError(
            f"{row.where}: a text alone has no question to play; `equipoise sft` learns it whole, "
            "and -s prompts.prompt_column=text asks it"
        )
    return row.prompt()


def to_prompt(
    row: Any,
    where: str,
    source: str,
    text: PromptText = "prompt",
    column: str | None = None,
    norm: Norm = "country",
) -> Prompt:
    """The prompt of a row, by the hash of its messages. Raises DataError for an unknown shape."""
    return prompt_of(read_row(row, where, source, text=text, column=column, norm=norm))
