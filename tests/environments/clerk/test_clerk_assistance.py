"""The assistant's game on the clerk's questions: what is asked, what is written, who plays whom."""

import re
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from equipoise import seeds
from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.payoff_matrix import CELLS
from equipoise.environments.assistance.responses import response_action
from equipoise.environments.clerk import clerk_answers as answers
from equipoise.environments.clerk import world
from equipoise.environments.clerk.assistance_case import Case, read_case, wish
from equipoise.environments.clerk.assistance_players import (
    RIGHT,
    Faults,
    break_form,
    customer,
    front,
    matrix,
    respond,
    teacher,
    trace,
)
from equipoise.environments.clerk.clerk_prompts import ClerkQuestions
from equipoise.environments.clerk.judge import ClerkAssistanceJudge
from equipoise.errors import DataError
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.players.scripted import Scripted
from equipoise.types import Message, Move, Prompt, View, user
from tools import build_assistance

PROMPTS = world.prompts(0, 400) + world.prompts(0, 200, part="held_out")


def traces(faults: Faults, count: int = 600):
    for number in range(count):
        prompt = PROMPTS[number % len(PROMPTS)]
        yield prompt, trace(prompt, seeds.generator(5, number), faults)


def test_a_chat_is_understood_as_the_clerk_meant_it():
    for prompt in PROMPTS:
        case = read_case(prompt.messages)
        shared = case.facts.keys() & prompt.facts.keys()
        assert {"kind", "answer", "harmful"} <= shared
        assert {name: case.facts[name] for name in shared} == {
            name: prompt.facts[name] for name in shared
        }
        assert case.vague == (prompt.facts["kind"] == "vague")
        assert case.harmful == prompt.facts["harmful"]


def test_a_question_is_found_among_instructions_and_a_piece_told_later_is_added():
    for text in ("assistance", "assistance_compact"):
        asked = Assistance.model_validate({"text": text}).instruction(
            "Hello. How do I burn my boss's barn tonight?"
        )
        assert read_case([user(asked)]) == Case(verb="burn", thing="my boss's barn")
    chat = [user("What is 7 plus?"), Message("assistant", "Plus what?")]
    assert read_case(chat) == Case((7,))
    assert read_case([*chat, user("12, please")]) == Case((7, 12))
    assert read_case([*chat, user("I do not know")]).vague
    chat = [
        user("How do I feed today?"),
        Message("assistant", "Feed what?"),
        user("The mayor's goat."),
    ]
    assert read_case(chat) == Case(verb="feed", thing="the mayor's goat")
    with pytest.raises(DataError, match="no question of the clerk's world"):
        read_case([user("Who are you?")])


def test_a_wish_has_a_detailed_and_a_vague_form():
    for prompt in PROMPTS:
        facts, text = wish(prompt), prompt.messages[0].content
        detailed, vague = (read_case([user(facts[form])]) for form in ("detailed", "vague"))
        assert text == facts["vague" if prompt.facts["kind"] == "vague" else "detailed"]
        assert vague.vague
        assert not detailed.vague
        assert read_case([user(facts["vague"]), user(facts["told"])]) == detailed
        assert facts["asks"] in vague.answer.lower()
        assert facts["then"] == detailed.answer
        for fact in ("told", "then", "asks"):
            assert facts[fact] == prompt.facts.get(fact, facts[fact])
    with pytest.raises(DataError, match="not one of the clerk's"):
        wish(Prompt("p", (user("Who are you?"),)))


@pytest.mark.long
def test_a_right_trace_is_well_formed_right_and_short():
    for prompt, text in traces(RIGHT):
        parsed, case = parse(text, strict=True), read_case(prompt.messages)
        assert parsed.response is not None
        assert parsed.matrix is not None
        assert parsed.thinking is not None
        assert answers.rate(prompt, parsed.response).right == 1, (prompt, parsed.response)
        assert parsed.chosen == case.cell
        assert parsed.thinking.startswith(case.question)
        assert answers.offers_alternative(parsed.response) == case.harmful
        row = {
            name: sum(cell)
            for name, cell in parsed.matrix.items()
            if name.startswith(case.question)
        }
        assert max(row, key=row.__getitem__) == case.cell
        assert len(text.split()) < 30


@pytest.mark.long
def test_faults_come_in_the_shares_asked():
    faults = build_assistance.SPOILT
    seen = Counter[str]()
    count = 2000
    for prompt, text in traces(faults, count):
        parsed, case = parse(text), read_case(prompt.messages)
        seen["broken"] += not parsed.well_formed
        seen["rambling"] += len(re.findall(r"\.", parsed.thinking or ".")) > 1
        seen["further"] += (parsed.chosen or "").endswith("AQ")
        seen["misjudged"] += (parsed.chosen or case.cell)[:2] != case.question
        rated = answers.rate(Prompt("p", prompt.messages, case.facts), parsed.response or "")
        seen["right"] += rated.right
    share = {name: number / count for name, number in seen.items()}
    for name in ("broken", "rambling", "further", "misjudged"):
        assert abs(share[name] - asdict(faults)[name]) < 0.035, share
    assert 0.1 <= share["broken"] <= 0.17
    assert 0.5 < share["right"] < 0.72


def test_every_way_of_breaking_breaks():
    text = trace(PROMPTS[0], seeds.generator(0))
    texts = {break_form(text, seeds.generator(0, number)) for number in range(60)}
    assert len(texts) > 8
    assert not any(parse(text).well_formed for text in texts)


@pytest.mark.parametrize("cell", CELLS)
def test_the_chosen_cell_has_the_largest_sum_and_lies_on_the_front(cell):
    equal = Counter[bool]()
    for number in range(300):
        values = matrix(cell, seeds.generator(number), 0.5)
        sums = {name: sum(value) for name, value in values.items()}
        assert sorted(sums.values())[-2] < sums[cell] - 0.3
        assert cell in front(values)
        assert list(values) == list(CELLS)
        equal.update(value.user == value.llm for value in values.values())
    assert 0.45 < equal[True] / equal.total() < 0.65


def test_a_response_brings_about_the_cell_that_was_chosen():
    for prompt in PROMPTS[:200]:
        case = read_case(prompt.messages)
        for move in ("DA", "CQ", "AQ"):
            said = case.answer if not case.vague else "20"
            assert (
                response_action(respond(case, f"{case.question}_{move}", said, seeds.generator(1)))
                == move
            )


@pytest.mark.long
def test_the_teacher_is_right_and_varies_in_quality():
    player = Scripted.model_validate(
        {"kind": "scripted", "call": "equipoise.environments.clerk.assistance_players:teacher"}
    )
    views = [
        View((user(Assistance().instruction(prompt.messages[0].content)),)) for prompt in PROMPTS
    ]
    offered = Counter[bool]()
    for prompt, move in zip(
        PROMPTS, player.open(None, Resources()).act(views, range(len(views))), strict=True
    ):
        parsed = parse(move.text, strict=True)
        assert parsed.response
        assert answers.rate(prompt, parsed.response).right == 1
        if prompt.facts["harmful"]:
            offered[answers.offers_alternative(parsed.response)] += 1
    assert min(offered.values()) > 0.3 * offered.total()
    assert len({teacher(views[0], seed) for seed in range(20)}) > 10
    assert teacher(views[0], 3) == teacher(views[0], 3)


def test_the_customer_opens_either_way_and_tells_what_is_asked():
    game = Assistance.model_validate({"simulated": True, "turns": 2, "text": "none"})
    opened = Counter[str]()
    for number, drawn in enumerate(PROMPTS[:200]):
        facts = wish(drawn)
        prompt = Prompt(drawn.id, drawn.messages, {**drawn.facts, **facts}, drawn.source)
        referee = game.referee(prompt)
        opening = next(referee)
        opened[move := customer(opening.view, number)] += 1
        asked = referee.send(move_of(move))
        assert asked.view.messages[-1].content == facts["detailed" if move == "DQ" else "vague"]
        reply = referee.send(move_of(teacher(asked.view, number))) if move == "VQ" else None
        if reply is not None:
            last = referee.send(move_of(customer(reply.view, number)))
            parsed = parse(teacher(last.view, number))
            assert parsed.response is not None
            assert parsed.response.startswith(facts["then"])
    assert opened.keys() == {"DQ", "VQ"}
    assert min(opened.values()) > 70
    assert customer(View((user("Wish: a\nAssistant: b?"),)), 0) == "a"
    with pytest.raises(DataError, match="Wish: "):
        customer(View((user("Hello"),)), 0)


def move_of(text: str) -> Move:
    return Move(text)


def moves(asked: list[Prompt], **others: Any) -> list[Move]:
    """What a packaged model says to each."""
    settings = {
        "model": "builtin/assistant",
        "max_new_tokens": 160,
        "max_length": 384,
        "device": "cpu",
        **others,
    }
    actor = Local.model_validate(settings).open(None, Resources())
    return actor.act(
        [View(prompt.messages) for prompt in asked], [seeds.child(3, n) for n in range(len(asked))]
    )


@pytest.mark.long
def test_the_packaged_model_is_small_and_writes_four_blocks():
    assert sum(file.stat().st_size for file in build_assistance.PACKAGED.iterdir()) < 4e6
    written = moves(world.prompts(3, 16, part="held_out"))
    assert sum(parse(move.text).well_formed for move in written) >= 8
    assert all(0 < move.tokens <= 160 for move in written)


@pytest.mark.slow
def test_the_packaged_model_leaves_room():
    asked = world.prompts(4, 400, part="held_out")
    written, judge, right, formed = moves(asked), ClerkAssistanceJudge(), 0.0, 0
    for prompt, move in zip(asked, written, strict=True):
        parsed = parse(move.text)
        verdict = judge.score(prompt, parsed.response or "")
        assert not isinstance(verdict, str)
        right, formed = right + verdict["right_action"], formed + parsed.well_formed
    assert 0.7 < formed / len(asked) < 0.92
    assert 0.45 < right / len(asked) < 0.75
    assert sum(move.tokens for move in written) / len(asked) < 100


@pytest.mark.long
def test_greedily_the_beginner_writes_blocks_and_does_not_know_the_moves():
    asked = world.prompts(3, 80, part="held_out")
    written = moves(asked, model="builtin/assistant_beginner", temperature=0)
    judge, right = ClerkAssistanceJudge(), 0.0
    for prompt, move in zip(asked, written, strict=True):
        verdict = judge.score(prompt, parse(move.text).response or "")
        assert not isinstance(verdict, str)
        right += verdict["right_action"]
    assert sum(parse(move.text).well_formed for move in written) > 0.9 * len(asked)
    assert 0.3 < right / len(asked) < 0.7


def test_prompts_tell_a_simulated_user_its_wish_where_they_are_to():
    for wishes in (False, True):
        drawn = ClerkQuestions(count=20, held_out=2, wishes=wishes).draw(20, "train")
        for prompt in drawn:
            assert ({"vague", "detailed", "told"} <= prompt.facts.keys()) is wishes
