"""A row as people and programs are shown it: what the model sees, and what it learns."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from equipoise.errors import DataError
from equipoise.prompts.row import Purpose, Row
from equipoise.prompts.row_prompts import RowPrompts
from equipoise.types import Answer, Message

PLACES = 8  # of rows that are listed with a reason


@dataclass(frozen=True)
class ShownRow:
    """A row at its place, or the reason why it is refused; `left_out`: why nothing is learned."""

    number: int
    where: str
    row: Row | None
    left_out: str = ""

    @property
    def refused(self) -> bool:
        """True for a row that stops a run."""
        return self.row is None

    def record(self) -> dict[str, Any]:
        """The row as plain data: row, messages, answers, facts, left_out."""
        messages: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        facts: dict[str, Any] = {}
        if self.row is not None:
            messages = [message_record(message) for message in self.row.messages]
            answers = [answer_record(answer) for answer in self.row.answers]
            facts = self.row.facts
        return {
            "row": self.number,
            "messages": messages,
            "answers": answers,
            "facts": facts,
            "left_out": self.left_out or None,
        }

    def lines(self, purpose: Purpose | None = None, widest: int = 200) -> Iterator[str]:
        """The row for a terminal: a line a message, and which of them are learned."""
        if self.row is None:
            yield f"row {self.number}: refused: {self.left_out}"
            return
        purpose = purpose or self.row.purpose
        yield f"row {self.number}, {self.row.schema}, as {purpose}"
        learns = purpose == "sft" and not self.left_out
        for place, message in enumerate(self.row.messages):
            note = "learned" if learns and place in self.row.learned else ""
            yield message_line(message, note, widest)
        if purpose != "prompts":
            for answer in self.row.answers:
                yield from answer_lines(answer, purpose, bool(self.left_out), widest)
        if self.row.facts:
            written = json.dumps(self.row.facts, ensure_ascii=False, default=str)
            yield f"  facts      {shorten(written, widest)}"
        if self.left_out:
            yield f"  left out: {self.left_out}"


@dataclass
class RowCounts:
    """The rows that are used, by purpose, and the places of others, by reason."""

    used: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    refused: str = ""

    def add(self, shown: ShownRow, purpose: Purpose | None) -> None:
        """Count a row; `refused` becomes the first reason for which a run would stop."""
        if shown.row is None and not self.refused:
            self.refused = f"{shown.where}: {shown.left_out}"
        if shown.left_out:
            reason = re.split(r": '| \(", shown.left_out)[0]
            self.left_out.setdefault(reason, []).append(shown.where)
        elif shown.row is not None:
            self.used[purpose or shown.row.purpose] += 1

    def lines(self) -> Iterator[str]:
        """The counts, a line each."""
        nouns = {"prompts": "prompts", "pairs": "pairs", "sft": "examples to learn from"}
        total = self.used.total() + sum(map(len, self.left_out.values()))
        used = [f"{count:,} {nouns[purpose]}" for purpose, count in self.used.items()]
        yield f"{total:,} rows: {', '.join(used) or 'nothing to use'}"
        for reason, places in self.left_out.items():
            listed = ", ".join(place.rpartition("/")[2] for place in places[:PLACES])
            others = f" and {len(places) - PLACES:,} more" if len(places) > PLACES else ""
            yield f"left out: {len(places):,}: {reason}: {listed}{others}"


NO_SCORES = "the pair has no scores, and others of the file have"


def show_rows(
    source: RowPrompts,
    rows: Iterable[tuple[str, Any, str]],
    purpose: Purpose | None,
    *,
    scored: bool = False,
) -> Iterator[ShownRow]:
    """Each (where, row, source) as it is read for a purpose, by default its own.

    `scored`: rows of the file have scores, so that pairs without any are left out.
    """
    for number, (where, raw, name) in enumerate(rows, 1):
        try:
            row = source.read(raw, where, name)
        except DataError as error:
            yield ShownRow(number, where, None, str(error).removeprefix(f"{where}: "))
            continue
        own = purpose or row.purpose
        reason = row.left_out(own)
        if scored and not reason and own == "pairs" and not is_scored(row):
            reason = NO_SCORES
        yield ShownRow(number, where, row, reason)


def is_scored(row: Row) -> bool:
    """True for a row with an answer that has a score."""
    return any(answer.score is not None for answer in row.answers)


def any_scored(source: RowPrompts, rows: Iterable[tuple[str, Any, str]]) -> bool:
    """True where one of the rows has scores; reads no further than to the first that has."""
    read = (shown.row for shown in show_rows(source, rows, None))
    return any(row is not None and is_scored(row) for row in read)


def first_row(source: Any, purpose: Purpose | None = None) -> ShownRow | None:
    """The first row of a source as a model will see it; None where it has no rows."""
    if not isinstance(source, RowPrompts):
        return None
    return next(show_rows(source, source.raw_rows(), purpose), None)


def first_row_notes(source: Any, purpose: Purpose | None = None) -> tuple[str, ...]:
    """The first row of a source as a model will see it, on one line; () where it has no rows."""
    shown = first_row(source, purpose)
    if shown is None:
        return ()
    lines = [" ".join(line.split()) for line in shown.lines(purpose, widest=60)]
    return (" | ".join(lines),)


def message_record(message: Message) -> dict[str, Any]:
    """A message as plain data, with its calls and tools."""
    further = json.loads(message.further or "{}")
    return {"role": message.role, "content": message.content, **further}


def answer_record(answer: Answer) -> dict[str, Any]:
    """An answer as plain data: its text, or its messages where it has several turns."""
    value = answer.value
    if isinstance(value, str):
        spoken: dict[str, Any] = {"text": value}
    else:
        spoken = {"messages": [message_record(message) for message in answer.messages]}
    return {
        **spoken,
        "score": answer.score,
        "label": answer.label,
        "weight": answer.weight,
        "chosen": answer.chosen,
    }


def answer_lines(answer: Answer, purpose: Purpose, left_out: bool, widest: int) -> Iterator[str]:
    """An answer's messages, a line each, with its notes behind the last."""
    notes = []
    if purpose == "pairs" and answer.chosen is not None:
        notes.append("chosen" if answer.chosen else "rejected")
    wanted = answer.label is not False and answer.chosen is not False and not answer.fault
    learned = not left_out and (purpose == "pairs" and answer.chosen is not None)
    learned = learned or (not left_out and purpose == "sft" and wanted)
    if learned:
        notes.append("learned")
    if answer.score is not None:
        notes.append(f"score {answer.score:g}")
    if answer.label is not None:
        notes.append("wanted" if answer.label else "not wanted")
    if answer.fault:
        notes.append(answer.fault.partition(" (")[0])
    for place, message in enumerate(answer.messages):
        is_learned = message.role == "assistant" and place not in answer.context
        note = ", ".join(notes) if is_learned else "not learned"
        yield message_line(message, note, widest)


def message_line(message: Message, note: str, widest: int) -> str:
    """A message on one line: its role, its text, and a note in brackets."""
    text = shorten(message.content, widest)
    if message.further:
        text = f"{text} {shorten(message.further, widest)}".strip()
    ending = f"   [{note}]" if note else ""
    return f"  {message.role:9}  {text}{ending}"


def shorten(text: str, widest: int) -> str:
    """A text on one line, of at most so many characters, with its middle left out."""
    line = text.replace("\r", "").replace("\n", "⏎")
    if len(line) <= widest:
        return line
    half = (widest - 3) // 2
    return f"{line[:half]} … {line[-half:]}"
