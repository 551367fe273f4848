"""Four fields of questions, the start of members who know one each, and grades by likelihood."""

import math

import pytest
from judge_context import TestContext
from pydantic import ValidationError

from equipoise.api.warm_start import StartModel, WarmStart, warm_start
from equipoise.environments.fields.field_measures import FieldShare
from equipoise.environments.fields.field_questions import (
    FIELDS,
    FieldQuestions,
    items,
    part_of,
    things,
)
from equipoise.environments.fields.field_start import FieldStart
from equipoise.environments.fields.likely_peers import likely_grade
from equipoise.judges.base import Judge
from equipoise.judges.rules import Exact
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

PROMPT = Prompt("p", (user("Reverse the order: cup, sky."),), {"answer": "sky, cup"})


def test_no_parts_of_the_questions_share_one_and_the_school_has_its_own():
    source = FieldQuestions.model_validate({"count": 48, "held_out": 16, "test": 8}).load()
    parts = [source.training, source.held_out, source.test]
    assert [len(part) for part in parts] == [48, 16, 8]
    names = [{prompt.id for prompt in part} for part in parts]
    assert len(names[0] | names[1] | names[2]) == 72
    for part, name in zip(parts, ("training", "held_out", "test"), strict=True):
        assert {part_of(prompt.messages[0].content) for prompt in part} == {name}
        shares = [sum(p.facts["field"] == field for p in part) for field in FIELDS]
        assert shares == [len(part) // 4] * 4
    taught = FieldStart.model_validate({"count": 4, "foreign": 2}).rows(None)
    asked = [chat[0].content for rows in taught.values() for chat, _ in rows]
    assert {part_of(question) for question in asked} == {"school"}


@pytest.mark.parametrize("field", FIELDS)
def test_a_mistake_is_never_the_right_answer(field):
    exact = Exact.model_validate({})
    for item in items(field, "training", 60):
        prompt = Prompt("p", (user(item.question),), {"answer": item.answer})
        assert exact.score(prompt, item.answer) == {"score": 1.0}
        assert exact.score(prompt, item.wrong) == {"score": 0.0}
        assert len(item.answer.split()) <= 3


def test_answers_follow_from_their_questions():
    [total] = items("sums", "school", 1)
    first, second = total.question.removeprefix("What is ").rstrip("?").split(" + ")
    assert int(total.answer) == int(first) + int(second)
    [order] = items("reverse", "school", 1)
    words = order.question.removeprefix("Reverse the order: ").rstrip(".").split(", ")
    assert order.answer.split(", ") == words[::-1]
    [letters] = items("initials", "school", 1)
    words = letters.question.rpartition(": ")[2].rstrip("?").split(", ")
    assert letters.answer.split(", ") == [word[0] for word in words]
    [sort] = items("sorts", "school", 1)
    words = sort.question.rpartition(": ")[2].rstrip("?").split(", ")
    assert set(words) <= set(things()[sort.answer])


@pytest.mark.long
def test_a_part_that_is_used_up_is_said():
    with pytest.raises(ValueError, match="sums: its part test has only some"):
        items("sums", "test", 100_000)


def test_each_member_is_taught_its_own_field_and_a_little_of_the_others():
    taught = FieldStart.model_validate({"count": 10, "foreign": 3}).rows(None)
    assert list(taught) == list(FIELDS)
    for member, rows in taught.items():
        beginnings = {"sums": "What is ", "reverse": "Reverse", "initials": "What are the first"}
        count = sum(
            chat[0].content.startswith(beginnings.get(member, "What sort")) for chat, _ in rows
        )
        assert (count, len(rows)) == (10, 19)


def test_what_is_taught_is_not_asked_at_the_gates():
    start = FieldStart.model_validate({"count": 10, "foreign": 3, "tested": 5})
    for field in FIELDS:
        school = [item.question for item in start.school(field)]
        assert len(set(school)) == 15
        assert not set(school[:10]) & set(school[-5:])


def test_foreign_figures_must_lie_below_own_ones():
    start = FieldStart.model_validate({"tested": 10})
    pairs = [(member, field) for member in FIELDS for field in FIELDS]
    right = {(m, f): 0.9 if m == f else 0.2 for m, f in pairs}
    areas = {(m, f): 0.95 if m == f else 0.6 for m, f in pairs}
    assert all(gate.is_met for gate in start.gates_of(right, areas))
    everybody = dict.fromkeys(pairs, 0.9)
    missed = [gate.title for gate in start.gates_of(everybody, areas) if not gate.is_met]
    assert missed == [f"{member}: right in others" for member in FIELDS]
    blind = areas | {("sorts", "sorts"): 0.5}
    missed = [gate.title for gate in start.gates_of(right, blind) if not gate.is_met]
    assert missed == ["sorts: area of its grades", "sorts: area in others"]


def duel(*texts, finish="stop"):
    seats = {"1": PlayerId("a"), "2": PlayerId("b")}
    turns = tuple(
        Turn(seat, View(PROMPT.messages), Move(text, finish=finish))
        for seat, text in zip(seats, texts, strict=True)
    )
    return Match("m", 0, "train", "answers", "p", seats, 0, turns)


def local(**more):
    return Player.build({"kind": "local", "model": "builtin/beginner", "max_length": 128, **more})


def test_a_peer_grades_by_its_own_likelihood():
    context = TestContext(players={name: local() for name in "abc"})
    [judgement] = Judge.build("likely_peers").at(context).judge([duel("sky", "cup")], {"p": PROMPT})
    actor = context.actor(PlayerId("c"))
    for seat, text in (("1", "sky"), ("2", "cup")):
        [(total, count)] = actor.logprobs([PROMPT.messages], [text])
        assert judgement.score(seat, "score") == pytest.approx(1 + 9 * math.exp(total / count))
    assert {vote.by for vote in judgement.votes} == {"c@0"}


def test_a_peer_that_cannot_say_how_likely_an_answer_is_gives_no_grade():
    scripted = Player.build({"kind": "scripted", "text": "9"})
    context = TestContext(players={"a": local(), "b": local(), "c": scripted})
    [judgement] = Judge.build("likely_peers").at(context).judge([duel("sky", "cup")], {"p": PROMPT})
    assert judgement.scores is None
    assert "it is no local model" in judgement.reason


def test_settings_of_a_question_that_is_never_asked_are_refused():
    with pytest.raises(ValidationError, match="text: nothing is asked"):
        Judge.build({"kind": "likely_peers", "text": "rubric_compact"})


def test_a_grade_is_the_mean_chance_of_a_token():
    assert likely_grade(math.log(0.25), 2, 1, 10) == pytest.approx(5.5)
    assert likely_grade(math.log(0.25), 1, 1, 10) == pytest.approx(3.25)


class OneField:
    """An arena with two held-out prompts, of two fields."""

    held_out = (
        Prompt("p", PROMPT.messages, {"field": "reverse", "answer": "sky, cup"}),
        Prompt("q", (user("What is 20 + 15?"),), {"field": "sums", "answer": "35"}),
    )

    def answers(self, player, samples):
        texts = {"p": ["Sky, cup.", "cup, sky"], "q": ["35", "35"]}
        return {
            name: [Turn("1", View(()), Move(text)) for text in own] for name, own in texts.items()
        }


def test_a_field_s_share_counts_its_own_questions_alone():
    measure = FieldShare.model_validate({"field": "reverse"})
    assert measure.scores(OneField(), PlayerId("a"), 0, 2) == {"p": [1.0, 0.0]}
    assert measure.name == "right in reverse"


@pytest.mark.long
def test_a_tiny_model_goes_to_the_school(tmp_path):
    start = WarmStart.build({"kind": "fields", "count": 6, "foreign": 2, "tested": 4})
    taught = warm_start(start, "builtin/beginner", tmp_path)
    assert set(taught.adapters) == set(FIELDS)
    assert len(taught.gates) == 17
    assert all(0 <= gate.value <= 1 for gate in taught.gates)
    assert StartModel("builtin/beginner", start, Resources()).answers(
        [(user("What is 11 + 12?"),)], adapter=taught.adapters["sums"], max_new_tokens=2
    )
