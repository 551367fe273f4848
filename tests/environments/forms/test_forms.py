"""Forms of short answers: which one an answer has, who prefers which, and what shares are worth."""

import numpy as np
import pytest
from judge_context import TestContext
from pydantic import ValidationError

from equipoise.environments.forms.answer_forms import exploitability, form_of, form_shares
from equipoise.environments.forms.form_measures import exploitability_interval
from equipoise.environments.forms.topic_questions import TopicQuestions
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

PROMPT = Prompt("p", (user("What should I know about bees?"),))
BULLETS = "- Bees make honey.\n- They dance."
TITLE = "# Bees\nThey make honey."
SENTENCE = "Bees make honey."
CYCLE = {
    "kind": "panel",
    "how": "majority",
    "judges": {
        "bullets": {"kind": "form_order", "order": ["bullets", "title", "sentence"]},
        "title": {"kind": "form_order", "order": ["title", "sentence", "bullets"]},
        "sentence": {"kind": "form_order", "order": ["sentence", "bullets", "title"]},
    },
}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (BULLETS, "bullets"),
        ("* Bees.\n* Honey.\n", "bullets"),
        ("- Bees make honey.", "bullets"),
        ("- Bees make honey.\nThey dance.", "none"),
        (TITLE, "title"),
        ("# Bees", "title"),
        ("They dance.\n# Bees", "none"),
        (SENTENCE, "sentence"),
        ("Bees make honey. They dance!", "sentence"),
        ("Why do bees dance?", "none"),
        ("Bees make honey and", "none"),
        ("# Bees\n- They dance.\n- They sing.", "none"),
        ("# Bees\n\n# Honey\nIt is sweet.", "none"),
        ("Bees:\nhoney.", "none"),
        ("", "none"),
    ],
)
def test_exactly_one_form_counts(text, form):
    assert form_of(text) == form


def test_exploitability_is_nothing_at_a_third_and_a_half_where_one_form_is_all():
    assert exploitability(np.array([1 / 3, 1 / 3, 1 / 3, 0])) == pytest.approx(0)
    assert exploitability(np.array([1.0, 0, 0, 0])) == 0.5
    # a sentence beats bullets and loses to titles: .6 + .1 / 2 − ½
    assert exploitability(np.array([0.6, 0.3, 0.1, 0])) == pytest.approx(0.15)
    assert exploitability(np.array([0, 0, 0, 1.0])) == 0.5


def test_the_interval_is_of_prompts_drawn_anew():
    share_PF = np.array([[1.0, 0, 0, 0]] * 30 + [[0, 1.0, 0, 0]] * 10)
    interval = exploitability_interval(share_PF)
    assert interval.mean == pytest.approx(0.75 - 0.5)
    assert interval.low < 0.25 < interval.high
    assert exploitability_interval(np.zeros((0, 4))) is None


def match(*texts):
    turns = tuple(
        Turn(str(seat), View(PROMPT.messages), Move(text)) for seat, text in enumerate(texts)
    )
    seats = {turn.seat: PlayerId("policy") for turn in turns}
    return Match("m", 0, "train", "answers", "p", seats, 0, turns)


def scores(judge, *texts):
    [judgement] = Judge.build(judge).at(TestContext()).judge([match(*texts)], {"p": PROMPT})
    return [row["score"] for row in judgement.scores.values()]


def test_a_majority_goes_in_a_circle():
    assert scores(CYCLE, BULLETS, TITLE) == [1, 0]
    assert scores(CYCLE, TITLE, SENTENCE) == [1, 0]
    assert scores(CYCLE, SENTENCE, BULLETS) == [1, 0]
    assert scores(CYCLE, SENTENCE, "Bees?") == [1, 0]
    assert scores(CYCLE, BULLETS, BULLETS) == [0.5, 0.5]


def test_a_majority_is_multiplied_by_what_each_answer_is_worth_alone():
    relevant = {"kind": "on_topic", "graded": True, "threshold": 0.05}
    product = {"kind": "panel", "how": "product", "judges": {"form": CYCLE, "relevant": relevant}}
    assert Judge.build(product).compares
    assert scores(product, BULLETS, TITLE) == [1, 0]
    stray, loser = scores(product, "- Zzz qqq.\n- Xxx vvv.", TITLE)
    assert 0 < stray < 0.9
    assert loser == 0
    mean = {**product, "how": "mean", "judges": {"form": CYCLE, "brief": {"kind": "shorter"}}}
    with pytest.raises(ValidationError, match="judge them alone, on other scales"):
        Judge.build(mean)


def test_an_order_names_every_form():
    with pytest.raises(ValidationError, match="name each of bullets, title, sentence once"):
        Judge.build({"kind": "form_order", "order": ["bullets", "bullets", "title"]})


def test_no_parts_of_the_questions_share_a_topic():
    source = TopicQuestions.model_validate({"held_out": 200, "test": 68}).load()
    parts = [source.training, source.held_out, source.test]
    topics = [{prompt.facts["topic"] for prompt in part} for part in parts]
    assert [len(part) for part in parts] == [404, 200, 68]
    assert not (topics[0] & topics[1] or topics[0] & topics[2] or topics[1] & topics[2])
    assert source.training[0].messages[0].role == "system"
    with pytest.raises(ConfigError, match="have 200 and 68 questions"):
        TopicQuestions.model_validate({"held_out": 201}).load()


def test_shares_are_of_all_answers():
    assert form_shares([BULLETS, TITLE, TITLE, "Bees?"]) == {
        "bullets": 0.25,
        "title": 0.5,
        "sentence": 0.0,
        "none": 0.25,
    }
    with pytest.raises(ValueError, match="no answer"):
        form_shares([])
