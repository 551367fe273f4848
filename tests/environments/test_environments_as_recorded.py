"""The built-in worlds and their judges on drawn questions, what evaluations call their numbers, and
plans and measures of red teaming, held against files of tests/records; edges of steering.
"""

import asyncio
from dataclasses import fields

import msgspec
import numpy as np
import pytest
from readable_values import shown

from equipoise import seeds
from equipoise.environments.assistance.assistance_evaluation import AssistanceEvaluation
from equipoise.environments.assistance.game import Assistance, is_vague, opening_question
from equipoise.environments.assistance.payoff_matrix import ACTIONS
from equipoise.environments.assistance.responses import asks_about, gives_several, response_action
from equipoise.environments.assistance.steering import LARGEST, Steering
from equipoise.environments.assistance.steering_extension import client_steering
from equipoise.environments.clerk import assistance_case, assistance_players, disguises, world
from equipoise.environments.clerk.judge import ClerkAssistanceJudge, ClerkGuard, ClerkJudge
from equipoise.environments.red_team.game import RedTeam, harmful
from equipoise.environments.red_team.red_teaming import RedTeaming
from equipoise.environments.text_games.game import Deals, legal_index
from equipoise.errors import DataError
from equipoise.evaluation.base import Evaluation, EvaluationPlan
from equipoise.evaluation.measures import History, Measurement, Records, Sample
from equipoise.judges.base import Judge
from equipoise.prompts.base import Prompts
from equipoise.serve.engine import Refused
from equipoise.types import Judgement, Match, Message, Move, PlayerId, Prompt, Turn, View, user
from tests.environments.assistance import test_steering_engine as engines
from tests.environments.red_team import test_red_teaming as red_team

REPLIES = (
    "19",
    "It is 19.",
    "Plus what?",
    "19. Anything else?",
    "The vet can show you.",
    world.REFUSAL,
    f"{world.REFUSAL} The vet can help.",
    "",
)
JUDGES = (ClerkJudge(), ClerkGuard(), ClerkAssistanceJudge())


def test_the_clerks_world(as_recorded):
    texts = []
    for part in ("train", "held_out", "test"):
        for prompt in world.prompts(3, 8, part=part):
            rows = [[reply, *(judge.score(prompt, reply) for judge in JUDGES)] for reply in REPLIES]
            wish = assistance_case.wish(prompt)
            texts.append(shown([msgspec.to_builtins(prompt), wish, rows]))
    texts += [shown(msgspec.to_builtins(each)) for each in disguises.prompts(3, 10, "held_out")]
    texts += [f"{judge.kind} {judge.score_range} {judge.known_utilities}" for judge in JUDGES]
    other = Prompt("x", (user("What is love?"),), {"answer": "4"})
    texts.append(shown([judge.score(other, "4") for judge in JUDGES]))
    as_recorded("worlds/clerk.txt", "\n\n".join(texts))


def test_the_clerks_assistants(as_recorded):
    """Teachers, and clerks of each fault, on a question of each kind."""
    texts = []
    kinds = {prompt.facts["kind"]: prompt for prompt in world.prompts(5, 12)}
    names = [field.name for field in fields(assistance_players.Faults) if field.name != "equal"]
    for seed, (kind, prompt) in enumerate(sorted(kinds.items())):
        said = {"teacher": assistance_players.teacher(View(prompt.messages), seed)}
        for name in names:
            faults = assistance_players.Faults(**{name: 1.0})
            said[name] = assistance_players.trace(prompt, seeds.generator(seed, name), faults)
        texts.append(f"{kind}: {prompt.messages[-1].content}\n{shown(said)}")
    views = (
        (View((user("Wish: to add"),)), 1),
        (View((user("Wish: to add\nVague: to do"),)), 1),
        (View((user("Wish: to add\nVague: to do"),)), 2),
        (View((user("Wish: to add"),), ("DQ", "VQ")), 3),
        (View((user("Wish: to add\nAssistant: What?"),)), 1),
        (View((user("Wish: to add\nTold: two\nAssistant: What?"),)), 1),
    )
    texts += [assistance_players.customer(*each) for each in views]
    as_recorded("worlds/clerks_players.txt", "\n\n".join(texts))


def test_deals_and_moves(as_recorded):
    source = Deals(count=3, held_out=2, test=2).load()
    parts = [source.training, source.held_out, source.test]
    as_recorded("worlds/deals.txt", shown([msgspec.to_builtins(part) for part in parts]))
    assert legal_index(" BET! ", ["pass", "bet"]) == 1
    assert legal_index("raise", ["pass", "bet"]) is legal_index(None, ["pass"]) is None


@pytest.mark.parametrize("kind", ["clerk_questions", "clerk_requests"])
def test_prompts_of_the_clerks_world(kind, as_recorded):
    settings = {"kind": kind, "count": 6, "held_out": 4, "test": 2, "seed": 1}
    source = Prompts.build(settings).load()
    parts = [source.training, source.held_out, source.test]
    as_recorded(f"worlds/{kind}.txt", shown([msgspec.to_builtins(part) for part in parts]))


def test_what_the_numbers_of_every_evaluation_are_called(as_recorded):
    texts = []
    for kind in sorted(Evaluation.packaged_kinds()):
        evaluation = Evaluation.find(kind)
        for row in evaluation.measures.quantities:
            values = {each.name: getattr(row, each.name) for each in fields(row)}
            if not isinstance(row.read, str):
                values["read"] = "by a function"
            texts.append(f"{kind}\n{shown(values)}")
    as_recorded("measured/quantities.txt", "\n\n".join(texts))


# -- red teaming


def test_red_teaming_is_planned_as_it_is_played(as_recorded):
    """With and without an adversary, of several ages, transfer and cross-play."""
    prompts = [Prompt(f"p{n}", (user("?"),), {"harmful": n > 1}) for n in range(6)]
    guard = Judge.build({"kind": "red_team", "guard": "clerk_guard"})
    ages = [(0, 0), (1, 0), (1, 1), (2, 1)]
    rosters = [[PlayerId("red", a), PlayerId("blue", d)] for a, d in ages]
    texts = []
    for roles in ({"adversary": "red", "defender": "blue"}, {"defender": "blue"}):
        for settings in ({}, {"crossplay": 3}, {"crossplay": 64, "transfer": ("guest",)}):
            evaluation = RedTeaming(**{"crossplay": 0, **settings})
            plan = EvaluationPlan(
                RedTeam(rounds=2), rosters, [PlayerId("guest")], roles, prompts, [], lambda _: guard
            )
            work = evaluation.planned(plan)
            judged = [(judge.kind, *counts) for judge, *counts in work.judged]
            texts.append(f"{roles} {settings}\n  {work.matches} {work.moves} {judged}")
    as_recorded("measured/red_teaming_plans.txt", "\n".join(texts))


def test_red_teaming_is_measured_and_shown(as_recorded):
    measured = []
    for t in (0, 1, 2):
        arena = red_team.arena(red_team.in_turn)
        measured.append(
            Measurement(t, RedTeaming(crossplay=6, transfer=("guest",)).measure(arena, t))
        )
    kind = type(measured[0].measures)
    history = History(("red", "blue"), tuple(measured), RedTeam(), roles=red_team.ROLES)
    alone = History(("red",), tuple(measured), RedTeam(), roles=red_team.ROLES)
    last = measured[-1].measures
    parts = [
        *(each.measures.facts({}) for each in measured),
        last.tracked(2),
        *kind.headlines(history),
        *kind.changes(history),
        *kind.changes(alone),
        list(kind.warnings(history, Records())),
        *kind.sections(history, Records(sample=Sample(total=3))),
        *kind.sections(History(("red",), (), RedTeam()), Records()),
    ]
    as_recorded("measured/red_teaming.txt", "\n\n".join(map(shown, parts)))


def test_a_prompt_is_harmful_by_its_fact():
    def of(facts):
        return harmful(Prompt("p", (user("?"),), facts))

    assert of({})
    assert of({"harmful": True})
    assert not of({"harmful": False})
    with pytest.raises(DataError, match="'harmful' is 'yes', not true or false"):
        of({"harmful": "yes"})


# -- the assistant


class Assistants:
    """An arena of an assistant whose worth to both sides is given, by age and prompt."""

    game, utility = Assistance(text="none"), "score"

    def __init__(self):
        facts = [{"ambiguous": n > 1} for n in range(4)]
        self.held_out = [Prompt(f"p{n}", (user(f"{n}?"),), of, "set") for n, of in enumerate(facts)]

    def players_by_role(self, t):
        return {"assistant": PlayerId("a", t)}

    def past(self, player):
        return [PlayerId("a", t) for t in range(player.generation, -1, -1)]

    def others(self):
        return []

    def judge_of(self, player):
        return Judge.build("clerk")

    def play(self, roles, prompts, judge, t, label, temperature):
        return [self._judged(roles, prompt, n) for n, prompt in enumerate(prompts)]

    def _judged(self, roles, prompt, n):
        age = roles["assistant"].generation
        user_worth = 0.5 + 0.25 * (age == 0 and n % 4 in (1, 2)) + 0.1 * age
        action = ACTIONS[(n + age) % 3]
        utilities = {
            **{name: float(name == action) for name in ACTIONS},
            "vague": float(n % 4 > 1),
            "user": user_worth,
            "llm": 0.5 + 0.1 * (n % 4 == 2) * age,
            "score": user_worth / 2,
            "quality_llm": 0.25 * (n % 4),
            "format": 1.0,
            "readable": float(n != 3),
        }
        move = Move(f"<response>{'word ' * (n + 1)}</response>", token_ids=tuple(range(5 + n)))
        turn = Turn("assistant", View(prompt.messages), move)
        match = Match(f"m{n}", 0, "held_out", "assistance", prompt.id, dict(roles), n, (turn,))
        return match, Judgement(match.id, match.id, "judge", {"assistant": utilities})


def test_an_assistant_is_measured_beside_its_past(as_recorded):
    records = [AssistanceEvaluation(samples=2).measure(Assistants(), t) for t in (0, 1, 2)]
    assert records[1].beaten == {"a@0": 0.25}
    as_recorded("measured/assistant.txt", "\n\n".join(shown(each.facts({})) for each in records))


def test_a_question_is_vague_by_its_move_or_its_facts():
    forms = {"detailed": "What is 7 + 12?", "vague": "What is 7 plus?"}
    prompt = Prompt("p", (user("?"),), forms)

    def opened(text, facts=forms):
        view = View((user("?"),))
        turns = (Turn("user", view, Move(text)),)
        seats = {"user": PlayerId("u"), "assistant": PlayerId("a")}
        match = Match("m", 0, "train", "assistance", "p", seats, 0, turns)
        return is_vague(Prompt("p", (user("?"),), facts), match)

    said = ["DQ", "VQ ", *forms.values(), "other"]
    assert [opened(text) for text in said] == [False, True, False, True, None]
    assert [is_vague(Prompt("p", (), {"ambiguous": x})) for x in (True, False)] == [True, False]
    assert [is_vague(Prompt("p", (), {"kind": x})) for x in ("vague", "sum")] == [True, False]
    assert is_vague(Prompt("p", ())) is None
    assert [opening_question(move, prompt) for move in ("DQ", "VQ", "Hm?")] == [
        *forms.values(),
        "Hm?",
    ]
    assert opening_question("VQ", Prompt("p", (user("wish"),))) == "VQ"


@pytest.mark.parametrize(
    ("response", "action"),
    [("It is 4.", "DA"), ("Which one?", "CQ"), ("It is 4. Is that so?", "AQ")],
)
def test_a_response_answers_or_asks(response, action):
    assert response_action(response) == action


def test_questions_for_the_meaning_and_answers_for_several():
    assert asks_about("Do you mean the upper lake?", "How deep is it?")
    assert asks_about("Lakes of which land?", "How deep is the lake?")
    assert not asks_about("Is that all?", "How deep is the lake?")
    assert not asks_about("The lake is deep.", "How deep is the lake?")
    both = "Meaning 0: a; Answer 0: ten miles; Answer 1: twenty"
    assert gives_several("Ten miles, or else twenty.", both)
    assert not gives_several("Ten miles.", both)
    assert not gives_several("Twenty.", both)
    assert gives_several("If you mean the upper one, 4; alternatively 5.")
    assert not gives_several("If you mean the upper one, 4.")


# -- steering


@pytest.mark.long
@pytest.mark.parametrize("mode", ["prefix", "reask", "strip"])
def test_every_token_that_is_left_is_used(mode):
    whole = sum(piece.tokens for piece in engines.answered(engines.Scripted(), _steered(mode)))
    for most in range(1, whole + 2):
        request = engines.replace(engines.QUESTION, max_tokens=most)
        pieces = engines.answered(engines.Scripted(), _steered(mode), request)
        assert sum(piece.tokens for piece in pieces) == min(most, whole)
        assert pieces[-1].finish == ("stop" if most >= whole else "length")


def _steered(mode):
    return Steering.model_validate({"mode": mode, "pricing": "subscription"})


def test_both_instructions_of_steering_are_read_before_anything_is_asked(tmp_path):
    Steering().check()
    (tmp_path / "again.txt").write_text("Choose {{ move }}.")
    with pytest.raises(DataError, match=r"steering\.again.*question"):
        Steering(again=str(tmp_path / "again.txt")).check()
    (tmp_path / "text.txt").write_text("Write blocks.")
    with pytest.raises(DataError, match=r"game\.text.*question"):
        Steering(text=str(tmp_path / "text.txt")).check()


def test_a_pay_off_beyond_the_largest_is_not_steered_by():
    written = dict.fromkeys(engines.MATRIX, engines.Cell(1.0, 1.0))
    for value, steered in ((LARGEST, True), (np.nextafter(LARGEST, np.inf), False)):
        for sign in (1, -1):
            matrix = {**written, "DQ_DA": engines.Cell(sign * value, 0.0)}
            assert (Steering().choose(matrix, None, 1) is not None) is steered
    assert LARGEST == 1_000_000
    with pytest.raises(Refused, match="too large or too small"):
        client_steering({"pricing": {"kind": "costs", "llm": {"DA": 1_000_001}}}, Steering())


def test_a_fault_of_a_client_is_told_in_at_most_300_characters():
    name = "x" * 400
    with pytest.raises(Refused) as raised:
        client_steering({"pricing": {"kind": "costs", "llm": {name: 1.0}}}, Steering())
    told = str(raised.value)
    assert told.startswith("steering.pricing")
    assert len(told) == len("steering.") + 300


def test_the_instruction_stands_in_place_of_the_last_message():
    engine = engines.Scripted()
    shown_chat = (Message("system", "be brief"), user("What is 7 + 12?"))
    engines.answered(engine, Steering.model_validate({"mode": "strip"}))
    assert [each.messages for each in engine.asked] == [shown_chat]
    counted = asyncio.run(
        engines.SteeringEngine(engine, Steering.model_validate({"text": "assistance"})).count(
            shown_chat
        )
    )
    instruction = Assistance().instruction(shown_chat[1].content)
    assert counted == len("be brief") + len(instruction)
