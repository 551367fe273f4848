import math
import re

import pytest
from judge_context import TestContext
from pydantic import ValidationError

from equipoise.errors import ConfigError, DataError, EquipoiseError
from equipoise.judges.base import Judge
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, Turn, View, Vote, user

PROMPT = Prompt("p", (user("What is 2 + 2?"),), {"answer": "4"})


def match(*texts, id="m", chat=PROMPT.messages):
    moves = [
        Move("", "error", error=str(t)) if isinstance(t, Exception) else t and Move(t)
        for t in texts
    ]
    turns = tuple(Turn(str(i), View(chat), move) for i, move in enumerate(moves, 1) if move)
    return Match(
        id,
        0,
        "train",
        "answers",
        "p",
        {str(i): PlayerId("secret") for i in range(1, len(texts) + 1)},
        0,
        turns,
    )


def counts(view, seed):
    """A judge that follows the template: the grade is the number of words, and it says what it was
    shown.
    """
    words = view.messages[0].content
    code, text = re.search(r"<<answer (\w+)>>\n(.*)\n<<end of answer", words, re.DOTALL).groups()
    return f'{{"reason": "{{counted}}", "score": {len(text.split())}, "code": "{code}"}}'


def dice(view, seed):
    return str(1 + seed % 10)


def moody(view, seed):
    return "Hm." if "bad" in view.messages[0].content else "7"


def broken(view, seed):
    raise RuntimeError("no memory")


def build(call, **settings):
    return Judge.build(
        {"kind": "rubric", "model": {"kind": "scripted", "call": f"{__name__}:{call}"}, **settings}
    )


def judge(call, *matches, judge_context=None, **settings):
    return build(call, **settings).at(judge_context or TestContext()).judge(matches, {"p": PROMPT})


def test_a_judge_that_follows_the_template_is_read():
    (judgement,) = judge("counts", match("It is four.", "Four."))
    assert judgement.scores == {"1": {"score": 3}, "2": {"score": 1}}
    assert [(vote.by, vote.seat, vote.value) for vote in judgement.votes] == [
        (judgement.judge, "1", 3),
        (judgement.judge, "2", 1),
    ]
    assert judgement.reason == ""


def test_the_question_has_the_request_the_answer_and_nobodys_name():
    judge_context = TestContext()
    judge(
        "counts",
        match("It is four."),
        judge_context=judge_context,
        criteria="Be brief.",
        reference_fact="answer",
    )
    ((who, view),) = judge_context.asked
    words = view.messages[0].content
    assert who is None
    assert all(
        part in words
        for part in ("What is 2 + 2?", "It is four.", "Be brief.", "<<reference ", "\n4\n")
    )
    assert "secret" not in words
    assert view.schema["required"] == ["reason", "score", "code"]
    assert view.schema["properties"]["score"] == {"type": "number"}


def test_the_request_is_what_the_seat_answered():
    judge_context = TestContext()
    chat = (user("Hello"), user("Bye"))
    judge("counts", match("x", chat=chat), judge_context=judge_context)
    assert "\nuser: Hello\n\nuser: Bye\n" in judge_context.asked[0][1].messages[0].content


def test_samples_are_averaged_and_each_is_a_vote():
    (judgement,) = judge("dice", match("x", "y"), text="rubric_compact", samples=5)
    for seat in ("1", "2"):
        values = [vote.value for vote in judgement.votes if vote.seat == seat]
        assert len(values) == 5
        assert len(set(values)) > 1
        assert judgement.scores[seat]["score"] == pytest.approx(sum(values) / 5)


def test_a_reply_does_not_depend_on_its_neighbours():
    alone, among = match("x"), [match("y", "z", id="n"), match("x")]
    assert (
        judge("dice", alone, text="rubric_compact")
        == judge("dice", *among, text="rubric_compact")[1:]
    )


def test_an_unreadable_reply_is_missing_or_by_choice_the_midpoint():
    (missing,) = judge("moody", match("good", "bad"), text="rubric_compact")
    assert missing.scores == {"1": {"score": 7}}
    assert missing.reason == "the judge's verdict could not be read"
    assert missing.votes[1].value is None
    assert "'Hm.'" in missing.votes[1].reason
    (midpoint,) = judge("moody", match("good", "bad"), text="rubric_compact", unreadable="midpoint")
    assert midpoint.scores == {"1": {"score": 7}, "2": {"score": 5.5}}
    assert midpoint.votes[1].value is None
    (released,) = judge(
        "moody", match("good", "bad"), text="rubric_compact", unreadable="as_released"
    )
    assert released.scores == {"1": {"score": 5}, "2": {"score": 5}}
    with pytest.raises(ValidationError, match=r"5.* 0 to 1"):
        Judge.build(
            {
                "kind": "rubric",
                "model": {"kind": "scripted", "text": "1"},
                "low": 0,
                "high": 1,
                "unreadable": "as_released",
            }
        )


def test_as_released_a_failed_grade_is_five_and_leaves_the_others_alone():
    settings = {"kind": "rubric", "model": {"kind": "scripted", "text": "1"}}
    released = Judge.build(settings | {"unreadable": "as_released"})
    votes = [Vote("a", "1", None, reason="the judge's move failed: gone"), Vote("a", "2", 8.0)]
    assert released.grades_by_votes(votes) == {"a": {"1": 5.0, "2": 8.0}}


@pytest.mark.parametrize("unreadable", ["missing", "midpoint"])
def test_a_judge_that_fails_gives_no_number(unreadable):
    (judgement,) = judge("broken", match("good"), unreadable=unreadable)
    assert judgement.scores is None
    assert judgement.reason.startswith("the judge's move failed: ")
    assert judgement.reason.endswith("RuntimeError: no memory")


def test_seats_without_an_answer_are_unjudged_and_nobody_is_asked():
    judge_context = TestContext()
    (judgement,) = judge("counts", match(RuntimeError("gone"), None), judge_context=judge_context)
    assert (judgement.scores, judgement.reason) == (
        None,
        "the move failed: gone; no answer was given",
    )
    assert judge_context.asked == []


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ answer }} {{ anwser }}", r"unknown placeholder 'anwser'; did you mean 'answer'\?"),
        ("{{ question }}", "the placeholder 'answer' is missing"),
        ("a\n{{ answer", r"t\.txt:2: "),
        ("{{ answer.__class__.__mro__ }}", "cannot be filled: "),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_template_that_cannot_be_used_is_one_clear_error(tmp_path, template, message):
    path = tmp_path / "t.txt"
    if template is not None:
        path.write_text(template)
    with pytest.raises(DataError, match=rf"judge\.text: .*{message}"):
        judge("counts", match("x"), text=str(path))


def test_a_users_template_is_filled_and_what_fills_it_is_no_template(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("From {{ low }} to {{ high }}:\n{{ answer }}")
    judge_context = TestContext()
    judge(
        "dice",
        match("{{ low }} {% raw %}"),
        judge_context=judge_context,
        text=str(path),
        low=0,
        high=2.5,
    )
    view = judge_context.asked[0][1]
    assert view.messages[0].content.startswith("From 0 to 2.5:\n<<answer ")
    assert "\n{{ low }} {% raw %}\n" in view.messages[0].content
    assert view.schema is None


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValidationError, match="low: must be below high = 1"):
        build("dice", low=1, high=1)
    with pytest.raises(ConfigError, match="has no context"):
        build("dice").judge([match("x")], {"p": PROMPT})


def test_a_babbling_model_gives_unreadable_votes(model_folder, monkeypatch):
    # By its name alone: what it babbles at depends on the judge's name, which its settings make.
    monkeypatch.chdir(model_folder("qwen3").parent)
    model = {
        "kind": "local",
        "model": f"./{model_folder('qwen3').name}",
        "max_new_tokens": 8,
        "device": "cpu",
    }
    judge_context = TestContext()
    short = Judge.build({"kind": "rubric", "model": model, "text": "rubric_compact"}).at(
        judge_context
    )
    long = Judge.build({"kind": "rubric", "model": model}).at(judge_context)
    (babble,), (no_room,) = (
        j.judge([match("It is four.", "Four.")], {"p": PROMPT}) for j in (short, long)
    )
    assert babble.scores is None
    assert all(vote.value is None and vote.tokens > 8 for vote in babble.votes)
    assert babble.reason == "the judge's verdict could not be read"
    assert no_room.scores is None
    assert "leaves no room for an answer" in no_room.reason


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.5", None])
def test_a_score_that_no_ledger_can_hold_is_refused(value):
    class Odd(Judge):
        kind: str = "odd"

        def judge(self, matches, prompts):
            return [Judgement("j", m.id, "odd", {"a": {"score": value}}) for m in matches]

    with pytest.raises(EquipoiseError, match=f"'odd' gave a of match m score = {value!r}"):
        Odd().checked_judgements([match("yes")], {})
