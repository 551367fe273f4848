"""Rows as people have them: each of `rows_in_use` read from a file of its format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import equipoise
from equipoise.prompts.row import sft_example
from equipoise.types import Message
from tests.prompts.rows_in_use import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_row_is_read_as_people_mean_it(case: Case, tmp_path: Path) -> None:
    rows = list(equipoise.rows(str(written(case, tmp_path)), case.task))
    refused = [row for row in rows if row.refused]
    if case.stops is not None:
        assert refused, [row.record() for row in rows]
        assert case.stops in refused[0].left_out
        return
    assert not refused, refused[0].left_out
    kept = [row for row in rows if not row.left_out]
    reasons = [row.left_out for row in rows if row.left_out]
    assert len(kept) == 1, reasons
    if case.left is None:
        assert not reasons
    else:
        assert case.left in reasons[0]
    row = kept[0].row
    assert row is not None
    if case.task == "prompts":
        assert spoken(row.messages) == case.chat
        return
    if case.task == "sft":
        example = sft_example(row)
        assert example is not None
        chat, value = example
        turns = (Message("assistant", value),) if isinstance(value, str) else value.messages
        assert spoken((*chat, *turns[:-1])) == case.chat
        assert turns[-1].content == case.answers[0][0]
        return
    assert spoken(row.messages) == case.chat
    decided = [answer for answer in row.answers if answer.chosen is not None]
    decided.sort(key=lambda answer: not answer.chosen)
    assert tuple((answer.text, answer.chosen) for answer in decided) == case.answers
    if case.scores is not None:
        assert tuple(answer.score for answer in decided) == case.scores


def written(case: Case, folder: Path) -> Path:
    """The file of a case."""
    path = folder / f"{case.name}.{case.suffix}"
    if case.suffix == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(case.rows), path)
    elif isinstance(case.rows, str):
        path.write_text(case.rows, encoding="utf-8")
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in case.rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def spoken(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """A chat as texts, each behind the first letter of its role."""
    return tuple(f"{message.role[0]}:{message.content}" for message in messages)


def test_names_and_calls_of_messages_are_kept(tmp_path: Path) -> None:
    call = '{"name": "shop", "arguments": {"of": "pear"}}'
    row = {
        "conversations": [
            {"role": "user", "content": "What costs a pear?", "name": "ann"},
            {"role": "function_call", "content": call},
            {"role": "observation", "content": "3"},
            {"role": "assistant", "content": "Three i"},
        ]
    }
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (shown,) = equipoise.rows(str(path), "sft")
    asked, calling, _ = shown.record()["messages"]
    assert asked["name"] == "ann"
    assert calling["content"] == ""
    (made,) = calling["tool_calls"]
    assert made["function"] == {"name": "shop", "arguments": '{"of": "pear"}'}
