import math
from typing import ClassVar

import numpy as np
import pytest
from judge_context import TestContext
from pydantic import ValidationError

from equipoise.judges import panel
from equipoise.judges.base import Judge
from equipoise.judges.pointwise import Pointwise
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, Turn, View, Vote, user

PROMPT = Prompt("p", (user("What is 2 + 2?"),), {"answer": "4"})
BRIEF = {"kind": "shorter"}
RIGHT = {"kind": "exact"}


def match(*texts, id="m"):
    turns = tuple(
        Turn(str(i), View(PROMPT.messages), Move(text)) for i, text in enumerate(texts, 1)
    )
    return Match(
        id,
        0,
        "train",
        "answers",
        "p",
        {str(i): PlayerId("policy") for i in range(1, len(texts) + 1)},
        0,
        turns,
    )


def vowels(prompt, text):
    """A judge that has no word on texts without vowels."""
    return sum(text.count(vowel) for vowel in "aeiou") or None


VOWELS = {"kind": "call", "function": f"{__name__}:vowels"}


def pairwise(text):
    return {"kind": "pairwise", "model": {"kind": "scripted", "text": text}}


def judge(judges, *matches, **settings):
    return (
        Judge.build({"kind": "panel", "judges": judges, **settings})
        .at(TestContext())
        .judge(matches, {"p": PROMPT})
    )


@pytest.mark.parametrize(("how", "first"), [("mean", (1 - 1 + 9) / 3), ("median", 1)])
def test_scores_are_combined(how, first):
    judges = {
        "right": RIGHT,
        "brief": BRIEF,
        "nine": {
            "kind": "rubric",
            "text": "rubric_compact",
            "model": {"kind": "scripted", "text": "9"},
        },
    }
    (judgement,) = judge(judges, match("4", "five"), how=how)
    assert judgement.scores["1"]["score"] == pytest.approx(first)
    assert {(vote.by, vote.seat): vote.value for vote in judgement.votes} == {
        ("right", "1"): 1,
        ("brief", "1"): -1,
        ("nine", "1"): 9,
        ("right", "2"): 0,
        ("brief", "2"): -4,
        ("nine", "2"): 9,
    }


def test_members_of_a_list_are_named_by_their_kinds():
    (judgement,) = judge([BRIEF, RIGHT, {**BRIEF, "unit": "words"}, "exact"], match("4"))
    assert [vote.by for vote in judgement.votes] == ["shorter", "exact", "shorter2", "exact2"]


def test_a_quorum_and_missing_words():
    judges = {"right": RIGHT, "vowels": VOWELS}
    (one,), (two,) = (judge(judges, match("4", "five"), at_least=n) for n in (1, 2))
    # vowels has no word on 1, so what it says of 2 would compare the judges.
    assert one.scores == {"1": {"score": 1}, "2": {"score": 0}}
    assert two.scores is None
    assert two.reason == f"vowels: {__name__}:vowels returned None"
    assert [vote.value for vote in two.votes if vote.by == "vowels"] == [None, 2]


def test_standardised_members_have_one_scale():
    matches = match("4", "five"), match("eleven", "4", id="n")
    judges = {"right": RIGHT, "brief": BRIEF}
    judgements = judge(judges, *matches, standardise=True)
    right, brief = 1.0, (-1 + 3) / 2.1213203435596424
    assert judgements[0].scores["1"]["score"] == pytest.approx((right + brief) / 2)
    assert sum(
        s["score"] for judgement in judgements for s in judgement.scores.values()
    ) == pytest.approx(0)
    assert judgements[0].votes[0].value == 1
    (alike,) = judge(judges, match("4", "4"), standardise=True)
    assert alike.scores == {"1": {"score": 0}, "2": {"score": 0}}


def test_the_majority_prefers():
    judges = {"right": RIGHT, "brief": BRIEF, "vowels": VOWELS}
    (judgement,) = judge(judges, match("4", "aaa", "ee"), how="majority")
    # right: 1 > 2 = 3; brief: 1 > 3 > 2; vowels has no word on 1, and 2 > 3: so 2 and 3 tie.
    assert {seat: s["score"] for seat, s in judgement.scores.items()} == {
        "1": 1,
        "2": 0.25,
        "3": 0.25,
    }
    (judgement,) = judge(judges, match("4", "aaa", "ee"), how="majority", at_least=3)
    assert {seat: s["score"] for seat, s in judgement.scores.items()} == {"2": 0.5, "3": 0.5}


def test_a_vote_of_a_member_costs_what_was_asked_about_its_seat():
    """Two questions about the first seat and one about the second, none of them alike."""
    asked = [Vote("a", "1", 1.0, tokens=5, cost=0.5), Vote("b", "1", 2.0, tokens=7, cost=0.25)]
    asked.append(Vote("a", "2", 4.0, tokens=11, cost=2.0))
    scores = {"1": {"score": 1.5}, "2": {"score": 4.0}}
    judgement = Judgement("j", "m", "member", scores, votes=tuple(asked))
    votes = panel._votes("named", match("x", "y"), judgement)
    assert votes == [
        Vote("named", "1", 1.5, tokens=12, cost=0.75),
        Vote("named", "2", 4.0, tokens=11, cost=2.0),
    ]


def test_comparing_members_keep_their_comparisons_as_votes():
    (judgement,) = judge({"x": pairwise("Hm."), "y": pairwise("Ah.")}, match("4", "five"))
    assert judgement.scores is None
    assert [(vote.by, vote.seat, vote.other) for vote in judgement.votes] == [
        ("x", "1", "2"),
        ("x", "2", "1"),
        ("y", "1", "2"),
        ("y", "2", "1"),
    ]


def test_whether_a_panels_scores_compare_follows_its_members_and_its_rule():
    def panel(judges, **settings):
        return Judge.build({"kind": "panel", "judges": judges, **settings})

    assert not panel([RIGHT, BRIEF]).compares
    assert panel([RIGHT, BRIEF], how="majority").compares
    assert panel([RIGHT, BRIEF], standardise=True).compares
    assert panel([pairwise("A"), pairwise("B")]).compares
    assert panel([pairwise("A"), RIGHT]).compares
    assert panel([pairwise("A"), BRIEF], how="majority").compares


def test_members_that_compare_and_members_that_grade_are_multiplied():
    """Of the second match the first answer is right, and longer, so that it is not preferred."""
    prefers = {"kind": "panel", "how": "majority", "judges": {"brief": BRIEF, "same": BRIEF}}
    judges = {"prefers": prefers, "right": RIGHT}
    [judgement] = judge(judges, match("4", "five"), how="product")
    assert {seat: row["score"] for seat, row in judgement.scores.items()} == {"1": 1, "2": 0}
    [judgement] = judge(judges, match(" 4 ", "5"), how="product")
    assert {seat: row["score"] for seat, row in judgement.scores.items()} == {"1": 0, "2": 0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"judges": {"x": pairwise("A"), "y": BRIEF}}, "x compare .* y judge them alone"),
        ({"judges": [RIGHT, BRIEF], "at_least": 3}, "3 of 2 can never agree"),
        ({"judges": {"a@b": RIGHT, "c": RIGHT}}, "'a@b' can be no member's name"),
        ({"judges": {"score": RIGHT, "c": RIGHT}, "how": "least"}, "'score' can be no member"),
        (
            {"judges": [RIGHT, BRIEF], "how": "majority", "standardise": True},
            "preferences, which have no scale",
        ),
        ({"judges": [RIGHT]}, "at least 2 items"),
    ],
)
def test_a_panel_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        Judge.build({"kind": "panel", **settings})


@pytest.mark.parametrize("how", ["product", "least"])
def test_the_welfare_of_two_members(how):
    fresh = {"kind": "repetition", "length": 1, "allowed": 0.0}
    (verdict,) = judge({"fresh": fresh, "right": RIGHT}, match("4", "4 4"), how=how)
    assert verdict.scores == {
        "1": {"fresh": 1.0, "right": 1.0, "score": 1.0},
        "2": {"fresh": 0.5, "right": 0.0, "score": 0.0},
    }
    pairs = {"words": fresh, "pairs": {**fresh, "length": 2}}
    (verdict,) = judge(pairs, match("a b a b a a b b"), how=how)
    own = {"words": 2 / 8, "pairs": 4 / 7}
    least_or_product = min(own.values()) if how == "least" else 2 / 8 * 4 / 7
    assert verdict.scores == {"1": pytest.approx({**own, "score": least_or_product})}


def test_a_welfare_needs_every_member_and_no_score_below_0():
    with pytest.raises(
        ValidationError, match=r"product needs .* least 0; those of shorter go from -inf"
    ):
        Judge.build({"kind": "panel", "judges": [BRIEF, RIGHT], "how": "product"})
    with pytest.raises(ValidationError, match="least needs scores of at least 0; standardised"):
        two = {"kind": "panel", "judges": [RIGHT, RIGHT], "standardise": True}
        Judge.build({**two, "how": "least"})
    mute = RIGHT | {"fact": "nothing"}
    (verdict,) = judge([RIGHT, mute], match("4"), how="product")
    assert not verdict.scores
    assert "nothing" in verdict.reason
    three = {"kind": "panel", "judges": [RIGHT] * 3, "how": "product"}
    with pytest.raises(ValidationError, match="at_least: is not read with how: product"):
        Judge.build({**three, "at_least": 2})
    built = Judge.build({"kind": "panel", "judges": [RIGHT, mute], "how": "product"})
    assert "nothing" in built.why_unjudgeable(PROMPT)  # one member cannot, so none can
    built = Judge.build({"kind": "panel", "judges": [RIGHT, RIGHT], "how": "product"})
    assert built.known_utilities == ("score", "exact", "exact2")
    assert built.score_range == (0.0, 1.0)
    assert not built.compares


class Vowels(Pointwise):
    """The share of vowels in a text that has any."""

    kind: str = "vowels"
    bounds: ClassVar = (0.0, 1.0)

    def score(self, prompt, text):
        vowels = sum(text.count(vowel) for vowel in "aeiou")
        return {"score": vowels / len(text)} if vowels else "no vowel"


def test_a_welfare_leaves_out_the_one_answer_that_a_member_did_not_score():
    (verdict,) = judge({"right": RIGHT, "vowels": Vowels()}, match("a", "4"), how="product")
    assert verdict.scores == {"1": {"right": 0.0, "vowels": 1.0, "score": 0.0}}
    assert verdict.reason == "vowels: no vowel"


def test_standardised_scores_have_no_bounds():
    built = Judge.build({"kind": "panel", "judges": [RIGHT, RIGHT], "standardise": True})
    assert built.score_range == (-math.inf, math.inf)


def longer(prompt, text):
    """A judge of length alone."""
    return float(len(text))


LONGER = {"kind": "call", "function": f"{__name__}:longer"}


def test_prosper_scores_by_the_criterion_by_which_the_answers_are_worst_off():
    # right: 1 and 3 tie and beat 2; brief: 1 > 3 > 2 > 4 by length, 4 is wrong and the longest
    texts = ("4", "five!", "4 .", "sixteen")
    judges = {"right": RIGHT, "brief": BRIEF}
    (verdict,) = judge(judges, match(*texts), how="prosper", beta=0.2)
    orders = {"right": [1, 0, 1, 0], "brief": [-len(text) for text in texts]}
    wins = np.array(
        [(np.sign(np.subtract.outer(own, own)) + 1) / 2 for own in map(np.array, orders.values())]
    )
    kept_CN = wins.mean(axis=1)  # P(the answers together are preferred to each)
    weight_CN = np.exp(-kept_CN / 0.2) / 4
    worst = int((-0.2 * np.log(weight_CN.sum(axis=1))).argmin())
    wanted_N = wins[worst] @ (weight_CN[worst] / weight_CN[worst].sum())
    scores = [verdict.scores[str(seat)] for seat in range(1, 5)]
    assert [own["score"] for own in scores] == pytest.approx(wanted_N.tolist())
    assert [own["right"] for own in scores] == orders["right"]
    assert [own["brief"] for own in scores] == orders["brief"], "the criteria stay apart"
    other = 1 - worst
    other_N = wins[other] @ (weight_CN[other] / weight_CN[other].sum())
    assert [own["score"] for own in scores] != pytest.approx(other_N.tolist())


def test_prosper_reads_comparisons_in_both_orders_beside_grades():
    # it always says A: the two orders contradict each other, and flip: tie makes that one half
    always = {**pairwise("A"), "text": "pairwise_compact", "flip": "tie"}
    (verdict,) = judge({"model": always, "long": LONGER}, match("4", "five", "4"), how="prosper")
    assert verdict.scores["1"] == verdict.scores["3"]
    assert verdict.scores["2"]["score"] > verdict.scores["1"]["score"]
    assert verdict.scores["2"]["model"] == 0.5 and verdict.scores["2"]["long"] == 4
    assert sum(bool(vote.other) for vote in verdict.votes) == 4, (
        "equal answers were not asked about"
    )
    missing = {**always, "flip": "missing"}
    (verdict,) = judge({"model": missing, "long": LONGER}, match("4", "five"), how="prosper")
    assert verdict.scores is None
    assert "inconsistent" in verdict.reason


def test_prosper_leaves_out_the_answer_that_one_criterion_cannot_judge():
    judges = {"right": RIGHT, "vowels": VOWELS}
    (verdict,) = judge(judges, match("4", "four", "aa"), how="prosper")
    assert set(verdict.scores) == {"2", "3"}
    assert verdict.reason == f"vowels: {__name__}:vowels returned None"
    assert set(verdict.scores["2"]) == {"score", "right", "vowels"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0.3}, "beta: is not read with how: mean"),
        ({"how": "prosper", "standardise": True}, "preferences, which have no scale"),
        ({"how": "prosper", "at_least": 1, "judges": [RIGHT] * 3, "beta": 0}, "greater than 0"),
        ({"how": "prosper", "judges": [RIGHT] * 3, "at_least": 2}, "not read with how: prosper"),
        (
            {"how": "prosper", "judges": {"x": {**pairwise("A"), "compare": "swiss"}, "y": RIGHT}},
            "x compares some answers only",
        ),
    ],
)
def test_criteria_that_cannot_stay_apart_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        Judge.build({"kind": "panel", "judges": [RIGHT, BRIEF], **settings})


def test_what_prosper_says_of_itself():
    built = Judge.build({"kind": "panel", "judges": [RIGHT, BRIEF], "how": "prosper"})
    assert built.compares and built.score_range == (0.0, 1.0)
    assert built.known_utilities == ("score", "exact", "shorter")
