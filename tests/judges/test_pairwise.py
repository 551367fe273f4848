import re

import pytest
from judge_context import TestContext

from equipoise.judges.base import Judge
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

PROMPT = Prompt("p", (user("What is 2 + 2?"),), {"answer": "4"})


def match(*texts):
    turns = tuple(
        Turn(str(i), View(PROMPT.messages), Move(text)) for i, text in enumerate(texts, 1)
    )
    return Match(
        "m",
        0,
        "train",
        "answers",
        "p",
        {str(i): PlayerId("secret") for i in range(1, len(texts) + 1)},
        0,
        turns,
    )


def said(view, verdict):
    code = re.search(r"<<answer A (\w+)>>", view.messages[0].content)[1]
    return f'```json\n{{"reason": "A or B?", "verdict": "{verdict}", "code": "{code}"}}\n```'


def longer(view, seed):
    first, second = re.findall(
        r"<<answer [AB] \w+>>\n(.*)\n<<end of answer", view.messages[0].content
    )
    return said(
        view, "tie" if len(first) == len(second) else "A" if len(first) > len(second) else "B"
    )


def first(view, seed):
    return said(view, "A")


def nobody(view, seed):
    return said(view, "C")


def judge(call, *matches, judge_context=None, **settings):
    model = {"kind": "scripted", "call": f"{__name__}:{call}"}
    return (
        Judge.build({"kind": "pairwise", "model": model, **settings})
        .at(judge_context or TestContext())
        .judge(matches, {"p": PROMPT})
    )


def test_verdicts_in_both_orders_make_the_scores():
    (judgement,) = judge("longer", match("It is four.", "Four.", "Five."))
    assert {seat: s["score"] for seat, s in judgement.scores.items()} == {
        "1": 1,
        "2": 0.25,
        "3": 0.25,
    }
    assert [vote.value for vote in judgement.votes] == [1, 0, 1, 0, 0.5, 0.5]


def test_one_batch_asks_everything_and_names_nobody():
    judge_context = TestContext()
    judge(
        "longer",
        match("It is four.", "Four."),
        judge_context=judge_context,
        criteria="Length.",
        reference_fact="answer",
    )
    words = [view.messages[0].content for _, view in judge_context.asked]
    assert len(words) == 2
    assert all("Length." in w and "<<reference " in w and "secret" not in w for w in words)
    assert judge_context.asked[0][1].schema["properties"]["verdict"] == {
        "type": "string",
        "enum": ["A", "B", "tie"],
    }


@pytest.mark.parametrize(
    ("flip", "scores"), [("missing", None), ("tie", {"1": {"score": 0.5}, "2": {"score": 0.5}})]
)
def test_a_judge_that_always_takes_the_first_is_inconsistent(flip, scores):
    (judgement,) = judge("first", match("It is four.", "Four."), flip=flip)
    assert judgement.scores == scores
    assert judgement.reason.startswith("inconsistent" if scores is None else "")
    assert [vote.value for vote in judgement.votes] == [1, 1]


def test_a_verdict_for_nobody_is_unreadable():
    (judgement,) = judge("nobody", match("It is four.", "Four."))
    assert (judgement.scores, judgement.reason) == (None, "the judge's verdict could not be read")
    assert "'C' is none of A, B, tie" in judgement.votes[0].reason
