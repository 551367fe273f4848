"""Instructions put on questions, and the judge that checks them by rule."""

from __future__ import annotations

import random
import socket
import sys

import pytest

from equipoise.environments.instructions import checkers
from equipoise.environments.instructions.checkers import FollowsInstructions, _forgiving, check
from equipoise.environments.instructions.instruction_prompts import DRAWS, InstructionPrompts
from equipoise.errors import ConfigError, DataError
from equipoise.types import Prompt, user

NUMBERS = {
    "capital_frequency": {2, 3, 4},
    "num_bullets": {2, 3, 4},
    "num_highlights": {1, 2, 3},
    "num_sections": {2},
    "num_placeholders": {1, 2, 3},
}  # small enough for an answer of a few sentences
FOLLOWED = {
    "change_case:english_lowercase": ({}, "this is all in small letters.", "This is not."),
    "change_case:english_capital": ({}, "THIS IS ALL IN LARGE LETTERS.", "This is not."),
    "change_case:capital_word_frequency": (
        {"capital_relation": "at least", "capital_frequency": 2},
        "VERY GOOD indeed",
        "very good",
    ),
    "punctuation:no_comma": ({}, "No pause here.", "Well, here."),
    "startend:quotation": ({}, '"A quoted answer."', "An answer."),
    "startend:end_checker": ({"end_phrase": "That is all."}, "Yes. That is all.", "Yes."),
    "detectable_format:title": ({}, "<<A title>> and text", "A title"),
    "detectable_format:number_bullet_lists": ({"num_bullets": 2}, "* a\n* b", "* a\n* b\n* c"),
    "detectable_format:number_highlighted_sections": (
        {"num_highlights": 1},
        "a *marked* part",
        "none",
    ),
    "detectable_format:multiple_sections": (
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\na\nSection 2\nb",
        "a and b",
    ),
    "detectable_content:postscript": ({"postscript_marker": "P.S."}, "Yes.\nP.S. No.", "Yes."),
    "detectable_content:number_placeholders": ({"num_placeholders": 1}, "Dear [name]", "Dear"),
    "length_constraints:number_sentences": (
        {"relation": "less than", "num_sentences": 3},
        "Dr. Smith met Mr. Jones, e.g. at noon. They spoke.",
        "One. Two. Three.",
    ),
    "length_constraints:number_words": (
        {"relation": "less than", "num_words": 4},
        "three short words",
        "these are four words",
    ),
    "length_constraints:number_paragraphs": ({"num_paragraphs": 2}, "a\n***\nb", "a and b"),
    "keywords:existence": ({"keywords": ["garden"]}, "my garden", "my house"),
    "keywords:frequency": (
        {"keyword": "music", "relation": "at least", "frequency": 2},
        "music and music",
        "music",
    ),
    "keywords:forbidden_words": ({"forbidden_words": ["water"]}, "dry land", "deep water"),
    "keywords:letter_frequency": (
        {"letter": "v", "let_relation": "at least", "let_frequency": 2},
        "very vivid",
        "vast",
    ),
}


def test_every_instruction_that_is_drawn_is_tried():
    assert set(FOLLOWED) == set(DRAWS)


def test_numbers_are_drawn_that_a_few_sentences_can_meet():
    drawn = {name: set() for name in NUMBERS}
    for seed in range(100):
        for draw in DRAWS.values():
            given = draw(random.Random(seed))
            for name in given.keys() & NUMBERS:
                drawn[name].add(given[name])
    assert drawn == NUMBERS


@pytest.mark.long
@pytest.mark.parametrize("name", FOLLOWED)
def test_following_is_told_from_not_following(name: str):
    arguments, good, bad = FOLLOWED[name]
    checks = [check([name], [arguments], "", text)[0] for text in (good, bad, "  ")]
    assert [found.strict for found in checks] == [True, False, False]


@pytest.mark.long
def test_the_loose_reading_forgives_a_first_line():
    (found,) = check(["change_case:english_lowercase"], [{}], "", "Sure:\nit is small.")
    assert (found.strict, found.loose) == (False, True)


def test_a_checker_that_fails_is_no_vote_against_the_answer(monkeypatch):
    class Broken:
        def __init__(self, name):
            pass

        def build_description(self, **_):
            raise LookupError("no data")

    monkeypatch.setattr(checkers, "checker_of", lambda name: Broken)
    (found,) = check(["a:b"], [{}], "", "text")
    assert found.strict is None
    assert "a:b could not be checked: LookupError" in found.problem


def test_the_judge_gives_the_share_and_says_why_it_cannot():
    names = ["punctuation:no_comma", "change_case:english_lowercase"]
    facts = {"instruction_id_list": names, "kwargs": [{}, {}]}
    prompt = Prompt("p", (user("Why?"),), facts, "test")
    assert FollowsInstructions().score(prompt, "Because it is so.") == {
        "score": 0.5,
        "strict": 0.5,
        "loose": 0.5,
        "all_strict": 0.0,
        "all_loose": 0.0,
    }
    whole = FollowsInstructions(level="prompt").score(prompt, "because it is so.")
    assert isinstance(whole, dict)
    assert whole["score"] == 1.0
    assert "no instructions" in str(FollowsInstructions().score(Prompt("q", (), {}, ""), "a"))


@pytest.mark.parametrize(
    ("names", "arguments"), [(["punctuation:no_comma"] * 2, [{}]), (["punctuation:no_comma"], "{}")]
)
def test_arguments_that_do_not_fit_the_instructions_are_a_reason(names, arguments):
    facts = {"instruction_id_list": names, "kwargs": arguments}
    reason = FollowsInstructions().score(Prompt("p", (user("?"),), facts), "Yes.")
    assert reason == "the prompt's fact `kwargs` must have an object for each instruction"


def test_an_unknown_instruction_names_the_nearest():
    with pytest.raises(
        ConfigError, match=r"'punctuation:no_coma'; did you mean 'punctuation:no_comma'"
    ):
        check(["punctuation:no_coma"], [{}], "", "text")
    with pytest.raises(ValueError, match="did you mean"):
        InstructionPrompts(instructions=("punctuation:no_coma",))


def test_prompts_are_seeded_disjoint_and_consistent():
    source = InstructionPrompts(count=200, held_out=50, test=20, seed=3).load()
    again = InstructionPrompts(count=200, held_out=50, test=20, seed=3).load()
    assert source == again
    parts = [source.training, source.held_out or [], source.test or []]
    assert [len(part) for part in parts] == [200, 50, 20]
    questions = [{prompt.facts["question"] for prompt in part} for part in parts]
    assert not questions[0] & questions[1]
    assert not questions[0] & questions[2]
    for prompt in source.training:
        names = prompt.facts["instruction_id_list"]
        assert 1 <= len(names) <= 3
        assert len(set(names)) == len(names)
        assert prompt.messages[0].content.startswith(prompt.facts["question"])


def test_too_few_questions_are_said(tmp_path):
    (tmp_path / "q.txt").write_text("What?\n")
    with pytest.raises(ConfigError, match="too few for a held_out part"):
        InstructionPrompts(count=1, held_out=2, questions="q.txt").load(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        InstructionPrompts(questions="nowhere.txt").load(tmp_path)


def test_without_the_checkers_prompts_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "if_verifiable.ifeval.instructions_registry", None)
    checkers.ifeval_checkers.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"pip install 'equipoise\[instructions\]'"):
            InstructionPrompts(count=4, held_out=0).load()
    finally:
        checkers.ifeval_checkers.cache_clear()


def test_ifbench_is_loaded_without_the_network(monkeypatch):
    def refuse(*_: object, **__: object):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", refuse)
    checkers.ifbench_checkers.cache_clear()
    assert "count:word_count_range" in checkers.ifbench_checkers()


def test_a_mark_that_is_no_letter_is_counted_itself():
    arguments = [{"letter": "!", "let_frequency": 2, "let_relation": "at least"}]
    for answer, follows in [("Oh! No!", True), ("Oh! eeee aaaa tttt", False)]:
        checks = [
            check(["keywords:letter_frequency"], arguments, "Shout.", answer)[0] for _ in range(5)
        ]
        assert {each.strict for each in checks} == {follows}


def test_the_loose_reading_leaves_out_ends_and_stars():
    assert _forgiving("a\n*b*\nc") == [
        *("*b*\nc", "a\n*b*", "*b*"),
        *("a\nb\nc", "b\nc", "a\nb", "b"),
    ]
    assert _forgiving("one") == ["one"]
    assert _forgiving("**") == []
