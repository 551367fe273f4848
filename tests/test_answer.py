"""What a move says: thoughts and channels parted, one form of width, signs, spaces and quotes."""

import doctest
import json

import msgspec
import pytest

from equipoise import answer
from equipoise.answer import KNOWN, Answer, answer_of, normalised, parse_answer
from equipoise.types import Marks, Move

HARMONY = "<|channel|>analysis<|message|>9? No.<|end|><|start|>assistant<|channel|>"

PARTED = {
    "none": ("It is 10.", "It is 10.", 0),
    "white space stays where nothing is parted": ("  It is\n10. \n", "  It is\n10. \n", 0),
    "one": ("<think>\n9?\n</think>\n\nIt is 10.", "It is 10.", 1),
    "case": ("<Think>9?</THINK>It is 10.", "It is 10.", 1),
    "empty": ("<think>\n\n</think>\n\nIt is 10.", "It is 10.", 0),
    "repeated": ("<think>9?</think>\n<think>8?</think>\nIt is 10.", "It is 10.", 2),
    "of two kinds": ("<think>9?</think>\n<reasoning>8?</reasoning>\nIt is 10.", "It is 10.", 2),
    "nested": ("<think>a <think>b</think> c</think>It is 10.", "It is 10.", 2),
    "nested on lines": ("<think>a\n<think>\nb\n</think>\nc\n</think>\n\nIt is 10.", "It is 10.", 2),
    "closed twice": ("<think>a</think>\n\nb\n</think>\n\nIt is 10.", "It is 10.", 2),
    "again after a part": ("<think>a</think>\nSo.\n<think>\nb\n</think>\nTen.", "So.\n\nTen.", 2),
    "begun by the prompt": ("9? No.\n</think>\n\nIt is 10.", "It is 10.", 1),
    "begun by the prompt, on one line": ("9? No.</think>It is 10.", "It is 10.", 1),
    "begun by the prompt, about marks": ("A <think> tag?\n</think>\nYes.", "Yes.", 1),
    "a thought about marks": ("<think>`</think>` ends it.\n</think>\nYes.", "Yes.", 1),
    "a thought of half a fence": ("<think>```python\nx</think>\nYes.", "Yes.", 1),
    "Magistral": ("[THINK]9?[/THINK]It is 10.", "It is 10.", 1),
    "Seed": ("<seed:think>9?</seed:think>It is 10.", "It is 10.", 1),
    "OpenThinker": (
        "<|begin_of_thought|>9?<|end_of_thought|><|begin_of_solution|>It.<|end_of_solution|>",
        "It.",
        1,
    ),
    "Cohere": (
        "<|START_THINKING|>9?<|END_THINKING|><|START_RESPONSE|>It.<|END_RESPONSE|>",
        "It.",
        1,
    ),
    "Gemma": ("<|channel>thought\n9?\n<channel|>It is 10.", "It is 10.", 1),
    "Kimi": ("◁think▷9?◁/think▷It is 10.", "It is 10.", 1),
    "Granite": ("Here is my thought process: 9?\nHere is my response: 10.", "10.", 1),
    "harmony": (f"{HARMONY}final<|message|>It is 10.<|return|>", "It is 10.", 1),
    "harmony, alone": ("<|channel|>final<|message|>It is 10.", "It is 10.", 0),
    "harmony, commentary": (
        f"{HARMONY}commentary to=f <|constrain|>json<|message|>{{}}<|call|>"
        "<|start|>assistant<|channel|>final<|message|>It is 10.",
        "It is 10.",
        2,
    ),
    "harmony without marks": ("analysis9? No.assistantfinalIt is 10.", "It is 10.", 1),
    "an answer in a tag": ("<think>9?</think>\n<answer>\n10\n</answer>", "10", 1),
}

KEPT = {
    "in code": "Use `<think>` and `</think>`.",
    "in code of two marks": "Write `<think>…</think>` first.",
    "a mark alone in code": "`</think>` ends it.",
    "in a fence": "It writes\n```\n<think>\n9?\n</think>\n```\nand then answers.",
    "in quotes": 'The marks "<think>" and "</think>" are tags.',
    "in prose": "The <think> tag begins a thought, and the </think> tag ends it.",
    "at a sentence's end": "A thought ends with </think>.",
    "on lines of its own": "It writes\n<think>\n9?\n</think>\nand then answers.",
    "on one line": "It writes <think>9?</think> and then answers.",
    "an answer's tag": "<answer>B</answer>",
    "a word": "analysis of the facts: assistantship.",
    "harmony in prose": "GPT-OSS writes <|channel|>final<|message|> before its answer.",
}

UNFINISHED = {
    "cut": "<think>\nIt could be 10",
    "cut within the second": "<think>9?</think>\n<think>10",
    "cut after a part of the answer": "<think>a</think>\nIt is 9.\n<think>\nno, 10",
    "nothing": "<think>",
    "harmony": "<|channel|>analysis<|message|>It could be 10",
    "harmony, a channel's beginning": f"{HARMONY}",
    "harmony without marks": "analysisIt could be 10",
    "another kind": "<think>9?</think>[THINK]10",
}


@pytest.mark.parametrize("name", PARTED)
def test_thoughts_are_parted_from_the_answer(name: str) -> None:
    text, right, thoughts = PARTED[name]
    parsed = parse_answer(text)
    assert (parsed.text, len(parsed.thoughts), parsed.unfinished) == (right, thoughts, False)


@pytest.mark.parametrize("name", KEPT)
def test_an_answer_that_explains_marks_keeps_its_text(name: str) -> None:
    assert parse_answer(KEPT[name]) == Answer(KEPT[name])


@pytest.mark.parametrize("name", KEPT)
def test_after_a_thought_of_its_own_too(name: str) -> None:
    if name == "on lines of its own":
        pytest.skip("then a second thought, as models write it")
    assert parse_answer(f"<think>9?</think>\n\n{KEPT[name]}").text in (KEPT[name], "B")


@pytest.mark.parametrize("name", UNFINISHED)
def test_a_thought_that_never_ended_is_no_answer(name: str) -> None:
    parsed = parse_answer(UNFINISHED[name])
    assert (parsed.text, parsed.unfinished) == ("", True)
    assert parsed.thoughts


@pytest.mark.parametrize("marks", KNOWN, ids=lambda marks: marks.opening)
def test_every_known_kind_is_parted_and_may_be_unfinished(marks: Marks) -> None:
    text = f"{marks.opening}one 9 two{marks.closing}\n\nThree."
    assert parse_answer(text) == Answer("Three.", ("one 9 two",))
    assert parse_answer(text[:-8][: len(marks.opening) + 5]).unfinished


class TestTheTemplatesOwnMarks:
    marks = Marks("<plan>\n", "\n</plan>\n\n")

    def test_they_part_and_others_do_not(self) -> None:
        move = Move("<plan>\n9?\n</plan>\n\n<think>10</think>", marks=self.marks)
        assert answer_of(move) == Answer("<think>10</think>", ("9?",))

    def test_a_thought_that_the_prompt_began(self) -> None:
        opened = Marks("<plan>", "</plan>", opened=True)
        assert answer_of(Move("9?</plan>Ten.", marks=opened)) == Answer("Ten.", ("9?",))
        assert answer_of(Move("It could be 10", "length", marks=opened)) == Answer(
            "", ("It could be 10",), unfinished=True
        )

    def test_and_that_the_model_began_again(self) -> None:
        opened = Marks("<plan>", "</plan>", opened=True)
        assert answer_of(Move("\n<plan>9?</plan>Ten.", marks=opened)) == Answer("Ten.", ("9?",))

    def test_without_marks_in_the_text_it_is_the_answer(self) -> None:
        assert answer_of(Move("Ten.", marks=self.marks)) == Answer("Ten.")


class TestThoughtsGivenApart:
    def test_they_are_kept(self) -> None:
        assert answer_of(Move("Ten.", thoughts="9?")) == Answer("Ten.", ("9?",))

    def test_thoughts_to_the_end_of_the_tokens_are_no_answer(self) -> None:
        assert answer_of(Move("", "length", thoughts="9?")).unfinished
        assert not answer_of(Move("Ten", "length", thoughts="9?")).unfinished
        assert not answer_of(Move("", "stop", thoughts="9?")).unfinished

    def test_and_so_are_those_that_a_server_keeps_to_itself(self) -> None:
        assert answer_of(Move("", "length", completion_tokens=256)).unfinished
        assert not answer_of(Move("  ", "length")).unfinished
        assert not answer_of(Move("", "stop")).unfinished

    def test_a_move_without_them_is_recorded_as_before(self) -> None:
        assert json.loads(msgspec.json.encode(Move("Ten."))) == {"text": "Ten."}


NORMALISED = {
    "１２": "12",
    "ＡＢ：ｃ": "AB:c",
    "−5 ‑5 –5": "-5 -5 -5",
    "1\u202f000\u00a0000\u2009m": "1 000 000 m",
    "“a” ‘b’ «c»": '"a" \'b\' "c"',
    "𝟏𝟐 𝐀": "12 A",
    "١٢٫٥": "12.5",
    "१२": "12",
    "ﬁne": "fine",
    "ｶﾞ": "ガ",
    "10² ½ ① x₁": "10² ½ ① x₁",
    "10⁻⁶": "10⁻⁶",
    "a\r\nb\u2028c": "a\nb\nc",
    "a\u200bb\ufeff": "ab",
    "می‌توانم": "می‌توانم",
    "well—known": "well—known",
}


@pytest.mark.parametrize("text", NORMALISED)
def test_one_form_of_width_signs_spaces_and_quotes(text: str) -> None:
    assert normalised(text) == NORMALISED[text]
    assert normalised(normalised(text)) == normalised(text)


def test_many_marks_and_combining_characters_take_little_time() -> None:
    for text in ("<think>" * 50_000, "</think>\n" * 50_000, "`<think>`" * 50_000):
        parse_answer(text)
    assert len(normalised("a" + "\u0301\u0323" * 50_000)) < 100


def test_examples() -> None:
    assert doctest.testmod(answer).failed == 0
