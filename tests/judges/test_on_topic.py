"""The judge of topics."""

import numpy as np
import pytest
from judge_context import TestContext
from pydantic import BaseModel, ValidationError

from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.judges.on_topic import OnTopic, text_without_copies
from equipoise.models.embedding import Embedding
from equipoise.models.resources import Resources
from equipoise.types import Match, Message, Move, PlayerId, Prompt, Turn, View, user

BREAD = Prompt(
    "bread", (Message("system", "Speak of rivers."), user("How do I bake bread at home?"))
)


class Letters(Embedding):
    """A vector for each text by its first letter: a on one axis, b between, c opposite, n no
    number.
    """

    kind: str = f"{__name__}:Letters"

    def open(self, resources: Resources):
        axes = {"a": [1, 0], "b": [0.6, 0.8], "c": [-1, 0], "n": [np.nan, 0], "": [0, 0]}
        return lambda texts: np.array([axes[text.strip()[:1]] for text in texts], float)


def verdicts(texts, prompt=BREAD, **settings):
    return OnTopic(**settings).at(TestContext()).scores([(prompt, text) for text in texts])


def test_hashed_texts_are_held_against_the_last_message():
    near, far = verdicts(["How do I bake my bread?", "Rivers flow to seas"])
    assert near["score"] == 1.0
    assert near["similarity"] > 0.5
    assert far["score"] == 0.0
    assert abs(far["similarity"]) < 0.25


@pytest.mark.parametrize(
    ("threshold", "scores"), [(0.3, [1, 1, 0]), (0.7, [1, 0, 0]), (-1, [1, 1, 1])]
)
def test_the_threshold_is_a_cosine(threshold, scores):
    found = verdicts(
        ["a", "b", "c"], Prompt("p", (user("a"),)), embedding=Letters(), threshold=threshold
    )
    assert [verdict["score"] for verdict in found] == scores
    assert [verdict["similarity"] for verdict in found] == pytest.approx([1, 0.6, -1])


def test_a_blank_text_is_on_no_topic_and_a_blank_prompt_has_none():
    assert verdicts([" ", ""], threshold=-1) == [{"score": 0.0, "similarity": 0.0}] * 2
    assert verdicts(["a"], Prompt("p", ())) == ["the prompt's last message is blank"]
    assert verdicts(["a"], Prompt("p", (user(" "),))) == ["the prompt's last message is blank"]


class Absent(Embedding):
    """One that cannot be opened."""

    kind: str = f"{__name__}:Absent"

    def open(self, resources: Resources):
        raise ConfigError("it is not there")


def test_an_embedding_that_is_not_there_is_said_before_the_first_answer():
    with pytest.raises(ConfigError, match="not there"):
        OnTopic(embedding=Absent()).at(TestContext()).prepare()


@pytest.mark.parametrize("threshold", [1.01, -1.01])
def test_a_threshold_is_no_more_than_a_cosine(threshold):
    with pytest.raises(ValidationError, match="threshold"):
        OnTopic.model_validate({"threshold": threshold})
    assert OnTopic().score_range == (0, 1)


def test_what_is_no_number_is_no_score():
    assert verdicts(["n"], Prompt("p", (user("a"),)), embedding=Letters()) == [
        "the embedding's cosine is nan"
    ]


def test_matches_are_judged_seat_by_seat():
    moves = {"1": Move("bake bread at home"), "2": Move("", finish="error", error="late")}
    turns = tuple(Turn(seat, View(BREAD.messages), move) for seat, move in moves.items())
    match = Match(
        "m", 0, "train", "answers", "bread", {seat: PlayerId(seat) for seat in moves}, 0, turns
    )
    judge = Judge.build("on_topic")
    (judgement,) = judge.at(TestContext()).judge([match], {"bread": BREAD})
    assert judgement.scores is not None
    assert judgement.scores["1"]["score"] == 1.0
    assert set(judgement.scores) == {"1"}
    assert "late" in judgement.reason
    assert judge.at(TestContext()).judge([], {}) == []


def test_settings_make_another_judge_and_can_be_written_down():
    plain = Judge.build("on_topic")
    other = Judge.build(
        {"kind": "on_topic", "embedding": {"kind": "encoder", "model": "some/encoder"}}
    )
    assert plain.name == "on_topic" != other.name
    assert Judge.build(other.settings()) == other
    assert isinstance(plain, BaseModel)
    with pytest.raises(ValidationError, match=r"unknown kind 'hash'; did you mean 'hashed'"):
        Judge.build({"kind": "on_topic", "embedding": "hash"})


def test_it_must_be_seated():
    with pytest.raises(ConfigError, match="has no context"):
        OnTopic().score(BREAD, "text")


def test_a_grade_is_the_share_of_the_threshold():
    letters = {"embedding": Letters(), "graded": True}
    topic = Prompt("p", (user("c, and c"),), {"question": "a"})
    of_question = verdicts(["a", "b", "c"], topic, fact="question", threshold=0.8, **letters)
    assert [verdict["score"] for verdict in of_question] == pytest.approx([1.0, 0.75, 0.0])
    (of_message,) = verdicts(["b"], topic, threshold=0.8, **letters)
    assert of_message == pytest.approx({"score": 0.0, "similarity": -0.6})
    (no_fact,) = verdicts(["c"], topic, fact="elsewhere", threshold=0.8, **letters)
    assert no_fact["score"] == 1.0
    with pytest.raises(ValidationError, match="threshold above 0"):
        OnTopic(graded=True, threshold=0.0)


QUESTION = "How do I bake bread at home?"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (QUESTION, ""),
        (f"{QUESTION} {QUESTION}", ""),
        (f"{QUESTION} Heat the oven first.", "Heat the oven first."),
        ("bake, bread, home", ""),  # the question's words in its order
        ("home, bread, bake", "home, bread, bake"),  # no order of the question's
        ("Bake bread at home in a hot oven.", "Bake bread at home in a hot oven."),  # 4 of 8 words
        ("Bake bread.", "Bake bread."),  # too short to be a copy
        ("At home.\nHow do I bake bread", "At home."),
        ("Heat it.  Then wait.", "Heat it.  Then wait."),  # as it stands where nothing is a copy
    ],
)
def test_sentences_that_repeat_the_question_are_left_out(text, left):
    assert text_without_copies(QUESTION, text) == left


def test_a_copy_of_the_question_gains_nothing_where_copies_are_left_out():
    texts = [QUESTION, f"{QUESTION} Rivers flow to seas.", "How do I bake my bread in an oven?"]
    counted = verdicts(texts)
    without = verdicts(texts, without_copies=True)
    assert [verdict["score"] for verdict in counted] == [1, 1, 1]
    assert [verdict["score"] for verdict in without] == [0, 0, 1]
    assert without[0]["similarity"] == 0 and without[2] == counted[2]


def test_copies_are_those_of_the_fact_that_is_compared_with():
    prompt = Prompt("p", (user("In French, please: say it."),), {"question": QUESTION})
    (by_fact,) = verdicts([QUESTION], prompt, without_copies=True, fact="question")
    (by_message,) = verdicts(["In French, please: say it."], prompt, without_copies=True)
    assert by_fact["score"] == by_message["score"] == 0
    (kept,) = verdicts(["In French, please: say it."], prompt, fact="question", without_copies=True)
    assert kept["similarity"] != 0
