"""The assistant's start: requests of three sorts, answers by chance, blocks that tell the move."""

import random
from collections import Counter

import numpy as np
import pytest

from equipoise.api.own_statements import own_statements
from equipoise.environments.assistance.assistance_start import (
    ACTIONS,
    PAUSES,
    WORDS,
    AssistanceStart,
    answer_by,
    follows,
    moved_game,
    plain_gates,
    question_type,
    sort_of,
    with_blocks,
    written_blocks,
)
from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.everyday_requests import EverydayRequests
from equipoise.environments.assistance.payoff_matrix import cell_name
from equipoise.environments.assistance.responses import response_action
from equipoise.environments.assistance.written_game import largest_sum
from equipoise.errors import ConfigError, NoSignal
from equipoise.runs import recipe_loader
from equipoise.types import Move, Prompt, user

OWN = "Wash it with warm water first."


def request(sort):
    facts = {"harmful": sort == "harmful", "ambiguous": sort == "vague", "place": "a barn"}
    text = "What about a barn?" if sort == "vague" else "How do I paint a barn?"
    return Prompt(sort, (user(text),), facts if sort == "vague" else {**facts, "act": "paint"})


def test_no_parts_of_the_requests_share_a_place_and_the_sorts_take_turns():
    source = EverydayRequests.model_validate({"held_out": 120, "test": 84}).load()
    parts = [source.training, source.held_out, source.test]
    places = [{prompt.facts["place"] for prompt in part} for part in parts]
    assert [len(part) for part in parts] == [288, 120, 84]
    assert not (places[0] & places[1] or places[0] & places[2] or places[1] & places[2])
    for part in parts:
        assert set(Counter(prompt.source for prompt in part).values()) == {len(part) // 3}
    assert [sort_of(prompt) for prompt in source.held_out[:4]] == [
        "harmful",
        "harmless",
        "vague",
        "harmful",
    ]
    vague = [prompt for prompt in source.held_out if prompt.facts["ambiguous"]]
    assert all("act" not in prompt.facts for prompt in vague)
    with pytest.raises(ConfigError, match="set fewer"):
        EverydayRequests.model_validate({"held_out": 500}).load()


@pytest.mark.parametrize("sort", ["harmful", "harmless", "vague"])
@pytest.mark.parametrize("action", ACTIONS)
def test_blocks_are_well_formed_and_the_matrix_tells_the_move(sort, action):
    prompt = request(sort)
    cell = cell_name(question_type(prompt), action)
    text = written_blocks(prompt, OWN, cell, np.random.default_rng(3), random.Random(3))
    output = parse(text, strict=True)
    assert output.chosen == cell
    assert largest_sum(output.matrix) == cell
    assert response_action(output.response) == action
    assert follows(text, cell)
    assert not follows(text, cell_name("DQ", ACTIONS[ACTIONS.index(action) - 1]))


def test_a_permuted_game_has_another_best_cell_of_the_same_question():
    cell = "VQ_CQ"
    text = written_blocks(request("vague"), OWN, cell, np.random.default_rng(0), random.Random(0))
    begun, lead, moved = moved_game(parse(text), 0)
    assert moved == "VQ_DA"
    assert lead == "<analyze>Front: VQ_DA. Choose VQ_DA."
    assert begun.endswith("</payoff>")
    assert largest_sum(parse(begun + lead).matrix) == "VQ_DA"
    assert moved_game(parse(text), 1)[2] == "VQ_AQ"
    assert moved_game(parse("no blocks"), 0) is None


def test_moves_of_plain_answers_are_what_they_are_called():
    dice = random.Random(1)
    assert answer_by("answer", request("harmful"), OWN, dice) == OWN
    assert "instead" in answer_by("offer", request("harmful"), OWN, dice)
    assert "instead" not in answer_by("decline", request("harmful"), OWN, dice)
    asked = answer_by("ask", request("vague"), OWN, dice)
    assert asked == "What do you want to do with a barn?"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Why? Wash the walls of it first. Then paint.", "Wash the walls of it first."),
        ("no sentence", None),
        ("Short one. It is far too brief", None),
        (
            "To paint it, " + "you wash it and " * 8 + "end.",
            "To paint it, you wash it and you wash it and you wash it and you wash it.",
        ),
    ],
)
def test_own_answers_are_cut_short(text, answer):
    assert next(iter(own_statements(text, WORDS, PAUSES)), None) == answer


def test_gates_are_counted_by_sort_of_request():
    declines, asks = "I'm sorry, but I can't help with that.", "What do you want to do?"
    answers = [
        (request("harmful"), Move(declines)),
        (request("harmful"), Move(OWN)),
        (request("harmless"), Move(OWN)),
        (request("harmless"), Move(OWN, "length")),
        (request("vague"), Move(asks)),
        (request("vague"), Move(asks)),
    ]
    gates = {gate.title: gate for gate in plain_gates(*zip(*answers, strict=True))}
    assert gates["answers that end"].value == pytest.approx(5 / 6)
    assert gates["harmful requests declined"].value == 0.5
    assert gates["harmless requests declined"].value == 0
    assert not gates["vague requests asked back"].is_met


class Scripted:
    """A model that answers by a rule, begun outputs with a direct answer."""

    def __init__(self, own, blocks):
        self.own, self.blocks = own, blocks

    def answers(self, chats, *, adapter=None, **settings):
        blocks = "<thinking>" in chats[0][-1].content
        return [Move(self.blocks if blocks else self.own) for _ in chats]

    def continued(self, chats, texts, **settings):
        return [f"{text}</analyze><response>{OWN}</response>" for text in texts]


def test_rows_are_plain_answers_and_blocks_around_the_models_own():
    start = AssistanceStart.model_validate({"count": 30, "plain": 1, "blocks": 1})
    examples = start.rows(Scripted(OWN, ""))["assistant"]
    blocks = [text for _, text in examples if text.startswith("<thinking>")]
    assert len(examples) == 60
    assert len(blocks) == 30
    assert {parse(text).chosen[3:] for text in blocks} == set(ACTIONS)
    assert any(text == OWN for _, text in examples)
    with pytest.raises(NoSignal, match="only 0 rows from 30 answers"):
        start.rows(Scripted("no", ""))


def test_a_model_that_always_answers_follows_the_games_moved_to_direct_answers(tmp_path):
    prompt = EverydayRequests.model_validate({"held_out": 0, "test": 3}).load().test[0]
    start = AssistanceStart.model_validate({"blocks": 1, "blocks_at_gates": 6})
    drawn, dice = np.random.default_rng(0), random.Random(0)
    text = written_blocks(prompt, OWN, "DQ_DA", drawn, dice)
    gates = start.gates(Scripted(OWN, text), {"assistant": tmp_path})
    found = {gate.title: gate for gate in gates}
    assert found["outputs in four blocks"].value == 1
    # moved from DA by one place to AQ and by two to CQ: never the direct answer
    assert found["answers that follow a permuted matrix when steered"].value == 0
    asking = written_blocks(prompt, OWN, "DQ_CQ", drawn, dice)
    gates = start.gates(Scripted(OWN, asking), {"assistant": tmp_path})
    found = {gate.title: gate for gate in gates}
    assert found["answers that follow a permuted matrix when steered"].value == 0.5


def test_blocks_are_asked_for_where_answers_are_steered_and_not_in_the_recipe():
    config = recipe_loader.load("smollm2_gtalign")
    assert not config.game.blocks
    assert config.game.text == "none"
    chat = with_blocks(request("vague"))
    assert chat[-1].content.endswith("What about a barn?")
    assert "<payoff>" in chat[-1].content


def test_without_blocks_none_are_taught_and_none_measured(tmp_path):
    start = AssistanceStart.model_validate({"count": 30})
    texts = [text for _, text in start.rows(Scripted(OWN, ""))["assistant"]]
    assert len(texts) == 60
    assert not any("<payoff>" in text for text in texts)
    titles = [gate.title for gate in start.gates(Scripted(OWN, ""), {"assistant": tmp_path})]
    assert len(titles) == 4
    assert not any("block" in title for title in titles)
