"""Questions that a proposer writes: who is asked, who is paid what, and the pool that grows."""

import json
import re

import pytest
from judged_matches import PROMPT, placed, played, scores

from equipoise.environments.verdicts.challenge import Challenge
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.matches.roles import Roles
from equipoise.runs.directory import RunDirectory
from equipoise.types import Move, Prompt

BLANK = Prompt("b", (), {"number": 7, "answer": "4"}, "blank")
GAME = Challenge()
RULE = {"kind": "challenge", "answers": "exact"}
MAJORITY = {"kind": "challenge"}
PAIRWISE = {"kind": "pairwise", "model": {"kind": "scripted", "text": "A"}}


def answers(*texts):
    return {f"answer {n}": text for n, text in enumerate(texts, 1)}


def test_the_proposer_s_question_is_what_is_answered():
    match = played(GAME, {"proposer": " What is 2 + 2? ", **answers(*"4544")}, BLANK)
    assert "Write question 7 of" in match.turns[0].view.messages[0].content
    assert {turn.view.messages[0].content for turn in match.turns[1:]} == {"What is 2 + 2?"}
    assert GAME.roles == ("proposer", "answer")
    assert [turn.seat for turn in played(GAME, {}, PROMPT).turns] == list(GAME.answer_seats)


@pytest.mark.parametrize(
    ("texts", "right", "paid"), [("4444", 1, 0), ("4445", 0.75, 0.5), ("4455", 0.5, 1)]
)
def test_a_question_is_worth_most_where_half_of_the_answers_are_right(texts, right, paid):
    judgement = scores(GAME, {"proposer": "2 + 2?", **answers(*texts)}, RULE, BLANK)
    assert judgement.utilities("proposer") == {"score": paid, "right": right, "vetoed": 0}
    assert [judgement.score(seat, "score") for seat in GAME.answer_seats] == [
        float(text == "4") for text in texts
    ]


def test_without_a_rule_the_majority_is_right_however_it_is_spelt():
    judgement = scores(
        GAME, {"proposer": "?", **answers("Yes.", "no", "yes", "YES")}, MAJORITY, BLANK
    )
    assert judgement.by_seat("right") == {"proposer": 0.75}
    assert judgement.score("answer 2", "score") == 0
    split = scores(GAME, {"proposer": "?", **answers("a", "b", "c", "d")}, MAJORITY, BLANK)
    assert split.by_seat("score") == {
        "proposer": 0.5, "answer 1": 1, "answer 2": 0, "answer 3": 0, "answer 4": 0
    }  # fmt: skip


def test_what_cannot_be_judged_is_paid_nobody_and_a_failed_answer_is_left_out():
    unknown = Prompt("b", (), {"number": 1})
    judgement = scores(GAME, {"proposer": "?", **answers(*"4444")}, RULE, unknown)
    assert (judgement.scores, judgement.reason) == (None, "the prompt has no fact 'answer'")
    failed = Move("", "error", error="no memory")
    judgement = scores(GAME, {"proposer": "?", **answers("4", "4", "5", failed)}, RULE, BLANK)
    assert judgement.score("proposer", "right") == pytest.approx(2 / 3)
    assert judgement.score("answer 4", "score") is None
    judgement = scores(GAME, {"proposer": failed}, RULE, BLANK)
    assert (judgement.scores, judgement.reason) == (None, "the move failed: no memory")


def test_a_blank_question_is_answered_by_nobody_and_paid_nothing():
    match = played(GAME, {"proposer": "  "}, BLANK)
    judge = placed(GAME, RULE)
    assert list(judge.judged_seats(match)) == ["proposer"]
    assert judge.judge([match], {"b": BLANK})[0].by_seat("score") == {"proposer": 0}


# -- the guide

GUIDED = Challenge(guide=True, answers=2)


def guide(grade):
    def says(view):
        code = re.search(r"code (\w{10})", view.messages[0].content)[1]
        return json.dumps({"reason": "?", "score": grade, "code": code})

    return says


def test_a_vetoed_question_is_not_answered_and_what_cannot_be_read_vetoes_nothing():
    moves = {"proposer": "Say 1.", **answers("4", "5")}
    vetoed = scores(GUIDED, {**moves, "guide": guide(4)}, RULE, BLANK)
    assert vetoed.scores == {"proposer": {"score": 0, "vetoed": 1}}
    assert (vetoed.votes[0].by, vetoed.votes[0].seat, vetoed.votes[0].value) == (
        "guide@0", "proposer", 3 / 9
    )  # fmt: skip
    for word in (guide(5), "1", '{"score": 1, "code": "0123456789"}'):
        passed = scores(GUIDED, {**moves, "guide": word}, RULE, BLANK)
        assert passed.by_seat("score") == {"proposer": 1, "answer 1": 1, "answer 2": 0}
    assert GUIDED.roles == ("proposer", "guide", "answer")
    judge = placed(GUIDED, {**RULE, "answers": {**PAIRWISE, "kind": "rubric", "low": 0, "high": 1}})
    assert judge.questions(len(GAME.answer_seats) + 1, 1) == len(GAME.answer_seats)
    assert "guide" not in judge.judged_seats(played(GUIDED, {**moves, "guide": guide(9)}, BLANK))


@pytest.mark.parametrize("scale", [{"least": 1}, {"least": 11}, {"low": 0, "high": 1}])
def test_a_guide_can_veto_some_questions_and_not_all(scale):
    with pytest.raises(ValueError, match=r"least: .* vetoes every question or none"):
        Challenge(guide=True, **scale)
    Challenge(**scale)  # nobody reads it
    Challenge(guide=True, least=10)


def test_the_gate_leaks_the_share_that_it_is_set_to():
    blanks = [Prompt(f"b{n}", (), {"number": n, "answer": "4"}, "blank") for n in range(400)]
    strict, leaky, off = (
        Challenge(guide=True, answers=2, leak=share) for share in (0.0, 0.25, 1.0)
    )
    shares = []
    for game in (strict, leaky, off):
        asked = [game.leaks(blank, "Say 1.") for blank in blanks]
        assert asked == [game.leaks(blank, "Say 1.") for blank in blanks], "dice are the question's"
        shares.append(sum(asked) / len(asked))
    assert shares[0] == 0 and shares[2] == 1
    assert 0.18 < shares[1] < 0.32
    assert any(leaky.leaks(blank, "Say 1.") != leaky.leaks(blank, "Say 2.") for blank in blanks)


def test_a_question_that_leaked_is_answered_paid_and_told_apart():
    moves = {"proposer": "Say 1.", **answers("4", "5")}
    off = Challenge(guide=True, answers=2, leak=1.0)
    leaked = scores(off, {**moves, "guide": guide(4)}, RULE, BLANK)
    assert leaked.utilities("proposer") == {"score": 1, "right": 0.5, "vetoed": 0, "leaked": 1}
    passed = scores(off, {**moves, "guide": guide(5)}, RULE, BLANK)
    assert passed.utilities("proposer") == {"score": 1, "right": 0.5, "vetoed": 0, "leaked": 0}
    with pytest.raises(ValueError, match="leak: is read with a guide alone"):
        Challenge(leak=0.1)


# -- the pool


def test_the_pool_is_of_the_questions_that_were_worth_something_asked_again_as_they_were():
    judge = placed(GAME, RULE)
    pool = []
    for texts in ("4444", "4555", "5555"):
        match = played(GAME, {"proposer": f" Like {texts}? ", **answers(*texts)}, BLANK)
        pool += GAME.successful_texts(match, judge.judge([match], {"b": BLANK}))
    assert pool == ["Like 4555?"]
    again = GAME.give_text(BLANK, pool[0])
    assert again.messages[0].content == "Like 4555?"
    assert again.facts["number"] == 7
    assert not GAME.rewritable(again)
    assert GAME.seats_for(again) == GAME.answer_seats
    with pytest.raises(ConfigError, match="raw: 0"):
        Roles(roles={"proposer": "a", "answer": "b"}, raw=0.1).check(GAME, ["a", "b"])


@pytest.mark.parametrize("given", ["shorter", PAIRWISE, "judged_matches:ten"], ids=str)
def test_scores_must_be_shares_and_the_judge_has_its_game(given):
    """A function's are known when it has judged; half of those who are compared are right."""
    with pytest.raises(ConfigError, match="between 0 and 1"):
        scores(GAME, {"proposer": "?", **answers(*"4444")}, {**RULE, "answers": given}, BLANK)
    with pytest.raises(ConfigError, match="judges the game challenge"):
        placed(Answers(), RULE)


RECIPE = """
generations: 3
players:
  proposer: {kind: local, model: builtin, learns: true, max_new_tokens: 8, max_length: 128}
  solver: {kind: local, model: builtin, learns: true, max_new_tokens: 4, max_length: 128}
prompts: {kind: blank, per_generation: 6, held_out: 2}
game: {kind: "challenge"}
schedule: {kind: roles, roles: {proposer: proposer, answer: solver}, replay: 0.5}
judge: {kind: "challenge"}
shaping: [{kind: self_bleu, weight: 0.1}]
learner: {kind: policy_gradient, batch_size: 2, warmup_steps: 0}
evaluate: at_table
"""


@pytest.mark.long
def test_a_resumed_run_asks_the_same_questions_again(command, tmp_path):
    (tmp_path / "challenge.yaml").write_text(RECIPE)
    assert command("run", "challenge.yaml", "--out", "whole").code == 0
    first = command("run", "challenge.yaml", "-s", "generations=1", "--out", "run", "--json")
    assert first.code == 0, first.err
    assert command("resume", "run", "-s", "generations=3").code == 0
    asked = []
    for name in ("whole", "run"):
        with RunDirectory.open(tmp_path / name) as run:
            last = list(run.ledger.matches("train", 2))
        asked.append([match.prompt for match in last])
        assert {len(match.seats) for match in last} == {4, 5}  # given again, and new
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("texts", "paid"), [((" ", "...", "", "."), "0000"), ((" ", "...", "7", "7."), "0011")]
)
def test_blank_answers_are_no_majority(texts, paid):
    judgement = scores(GAME, {"proposer": "3 + 4?", **answers(*texts)}, MAJORITY, BLANK)
    assert [judgement.score(seat, "score") for seat in GAME.answer_seats] == [*map(float, paid)]
