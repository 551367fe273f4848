"""Rows of every schema as they are read: conversation, answers, what is learned and refused."""

import json
from pathlib import Path

import pytest

from equipoise.errors import DataError
from equipoise.prompts.prompt_files import read as read_file
from equipoise.prompts.row import read_row, sft_example
from equipoise.types import Message, Turns
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


CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "rows"


def message(role):
    return lambda content, **more: {"role": role, "content": content, **more}


U, A, S = message("user"), message("assistant"), message("system")
PAIR = {"prompt": "q", "chosen": "x", "rejected": "y"}

# name -> (row, conversation, answers as (text, score, label, chosen), left out as a pair or example)
KINDS = {
    "system beside a question": (
        {"system": "F", "question": "q", "chosen": "x", "rejected": "y"},
        ("s F", "u q"),
        [("x", None, None, True), ("y", None, None, False)],
        "",
    ),
    "text beside whole chats": (
        {
            "prompt": "q",
            "chosen": [S("F"), U("q"), A("a"), U("r"), A("x")],
            "rejected": [S("F"), U("q"), A("a"), U("r"), A("y")],
        },
        ("s F", "u q", "a a", "u r"),
        [("x", None, None, True), ("y", None, None, False)],
        "",
    ),
    "a chat beside whole chats": (
        {"prompt": [U("q")], "chosen": [U("q"), A("x")], "rejected": [U("q"), A("y")]},
        ("u q",),
        [("x", None, None, True), ("y", None, None, False)],
        "",
    ),
    "history and system": (
        {"system": "F", "instruction": "r", "input": "", "output": "x", "history": [["q", "a"]]},
        ("s F", "u q", "a a", "u r"),
        [("x", None, None, None)],
        "",
    ),
    "openai preference": (
        {
            "input": {"messages": [U("q")], "tools": [], "parallel_tool_calls": True},
            "preferred_output": [A("x")],
            "non_preferred_output": [A("y")],
        },
        ("u q",),
        [("x", None, None, True), ("y", None, None, False)],
        "",
    ),
    "not wanted": (
        {"prompt": "q", "completion": "x", "label": "0"},
        ("u q",),
        [("x", None, False, None)],
        "its label says",
    ),
    "scores as texts": (
        {**PAIR, "chosen_rating": "8.5", "rejected_rating": "3.25"},
        ("u q",),
        [("x", 8.5, None, True), ("y", 3.25, None, False)],
        "",
    ),
    "a score that is not finite": (
        {**PAIR, "score_chosen": float("nan"), "score_rejected": 3.0},
        ("u q",),
        [("x", None, None, True), ("y", 3.0, None, False)],
        "the score is not a finite number (rows.jsonl:7",
    ),
    "a margin": (
        {**PAIR, "margin": "2.5"},
        ("u q",),
        [("x", 2.5, None, True), ("y", 0.0, None, False)],
        "",
    ),
    "a chat as JSON": (
        {
            "prompt": "q",
            "chosen": json.dumps([U("q"), A("x")]),
            "rejected": json.dumps([U("q"), A("y")]),
        },
        ("u q",),
        [("x", None, None, True), ("y", None, None, False)],
        "",
    ),
    "null fields": (
        {"messages": [{**U("q"), "tool_calls": None}, {**A("x"), "from": None, "value": None}]},
        ("u q",),
        [("x", None, None, None)],
        "",
    ),
    "weight 0": (
        {"messages": [U("q"), A("x", weight=0)]},
        ("u q",),
        [("x", None, None, None)],
        "the answer's weight is 0",
    ),
    "a blank answer": (
        {**PAIR, "rejected": " "},
        ("u q",),
        [("x", None, None, True), (" ", None, None, False)],
        "the answer is blank",
    ),
    "a tie": (
        {"prompt": "q", "response_a": "x", "response_b": "y", "winner": "tie"},
        ("u q",),
        [("x", None, None, None), ("y", None, None, None)],
        "no answer is preferred",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_rows(name):
    row, conversation, answers, reason = KINDS[name]
    read = read_row(row, "rows.jsonl:7")
    assert written(read.messages) == conversation
    assert [(a.value, a.score, a.label, a.chosen) for a in read.answers] == answers
    left_out = read.left_out(read.purpose)
    assert left_out.startswith(reason)
    assert bool(left_out) == bool(reason)


REFUSED = {
    "other questions": (
        {"prompt": "z", "chosen": [U("q"), A("x")], "rejected": [U("r"), A("y")]},
        "the questions differ",
    ),
    "another prompt": (
        {"prompt": "z", "chosen": [U("q"), A("x")], "rejected": [U("q"), A("y")]},
        "prompt: asks 'z'",
    ),
    "one score of two": ({**PAIR, "score_chosen": 2, "score_rejected": None}, "give both"),
    "a score in words": ({**PAIR, "score_chosen": "high", "score_rejected": "low"}, "not a number"),
    "an image": (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, A("x")]},
        "'image_url'; models here read text alone",
    ),
    "a system message twice": ({"system": "F", "messages": [S("G"), U("q"), A("x")]}, "keep one"),
    "a share of a weight": ({"prompt": "q", "completion": "x", "weight": 0.5}, "weight: is 0.5"),
    "an unknown label": ({"prompt": "q", "completion": "x", "label": 2}, "label: is 2"),
    "two answers": ({"prompt": "q", "completion": "x", "response": "y"}, "another answer"),
    "ids alone": ({"id": "x", "uuid": "y"}, "rename the question's column to `prompt`"),
    "a message of a tree": (
        {"message_id": "m", "message_tree_id": "m", "text": "q", "role": "prompter"},
        "one message of a tree",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_are_refused_with_their_line(name):
    row, words = REFUSED[name]
    with pytest.raises(DataError, match=r"^rows\.jsonl:7") as caught:
        read_row(row, "rows.jsonl:7")
    assert words in str(caught.value)
    assert "prompt_column=id" not in str(caught.value)


def test_all_wanted_turns_of_a_chat_are_learned_and_nothing_else():
    row = {"messages": [U("q"), A("a", weight=0), U("r"), A("b"), U("s"), A("c")]}
    messages, answer = sft_example(read_row(row, ""))
    assert written(messages) == ("u q", "a a", "u r")
    assert written(answer.messages) == ("a b", "u s", "a c")
    assert answer.context == ()
    row = {"prompt": [U("q")], "completion": [A("a", weight=0), U("r"), A("b")]}
    messages, answer = sft_example(read_row(row, ""))
    assert answer == Turns(tuple(Message(*each) for each in TURNS), (0,))
    assert [answer.learned(place) for place in range(3)] == [False, False, True]


TURNS = [("assistant", "a"), ("user", "r"), ("assistant", "b")]


@pytest.mark.skipif(not CASES.is_dir(), reason=f"the cases are absent: {CASES}")
def test_cases_of_other_tools():
    read = {}
    for file in sorted(CASES.iterdir()):
        try:
            read[file.name[:2]] = [read_row(row, where) for where, row in read_file(file)]
        except DataError as error:
            read[file.name[:2]] = str(error)
    assert "the questions differ" in read.pop("45")
    used = {key: sum(not row.left_out(row.purpose) for row in rows) for key, rows in read.items()}
    assert used == dict.fromkeys(read, 12) | {"07": 6, "12": 0, "39": 6}
    assert written(read["11"][0].messages)[0] == "s Answer only in French."
    assert [len(read[key][0].messages) for key in ("02", "03", "08", "11")] == [2, 3, 3, 4]
