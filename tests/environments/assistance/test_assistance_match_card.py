"""How the match browser shows a match of the assistant's game."""

import assistance_run
import pytest

from equipoise.environments.assistance.game import Assistance
from equipoise.environments.assistance.measures import AssistanceMeasures, match_card
from equipoise.evaluation.measures import History
from equipoise.games.answers import Answers
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, Message, Move, PlayerId, Prompt, Turn, View


@pytest.fixture(scope="module")
def cards(recorded_folder):
    history = History(("policy",), (), Assistance())
    with RunDirectory.read(recorded_folder("assistance")) as run:
        prompts = {prompt.id: prompt for prompt in run.ledger.prompts("held_out", 0)}
        matches = run.ledger.matches("held_out", 0)
        judgements = run.ledger.judgements_of(match.id for match in matches)
    return [
        AssistanceMeasures.card(match, prompts[match.prompt], [judgements[match.id]], history)
        for match in matches
    ]


@pytest.mark.long
def test_an_answer_is_shown_block_by_block(cards):
    good, faulty, failed = cards
    assert [message.content for message in good.prompt] == [
        "Be brief.",
        "question 0",
    ]  # not the game's own words
    parts = {part.name: part for part in good.answers[0].parts}
    assert list(parts) == ["thinking", "payoff", "analyze: VQ_CQ", "response"]
    assert parts["thinking"].text == assistance_run.HOSTILE
    assert parts["response"].text == "Which of the two?"
    assert parts["payoff"].rows[0] == ("", "DA", "CQ", "AQ")
    assert parts["payoff"].rows[3] == ("VQ user", "2.5", "[2]", "1.5")
    assert len(parts["payoff"].rows) == 5
    assert good.answers[0].score == 0.5
    assert good.answers[0].note == "user 0.25, model 1, move CQ, quality model 1"
    names = [part.name for part in faulty.answers[0].parts]
    assert names == ["faults", "thinking", "payoff", "response", "the whole output"]
    assert "there is no <analyze>" in faulty.answers[0].parts[0].text
    assert faulty.answers[0].parts[2].text == "{nothing}"
    assert faulty.answers[0].note.startswith("ended by length")
    assert failed.answers[0].text == "out of memory"
    assert not failed.answers[0].parts
    assert failed.answers[0].score is None
    assert failed.reason == "the move failed"


VIEW = View((Message("user", "anything"),))
PROMPT = Prompt("p", (Message("user", "the wish"),), {"vague": "a vague wish"})


def test_a_talk_is_paid_as_a_whole():
    game, player, guest = (
        Assistance(simulated=True, turns=2),
        PlayerId("policy", 1),
        PlayerId("guest", 0),
    )
    said = (
        ("user", "VQ"),
        ("assistant", assistance_run.GOOD),
        ("user", "the first"),
        ("assistant", assistance_run.GOOD),
    )
    turns = tuple(Turn(seat, VIEW, Move(text)) for seat, text in said)
    match = Match(
        "m", 1, "train", "assistance", "p", {"assistant": player, "user": guest}, 0, turns
    )
    first = Judgement(
        "j", "m", "judge", {"assistant": {"score": 0.5, "user": 0.25}, "user": {"score": 0.25}}
    )
    other = Judgement("k", "m", "another", {"assistant": {"score": 0.75}})
    answers = match_card(match, PROMPT, game, [first, other], "score").answers
    assert [answer.score for answer in answers] == [0.25, 0.5, 0.25, 0.5]
    assert [answer.note for answer in answers] == ["", "", "", "user 0.25, another: score 0.75"]
    assert [bool(answer.parts) for answer in answers] == [False, True, False, True]


def test_an_answer_without_blocks_is_its_text():
    match = Match(
        "m",
        1,
        "train",
        "assistance",
        "p",
        {"assistant": PlayerId("policy", 1)},
        0,
        (Turn("assistant", VIEW, Move("Hi.")),),
    )
    plain = Assistance(blocks=False)
    [answer] = match_card(match, PROMPT, plain, [], "score").answers
    assert answer.text == "Hi."
    assert not answer.parts
    assert answer.score is None
    other = History(("policy",), (), Answers())
    assert AssistanceMeasures.card(match, PROMPT, [], other) is None
