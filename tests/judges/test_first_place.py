"""Plackett–Luce over the answers of a match, by another judge's scores."""

import math

import pytest
from judge_context import TestContext

from equipoise.judges.base import Judge
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

PROMPT = Prompt("p", (user("Say something."),))


def vowels(prompt, text):
    """A reward; none for a text without vowels."""
    return sum(text.count(vowel) for vowel in "aeiou") or None


INNER = {"kind": "call", "function": f"{__name__}:vowels"}


def scores(*texts, **settings):
    seats = {str(i): PlayerId("policy") for i, _ in enumerate(texts)}
    turns = tuple(Turn(str(i), View(PROMPT.messages), Move(text)) for i, text in enumerate(texts))
    match = Match("m", 0, "train", "answers", "p", seats, 0, turns)
    judge = Judge.build({"kind": "first_place", "judge_of_answers": INNER, **settings})
    (judgement,) = judge.at(TestContext()).judge([match], {"p": PROMPT})
    return judgement


def test_each_answer_against_all_others():
    got = scores("a", "ae", "aei").by_seat("score")
    total = sum(math.exp(reward) for reward in (1, 2, 3))
    expected = {str(i): math.exp(i + 1) / total for i in range(3)}
    assert got == pytest.approx(expected)
    flatter = scores("a", "ae", "aei", temperature=100.0).by_seat("score")
    assert flatter == pytest.approx(dict.fromkeys("012", 1 / 3), abs=0.01)


def test_what_has_no_score_is_out_of_the_comparison():
    assert scores("a", "hm", "a").by_seat("score") == {"0": 0.5, "2": 0.5}
    alone = scores("a", "hm")
    assert alone.scores is None
    assert alone.reason


def test_it_gives_probabilities_and_needs_a_judge_that_scores():
    judge = Judge.build({"kind": "first_place", "judge_of_answers": INNER})
    assert judge.compares
    assert judge.score_range == (0.0, 1.0)
    inner = {"kind": "first_place", "judge_of_answers": INNER}
    with pytest.raises(ValueError, match="compares answers"):
        Judge.build({"kind": "first_place", "judge_of_answers": inner})
