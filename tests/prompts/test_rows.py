"""Rows of every schema as they are read: conversation, answers, what is learned, what is refused."""

import pytest

from equipoise.prompts.row import read_row
from tests.prompts.public_rows import PUBLIC

ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def written(messages):
    return tuple(f"{message.role[0]} {message.content}" for message in messages)


@pytest.mark.parametrize("name", PUBLIC)
def test_rows_of_public_data_sets(name):
    rows, conversation, answers = PUBLIC[name]
    read = [read_row(row, f"rows.jsonl:{i}") for i, row in enumerate(rows, 1)]
    first = read[0]
    assert written(first.messages) == conversation
    assert [(a.value, a.score, a.chosen) for a in first.answers] == answers
    assert not any(row.left_out("prompts") for row in read)
    assert len({row.messages for row in read} | {row.answers for row in read}) > 3
