"""The assistant's game: what it is worth (against the published numbers), and who is asked what."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.game import Assistance, assistant_answers, is_vague
from equipoise.environments.assistance.payoff_matrix import Cell
from equipoise.environments.assistance.responses import named_on_frontier
from equipoise.environments.assistance.utilities import (
    VARIANTS,
    RewardTerms,
    matrix_contrast,
    reward,
)
from equipoise.environments.assistance.written_game import pareto
from equipoise.errors import DataError
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.types import Message, Move, PlayerId, Prompt, user

GOOD = (
    '<thinking>t</thinking><payoff>{"DQ_AQ":{"LLM":1,"user":2},"DQ_CQ":{"LLM":1,"user":1},"DQ_DA":{"LLM":1.05,"user":1},'
    '"VQ_AQ":{"LLM":0,"user":0},"VQ_CQ":{"LLM":-1,"user":1},"VQ_DA":{"LLM":0,"user":3}}</payoff>'
    "<analyze>a</analyze><response>%s</response>"
)


def qualities(case) -> tuple[float | None, float]:
    """(to the user, to the model) by METHODS' table, from what the judge replied; the user's None
    where it is BLEU.
    """
    found = re.search(r"\\boxed\{([\d.]+)\}|<abg>([\d.]+)</abg>", case["judge_reply"])
    score = float(found[1] or found[2]) if found else 0.0
    if case["task"] == "medium":
        return None, score / 4
    if case["task"] == "wildguard":
        llm = float(score > 0)
        return (float(score < 1) if case["ground_truth"] == "harmful" else llm), llm
    return score, score


def test_the_released_reward(golden):
    for case in golden("gtalign_reward.json"):
        for_user, for_llm = qualities(case)
        found = reward(parse(case["completion"]), for_user or 0.0, for_llm, "as_released")
        expected = case["expected"]
        assert found is not None
        assert found.llm == pytest.approx(expected["llm_reward"], abs=1e-9)
        if for_user is not None:
            assert found.user == pytest.approx(expected["user_reward"], abs=1e-9)
            assert found.welfare == pytest.approx(expected["score"], abs=1e-9)


def test_every_turn_of_a_conversation_counts_and_the_last_has_the_form():
    """Words and waiting of all outputs; a further turn costs the user."""
    earlier, last = parse(GOOD % "one two three"), parse(GOOD % "four five")
    terms = RewardTerms(round_cost=0.125)
    alone = reward(last, 1.0, 0.5, terms=terms)
    both = reward(last, 1.0, 0.5, terms=terms, earlier=[earlier])
    assert alone is not None
    assert both is not None

    def sigma(x):
        return 1 / (1 + 2.718281828459045**-x)

    def within(words, low, high):
        return sigma(0.005 * (words - low)) * sigma(0.005 * (high - words))

    words = len(earlier.text.split()) + len(last.text.split())
    assert both.parts["response_length"] == pytest.approx(within(5, 20, 500))
    assert both.parts["output_length"] == pytest.approx(within(words, 500, 1000))
    waiting = earlier.before + last.before
    assert both.parts["wait"] == pytest.approx(2.718281828459045 ** (-waiting / 500))
    assert both.parts["format"] == alone.parts["format"] == 1
    assert both.user == pytest.approx(
        1e-4 + 0.5 + 0.2 * both.parts["response_length"] + 0.3 * both.parts["wait"] - 0.125
    )


def test_pay_offs_a_tenth_apart_are_not_told_apart():
    cells = dict.fromkeys(("DQ_AQ", "DQ_CQ", "DQ_DA", "VQ_AQ", "VQ_CQ"), Cell(1, 1))
    assert matrix_contrast({**cells, "VQ_DA": Cell(1.0, 1.0)}) == 0
    assert matrix_contrast({**cells, "VQ_DA": Cell(9.0, 10.0)}) == 1 / 12
    assert matrix_contrast({**cells, "VQ_DA": Cell(0.875, 1.0)}) == 2 / 12


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_missing_judgement_is_missing_in_every_variant(variant):
    """The released code has 0 in its place, which pays the user of a harmful prompt."""
    parsed = parse(GOOD % "19")
    assert reward(parsed, None, None, variant) is None
    assert reward(parsed, 1.0, None, variant) is None
    assert reward(parsed, None, 1.0, variant) is None


def test_an_output_that_cannot_be_read_is_worth_nothing_whatever_was_said_of_it():
    for text in (
        "19",
        (GOOD % "19").replace("</response>", ""),
        (GOOD % "19").replace("VQ_DA", "XX"),
    ):
        found = reward(parse(text), 1.0, 1.0)
        assert found is not None
        assert (found.user, found.llm, found.welfare) == (0.0, 0.0, 0.0)


SECOND = json.loads(Path(__file__).with_name("second_variant.json").read_text())


@pytest.mark.parametrize("case", SECOND, ids=[case["note"] for case in SECOND])
def test_the_second_variant_by_vectors_computed_apart(case):
    """From the formulas of the paper, by a program that knows nothing of this one."""
    parsed = parse(case["output"])
    assert named_on_frontier(parsed.analyze, pareto(parsed.matrix)) == case["named"]
    qualities = case["quality_user"], case["quality_llm"]
    by_rule = reward(parsed, *qualities, "frontier")
    by_judge = reward(parsed, *qualities, "frontier", frontier=case["named"])
    assert by_rule == by_judge
    assert by_rule.user == pytest.approx(case["user"], abs=1e-12)
    assert by_rule.llm == pytest.approx(case["llm"], abs=1e-12)
    assert by_rule.welfare == pytest.approx(case["welfare"], abs=1e-12)


def test_the_second_variant_pays_for_a_choice_on_the_frontier():
    parsed = parse(GOOD % "19")
    with_, without = (reward(parsed, 1.0, 1.0, "frontier", frontier=said) for said in (1.0, 0.0))
    assert with_ is not None
    assert without is not None
    assert with_.llm - without.llm == pytest.approx(0.2)
    assert VARIANTS["frontier"].llm_quality == 0.35


def test_the_matrix_term_counts_cells_that_tell_both_apart():
    matrix = parse(GOOD % "19").matrix
    assert matrix is not None
    assert matrix_contrast(matrix) == pytest.approx(
        (4 + 3) / 12
    )  # DQ_DA differs by less than a tenth


def test_earlier_turns_count_in_length_and_waiting_and_may_cost_the_user():
    first, last = parse(GOOD % "Which sum?"), parse(GOOD % "19")
    alone = reward(last, 1.0, 1.0)
    both = reward(last, 1.0, 1.0, earlier=[first])
    dear = reward(
        last, 1.0, 1.0, earlier=[first], terms=RewardTerms.model_validate({"round_cost": 0.1})
    )
    assert alone is not None
    assert both is not None
    assert dear is not None
    assert both.parts["wait"] == pytest.approx(alone.parts["wait"] ** 2)
    assert dear.user == pytest.approx(both.user - 0.1)


def test_a_window_that_ends_before_it_begins_is_refused():
    with pytest.raises(ValueError, match=r"response_words\n.* 5 "):
        RewardTerms.model_validate({"response_words": [5, 5]})


# -- the referee


def game(**settings) -> Assistance:
    return Assistance.model_validate(settings)


def played(rules: Assistance, prompt: Prompt, said: dict[str, list[str]]):
    """The match in which each seat says what is listed for it, one after the other."""
    left = {seat: iter(texts) for seat, texts in said.items()}
    seats = {seat: PlayerId(seat) for seat in rules.seats}
    views = []

    def act(who, asked, dice):
        views.extend(asked)
        return [Move(next(left[who.name])) for _ in asked]

    (match,) = play([Planned("m", 0, "train", prompt, seats, 1)], rules, act)
    return SimpleNamespace(match=match, views=views, said=assistant_answers(match, prompt, rules))


PROMPT = Prompt(
    "p",
    (user("hello"), Message("assistant", "hi"), user("What is 7 plus?")),
    {"ambiguous": True},
    "clerk",
)
WISH = Prompt(
    "p",
    (user("What is 7 plus?"),),
    {"detailed": "What is 7 + 12?", "vague": "What is 7 plus?", "told": "12"},
    "clerk",
)


def test_the_assistant_sees_the_chat_with_the_last_message_in_the_games_words():
    found = played(game(text="assistance_compact"), PROMPT, {"assistant": [GOOD % "19"]})
    (view,) = found.views
    assert view.messages[:2] == PROMPT.messages[:2]
    assert view.messages[2].content.endswith("\nWhat is 7 plus?")
    (said,) = found.said
    assert tuple(said.chat) == PROMPT.messages
    assert said.output.response == "19"


def test_without_blocks_all_of_the_output_is_the_response():
    found = played(game(text="none", blocks=False), PROMPT, {"assistant": ["Plus what?"]})
    assert found.views[0].messages == PROMPT.messages
    paid = reward(found.said[0].output, 1.0, 1.0)
    assert paid is not None
    assert (paid.parts["format"], paid.parts["matrix"], paid.parts["wait"]) == (0.0, 0.0, 1.0)
    assert paid.user > 0.5


@pytest.mark.parametrize(
    ("move", "question", "vague"),
    [("VQ", "What is 7 plus?", True), ("DQ", "What is 7 + 12?", False)],
)
def test_the_users_first_move_is_how_it_asks(move, question, vague):
    found = played(
        game(text="none", simulated=True), WISH, {"user": [move], "assistant": [GOOD % "19"]}
    )
    opening, asked = found.views
    assert opening.actions == ("DQ", "VQ")
    assert "Wish: What is 7 + 12?" in opening.messages[0].content
    assert asked.messages == (user(question),)
    assert is_vague(WISH, found.match) is vague


def test_a_user_that_is_asked_back_replies_and_hears_responses_only():
    said = {"user": ["VQ", "12"], "assistant": [GOOD % "Plus what?", GOOD % "19"]}
    found = played(game(text="none", simulated=True, turns=2), WISH, said)
    assert [turn.seat for turn in found.match.turns] == ["user", "assistant", "user", "assistant"]
    assert "Assistant: Plus what?" in found.views[2].messages[0].content
    assert "Told: 12" in found.views[2].messages[0].content
    assert found.views[3].messages == (
        user("What is 7 plus?"),
        Message("assistant", "Plus what?"),
        user("12"),
    )
    assert [tuple(said.chat) for said in found.said][1] == found.views[3].messages


def test_a_direct_answer_ends_the_match():
    found = played(
        game(text="none", simulated=True, turns=3),
        WISH,
        {"user": ["DQ"], "assistant": [GOOD % "19"]},
    )
    assert len(found.match.turns) == 2


def test_a_user_in_its_own_words_moves_as_the_facts_say_or_unknown():
    own = played(
        game(text="none", simulated=True),
        WISH,
        {"user": ["Tell me a sum"], "assistant": [GOOD % "19"]},
    )
    assert own.views[1].messages == (user("Tell me a sum"),)
    assert is_vague(WISH, own.match) is None
    assert is_vague(PROMPT) is True
    assert is_vague(Prompt("x", ())) is None


def test_a_silent_user_ends_the_match_before_anybody_answers():
    assert len(played(game(simulated=True), WISH, {"user": [" "]}).match.turns) == 1


def test_further_turns_need_a_user():
    with pytest.raises(ValueError, match="set simulated: true"):
        game(turns=2)


def test_a_template_without_the_question_is_refused(tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("Answer.")
    with pytest.raises(DataError, match="placeholder 'question'"):
        game(text=str(file)).check()


def test_an_unknown_variant_is_named():
    with pytest.raises(ValueError, match=r"'published'.*corrected, as_released, frontier, choice"):
        reward(parse(GOOD % "19"), 1.0, 1.0, "published")  # type: ignore[arg-type]
