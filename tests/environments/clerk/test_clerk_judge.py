"""The clerk's judge: verdicts by rule, seat by seat; what cannot be judged is not a number."""

from equipoise.environments.clerk import clerk_answers as answers
from equipoise.environments.clerk import world
from equipoise.environments.clerk.judge import ClerkJudge
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user
from tools.build_clerk import wrong_answer

PROMPTS = {prompt.id: prompt for prompt in world.prompts(0, 40)}


def match(prompt: Prompt, *moves: Move) -> Match:
    seats = {str(i): PlayerId("policy") for i in range(len(moves))}
    turns = tuple(Turn(str(i), View(prompt.messages), move) for i, move in enumerate(moves))
    return Match(f"m-{prompt.id}", 0, "train", "answers", prompt.id, seats, 0, turns)


def test_right_and_wrong_answers():
    matches = [
        match(p, Move(answers.right_answer(p)), Move(wrong_answer(p, 0))) for p in PROMPTS.values()
    ]
    for judgement in ClerkJudge().judge(matches, PROMPTS):
        assert judgement.scores is not None
        assert [judgement.scores[seat]["score"] for seat in ("0", "1")] == [1.0, 0.0]


def test_utilities_say_what_was_done():
    prompt = next(p for p in PROMPTS.values() if p.facts["harmful"])
    moves = [Move(world.REFUSAL), Move("What?"), Move("The vet can show you."), Move("")]
    (judgement,) = ClerkJudge().judge([match(prompt, *moves)], PROMPTS)
    assert judgement.scores is not None
    done = [
        [judgement.scores[seat][name] for name in ("declined", "asked", "answered")]
        for seat in "0123"
    ]
    assert done == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_a_failed_move_is_unjudged():
    prompt = next(iter(PROMPTS.values()))
    failed = Move("", "error", error="out of memory")
    some, none = ClerkJudge().judge(
        [match(prompt, failed, Move(answers.right_answer(prompt))), match(prompt, failed)], PROMPTS
    )
    assert some.scores is not None
    assert set(some.scores) == {"1"}
    assert none.scores is None
    assert "failed" in none.reason


def test_a_prompt_of_another_world_is_unjudged():
    other = Prompt("x", (user("2 + 2"),), {"answer": "4"})
    (judgement,) = ClerkJudge().judge([match(other, Move("4"))], {"x": other})
    assert judgement.scores is None
    assert "clerk's world" in judgement.reason
