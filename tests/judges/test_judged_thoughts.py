"""Judges are given answers: thoughts and channels are no part of what they score or quote."""

from typing import Any

import pytest

import equipoise.trl
from equipoise.answer import PARTED, UNFINISHED
from equipoise.environments.assistance.game import Assistance
from equipoise.games.answers import Answers
from equipoise.games.base import Ask, Referee
from equipoise.judges.base import Judge, JudgeContext
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.models.resources import Resources
from equipoise.players.scripted import Scripted
from equipoise.types import Match, Message, Move, PlayerId, Prompt, Turn, View, user

TEN = "<think>\nA guess would be \\boxed{9}. But four and six make 10.\n</think>\n\nIt is 10."
CHOICES = {"A": "Paris", "B": "London", "C": "Rome", "D": "Berlin"}
ROME = "<think>\nFirst I thought the answer is A. No.\n</think>\n\nC. Rome"
HARMONY = (
    "<|channel|>analysis<|message|>\\boxed{9}<|end|><|start|>assistant<|channel|>final<|message|>"
)


@pytest.mark.parametrize(
    ("judge", "facts", "answer", "score"),
    [
        ("math", {"answer": "10"}, TEN, 1.0),
        ("math", {"answer": "9"}, TEN, 0.0),
        ("math", {"answer": "10"}, f"{HARMONY}It is 10.", 1.0),
        ("math", {"answer": "10"}, "[THINK]\\boxed{9}[/THINK]It is 10.", 1.0),
        ("math", {"answer": "10"}, "Or \\boxed{9}?\n</think>\n\nIt is 10.", 1.0),
        ("math", {"answer": "10"}, "<think>\nIt could be 10, so \\boxed{10}", None),
        ("choice", {"answer": "C", "choices": CHOICES}, ROME, 1.0),
        ("choice", {"answer": "A", "choices": CHOICES}, ROME, 0.0),
        ("choice", {"answer": "A", "choices": CHOICES}, "<think>\nThe answer is A, or", None),
        ("exact", {"answer": "rome"}, "<think>\nItaly.\n</think>\n\nRome", 1.0),
        ("exact", {"answer": "rome"}, "<think>\nRome", None),
        ("refusal", {"harmful": False}, "<think>\nI cannot help.\n</think>\nOpen the box.", 1.0),
        ("shorter", {}, "<think>\nA long thought.\n</think>\n\nfour", -4.0),
        ("repetition", {}, f"<think>\n{'no ' * 50}\n</think>\n\nA b c d e f g h.", 1.0),
        ("gold", {"answer": "10"}, TEN, 1.0),
    ],
)
def test_rules_score_the_answer(judge: str, facts: dict, answer: str, score: Any) -> None:
    said = []
    reward = equipoise.trl.reward(judge, say=said.append)
    columns = {name: [value] for name, value in facts.items()}
    assert reward(prompts=["q"], completions=[answer], **columns) == [score]
    assert (UNFINISHED in "".join(said)) == (score is None)


def of_match(*moves: Move) -> Match:
    view = View((user("q"),))
    seats = {str(n): PlayerId("p") for n, _ in enumerate(moves, 1)}
    turns = tuple(Turn(seat, view, move) for seat, move in zip(seats, moves, strict=True))
    return Match("m", 0, "train", "answers", "p", seats, 1, turns)


class Quoting:
    """Keeps what the judging model is asked, and answers alike."""

    def __init__(self, reply: Move) -> None:
        self.reply, self.asked = reply, []

    def act(self, views, seeds):
        self.asked += [view.messages[-1].content for view in views]
        return [self.reply for _ in views]

    def close(self) -> None: ...


def judged(settings: dict, match: Match, reply: Move, game=None):
    actor = Quoting(reply)
    judge = Judge.model_validate(settings)
    context = JudgeContext(game or Answers(samples=2), 0, [], {}, Resources(), lambda _: actor)
    prompt = Prompt("p", (user("q"),))
    (judgement,) = judge.at(context).checked_judgements([match], {"p": prompt})
    return judgement, actor.asked


MODEL = {"kind": "scripted", "text": "-"}


@pytest.mark.parametrize("kind", ["rubric", "pairwise"])
def test_models_are_shown_answers_alone(kind: str) -> None:
    match = of_match(Move("<think>\nsecret\n</think>\n\nTen."), Move("Eleven."))
    settings = {"kind": kind, "model": MODEL}
    _, asked = judged(settings, match, Move("-"))
    assert asked
    assert not any("secret" in question for question in asked)
    assert any("Ten." in question for question in asked)


def test_a_judges_own_thoughts_are_no_verdict_and_an_endless_one_is_unreadable() -> None:
    settings = {"kind": "rubric", "model": MODEL, "text": "rubric_compact", "verdict": "reply"}
    match = of_match(Move("Ten."))
    judgement, _ = judged(settings, match, Move("<think>\nScore: 9\n</think>\n\nScore: 3"))
    assert judgement.score("1", "score") == 3.0
    judgement, _ = judged(settings, match, Move("<think>\nScore: 9", "length"))
    assert judgement.scores is None
    assert UNFINISHED in judgement.votes[0].reason


def test_a_match_of_which_nobody_thought_is_judged_as_it_is() -> None:
    from equipoise.answer import public_match

    plain = of_match(Move("Ten."), Move("Use `<think>`."))
    assert public_match(plain) is plain
    parted = public_match(of_match(Move(TEN, token_ids=(1, 2))))
    (turn,) = parted.turns
    assert (turn.move.text, turn.move.marks) == ("It is 10.", PARTED)
    assert turn.move.thoughts.startswith("A guess")
    assert turn.move.token_ids == (1, 2)
    assert public_match(parted) == parted


class Repeats(Answers):
    """The first seat answers; the second is shown what it said."""

    @property
    def raw_moves(self) -> bool:
        return self.samples == 3

    def referee(self, prompt: Prompt) -> Referee:
        first = yield Ask("1", View(prompt.messages))
        assert isinstance(first, Move)
        heard = Message("assistant", first.text)
        yield Ask("2", View((*prompt.messages, heard, user("and you?"))))


@pytest.mark.parametrize(("samples", "heard"), [(2, "It is 10."), (3, TEN)])
def test_other_seats_see_answers_unless_the_game_reads_whole_moves(samples, heard) -> None:
    game = Repeats.model_validate({"samples": samples})
    prompt = Prompt("p", (user("q"),))
    seats = {"1": PlayerId("a"), "2": PlayerId("a"), "3": PlayerId("a")}
    actor = Scripted.model_validate({"text": TEN}).open(None, Resources())
    (match,) = play(
        [Planned("m", 0, "train", prompt, seats, 1)],
        game,
        lambda player, views, dice: actor.act(views, dice),
    )
    assert match.turns[1].view.messages[1].content == heard
    assert match.turns[0].move.text == TEN  # recorded whole


def test_games_with_blocks_of_their_own_read_whole_moves() -> None:
    assert Assistance.model_validate({}).raw_moves
    assert not Assistance.model_validate({"blocks": False}).raw_moves
