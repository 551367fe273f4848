"""Prompts from files: every row shape, the real data sets, and what is said of bad input."""

import json
import re
from datetime import date
from pathlib import Path

import pandas
import pytest

from equipoise.errors import DataError
from equipoise.prompts.prompt_files import Files, read
from equipoise.prompts.row_prompts import to_prompt
from equipoise.types import Message, user

HELLO = [{"role": "user", "content": "hello"}]
REPLY = {"role": "assistant", "content": "hi"}

SHAPES = {
    "text": {"prompt": "hello"},
    "chat": {"prompt": HELLO},
    "bare text": "hello",
    "a list with one text": ["hello"],
    "prompt and completion": {"prompt": "hello", "completion": "hi"},
    "preference": {
        "prompt": HELLO,
        "chosen": [REPLY],
        "rejected": [{"role": "assistant", "content": "no"}],
    },
    "implicit preference": {
        "chosen": [*HELLO, REPLY],
        "rejected": [*HELLO, {"role": "assistant", "content": "no"}],
    },
    "messages": {"messages": [*HELLO, REPLY]},
    "null columns": {"prompt": "hello", "messages": None, "answer": None},
    "gtalign": {
        "prompt": HELLO,
        "data_source": "new",
        "reward_model": {"ground_truth": "hi"},
        "extra_info": {},
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_asks_the_same(name):
    prompt = to_prompt(SHAPES[name], "here", "set")
    assert prompt.messages == (user("hello"),)
    assert prompt.id == to_prompt("hello", "there", "other set").id


def test_what_is_not_asked_becomes_facts():
    row = {"prompt": "1 + 1", "answer": 2, "harmful": False, "when": date(2024, 1, 2), "hint": None}
    assert to_prompt(row, "", "").facts == {"answer": 2, "harmful": False, "when": "2024-01-02"}
    assert to_prompt(SHAPES["prompt and completion"], "", "").facts == {"completion": "hi"}
    assert to_prompt(SHAPES["messages"], "", "").facts == {"completion": "hi"}
    assert set(to_prompt(SHAPES["preference"], "", "").facts) == {"chosen", "rejected"}


def test_plain_columns_are_named():
    row = {"question": "1 + 1", "prompt": "not this", "gold": 2}
    prompt = to_prompt(row, "", "", column="question")
    assert prompt.messages == (user("1 + 1"),)
    assert prompt.facts == {"prompt": "not this", "gold": 2}


def test_a_longer_chat_is_kept_up_to_the_last_question():
    system = {"role": "system", "content": "be brief"}
    prompt = to_prompt({"messages": [system, *HELLO, REPLY, *HELLO, REPLY]}, "", "")
    assert [message.role for message in prompt.messages] == ["system", "user", "assistant", "user"]
    assert prompt.messages[2] == Message("assistant", "hi")


BAD_ROWS = {
    "no prompt": ({"promt": "x"}, "prompt_column=promt"),
    "no prompt, null": ({"prompt": None}, "row is empty"),
    "a number": (3, "a number"),
    "two texts": (["a", "b"], "a list"),
    "number as prompt": ({"prompt": 3}, "a number"),
    "empty chat": ({"prompt": []}, "a list"),
    "message without content": ({"prompt": [{"role": "user"}]}, "message 1"),
    "unknown role": ({"prompt": [{"role": "narrator", "content": "x"}]}, "'narrator'"),
    "only the assistant": ({"messages": [REPLY]}, "assistant's"),
    "prompt ends with the assistant": ({"prompt": [*HELLO, REPLY]}, "assistant's"),
    "no common question": ({"chosen": [REPLY], "rejected": [REPLY]}, "do not begin"),
    "unknown label": (
        {"prompt": "x", "data_source": "wildguard", "reward_model": {"ground_truth": "bad"}},
        "'bad'; known: harmful, unharmful",
    ),
    "object as fact": ({"prompt": "x", "shape": object()}, "shape: holds"),
    "image": ({"prompt": "x", "image": object()}, "image: models here read text alone"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_malformed_row_is_named(name):
    row, words = BAD_ROWS[name]
    with pytest.raises(DataError, match=r"rows\.jsonl:7") as caught:
        to_prompt(row, "rows.jsonl:7", "")
    assert words in str(caught.value)


def write(folder: Path, name: str, content) -> str:
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        (folder / name).write_text(content)
    return name


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_formats_and_row_numbers(tmp_path, suffix):
    import pyarrow
    import pyarrow.parquet

    def save(rows):
        if suffix == "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
        else:
            text = (
                json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows)) + "\n\n"
            )
            (tmp_path / f"rows.{suffix}").write_text(text)

    rows = [{"prompt": text, "answer": i} for i, text in enumerate("abc")]
    save(rows)
    source = Files(
        path=f"rows.{suffix}", held_out_path=f"rows.{suffix}", test_path=f"rows.{suffix}"
    ).load(tmp_path)
    training = source.training
    assert [prompt.messages[0].content for prompt in training] == ["a", "b", "c"]
    assert [prompt.facts["answer"] for prompt in training] == [0, 1, 2]
    assert source.test == source.held_out == training
    assert training[0].source == f"rows.{suffix}"
    save([rows[0], {"prompt": None, "answer": 1}])
    with pytest.raises(
        DataError,
        match=rf"rows\.{suffix}:{' row ' if suffix != 'jsonl' else ''}2: no column 'prompt'",
    ):
        Files(path=f"rows.{suffix}").load(tmp_path)


def test_patterns_and_lists(tmp_path):
    for name in ("b1", "b2", "a"):
        write(tmp_path, f"{name}.jsonl", json.dumps({"prompt": name}))
    paths = ["b*.jsonl", "a.jsonl", "b1.jsonl"]
    source = Files(path=paths).load(tmp_path)
    assert [prompt.messages[0].content for prompt in source.training] == ["b1", "b2", "a"]
    assert source.held_out is source.test is None


BAD_FILES = {
    "missing": ("rows.jsonl", None, "no such file; did you mean 'rows1.jsonl'"),
    "empty": ("rows.jsonl", "", "is empty"),
    "blank": ("rows.json", " \n", "is empty"),
    "empty list": ("rows.json", "[]", "is empty"),
    "empty parquet": ("rows.parquet", b"", "is empty"),
    "not parquet": ("rows.parquet", b"PAR1 no", "not a readable Parquet file"),
    "suffix": ("rows.xlsx", "prompt\nx", "unknown suffix '.xlsx'"),
    "broken line": ("rows.jsonl", '{"prompt": "x"}\n{"prompt": \n', "rows.jsonl:2: not JSON"),
    "broken json": ("rows.json", '[{"prompt": "x"},\n{"prompt" 3}]', "rows.json:2: not JSON"),
    "lines in .json": ("rows.json", '{"prompt": "x"}\n{"prompt": "y"}', "is it JSON Lines?"),
    "object": ("rows.json", '{"dev": [], "test": []}', "lists under dev, test"),
    "encoding": (
        "rows.jsonl",
        b'{"prompt": "x"}\n{"prompt": "\xff"}\n',
        "rows.jsonl:2: is not UTF-8",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_named(tmp_path, name):
    file, content, words = BAD_FILES[name]
    write(tmp_path, "rows1.jsonl", '{"prompt": "x"}')
    if content is not None:
        write(tmp_path, file, content)
    with pytest.raises(DataError) as caught:
        Files(path=file).load(tmp_path)
    assert words in str(caught.value)
    assert file in str(caught.value)


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        Files(path=str(tmp_path)).load()


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path):
    write(tmp_path, "rows.jsonl", b'\xef\xbb\xbf{"prompt": "x"}')
    assert [row for _, row in read(tmp_path / "rows.jsonl")] == [{"prompt": "x"}]


@pytest.mark.parametrize("text", ["chat", "single"])
def test_text_is_for_gtalign_rows(tmp_path, text):
    write(tmp_path, "rows.jsonl", '{"prompt": "x"}')
    with pytest.raises(DataError, match=r"rows\.jsonl:1: text: .* use text: prompt"):
        Files(path="rows.jsonl", text=text).load(tmp_path)


def test_csv_is_read_under_its_header(tmp_path):
    (tmp_path / "a.csv").write_text(
        'prompt,answer\n"One, two\nand three?",3\nFour?,\n', encoding="utf-8-sig"
    )
    first, second = Files(path="a.csv").load(tmp_path).training
    assert first.messages == (user("One, two\nand three?"),)
    assert first.facts == {"answer": "3"}
    assert second.facts == {}
    (tmp_path / "b.tsv").write_text("question\tanswer\nHow many?\t3\n")
    [third] = Files(path="b.tsv").load(tmp_path).training
    assert third.messages == (user("How many?"),)
    assert third.facts == {"answer": "3"}
    (tmp_path / "c.csv").write_text("prompt,harmful,answer\na,True,True\nb,false,x\nc,,x\nd,no,x\n")
    rows = Files(path="c.csv").load(tmp_path).training
    assert [row.facts.get("harmful") for row in rows] == [True, False, None, "no"]
    assert rows[0].facts["answer"] == "True"


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("prompt;answer\nHow many, all in all?;3\n", "prompt"),
        ("prompt|answer\nHow many, all in all?|3\n", "prompt"),
        ('your name; your age|aim\n"How many, all in all?"\n', "your name; your age|aim"),
    ],
)
def test_semicolons_and_bars_part_cells_where_rows_have_them_too(tmp_path, text, column):
    (tmp_path / "a.csv").write_text(text)
    [prompt] = Files(path="a.csv", prompt_column=column).load(tmp_path).training
    assert prompt.messages == (user("How many, all in all?"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prompt\na,b\n", "a.csv:2: has more cells than the header"),
        ("question_text\na\n", "a.csv:2: no column 'prompt'"),
        ("prompt\n", "is empty"),
        ('prompt\n"a" b\n', "a.csv:2: not CSV"),
    ],
)
def test_faulty_csv_names_the_line(tmp_path, text, words):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=re.escape(words)):
        Files(path="a.csv").load(tmp_path)


def test_conversations_of_sharegpt_end_before_the_last_answer(tmp_path):
    rows = [
        {
            "id": "x",
            "conversations": [
                {"from": "system", "value": "Be brief."},
                {"from": "human", "value": "Hello"},
                {"from": "gpt", "value": "Hi"},
                {"from": "human", "value": "And now?"},
                {"from": "gpt", "value": "Bye"},
            ],
        },
        {"conversations": [{"role": "user", "content": "Why?"}]},
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    first, second = Files(path="a.json").load(tmp_path).training
    assert first.messages == (
        Message("system", "Be brief."),
        user("Hello"),
        Message("assistant", "Hi"),
        user("And now?"),
    )
    assert first.facts == {"id": "x", "completion": "Bye"}
    assert second.messages == (user("Why?"),)
    (tmp_path / "b.json").write_text(
        json.dumps([{"conversations": [{"from": "tool", "value": "3"}]}])
    )
    with pytest.raises(DataError, match="begins with a tool's message"):
        Files(path="b.json").load(tmp_path)


def test_the_last_message_is_cut_and_nothing_else(tmp_path):
    chats = [
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
        for text in ("abcdef", "abcxyz")
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": chat, "n": i}) + "\n" for i, chat in enumerate(chats))
    )
    first, second = Files.model_validate({"path": str(path), "cut_at": 3}).load().training
    assert [message.content for message in first.messages] == ["be brief", "abc"]
    assert first.id == second.id
    assert first.facts == {"n": 0}
    whole, _ = Files.model_validate({"path": str(path), "cut_at": 6}).load().training
    assert whole == Files.model_validate({"path": str(path)}).load().training[0]


@pytest.mark.parametrize(
    "cell",
    [
        str([{"role": "user", "content": "Praise a ship."}]),
        json.dumps([{"from": "human", "value": "Praise a ship."}]),
    ],
)
def test_a_chat_that_was_written_into_a_cell_is_read_as_a_chat(tmp_path, cell):
    pandas.DataFrame({"prompt": [cell]}).to_csv(tmp_path / "chats.csv", index=False)
    (prompt,) = Files(path="chats.csv").load(tmp_path).training
    assert prompt.messages == (user("Praise a ship."),)
    pandas.DataFrame({"prompt": [cell[:-1]]}).to_csv(tmp_path / "chats.csv", index=False)
    with pytest.raises(DataError, match=r"messages written as a text.* \.jsonl"):
        Files(path="chats.csv").load(tmp_path)


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (r'"sad \ud83d"', r"half a character \(\\ud83d\)"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("1" * 5_000, "4300 digits"),
    ],
)
def test_json_that_no_ledger_can_hold_is_one_message(tmp_path, suffix, value, words):
    for row in (f'{{"prompt": {value}}}', f'{{"prompt": "Why?", "answer": {value}}}'):
        (tmp_path / f"rows{suffix}").write_text(f"[{row}]" if suffix == ".json" else row)
        with pytest.raises(DataError, match=rf"rows{suffix}:.*{words}"):
            Files(path=f"rows{suffix}").load(tmp_path)


def test_a_prompt_of_a_text_file_ends_with_its_line_alone(tmp_path):
    (tmp_path / "a.txt").write_bytes("one\u2028two\x0c\x85!\r\nthree\rfour".encode())
    prompts = Files(path="a.txt").load(tmp_path).training
    texts = [prompt.messages[0].content for prompt in prompts]
    assert texts == ["one\u2028two\x0c\x85!", "three", "four"]


def test_a_cell_may_be_as_long_as_a_book(tmp_path):
    (tmp_path / "long.csv").write_text(f'prompt,answer\n"{"word " * 50_000}",1\n')
    [prompt] = Files(path="long.csv").load(tmp_path).training
    assert len(prompt.messages[0].content) == 250_000


def test_a_system_message_and_a_suffix_are_added_where_they_are_set(tmp_path):
    """To every chat without a system message of its own; the places that are learned move along."""
    rows = [
        {"prompt": "1 + 1"},
        {"messages": [{"role": "system", "content": "Be brief."}, *HELLO, REPLY]},
        {"messages": [*HELLO, REPLY, *HELLO, REPLY]},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"path": str(file), "system": "You are kind.", "suffix": " Step by step."}
    source = Files.model_validate(given)
    first, second, third = source.load().training
    assert first.messages == (Message("system", "You are kind."), user("1 + 1 Step by step."))
    assert second.messages == (Message("system", "Be brief."), user("hello Step by step."))
    assert [message.role for message in third.messages] == ["system", "user", "assistant", "user"]
    plain = Files.model_validate({"path": str(file)})
    assert first.id != plain.load().training[0].id
    for own, bare in zip(source.read_rows(), plain.read_rows(), strict=True):
        shift = len(own.messages) - len(bare.messages)
        assert own.learned == tuple(place + shift for place in bare.learned)
