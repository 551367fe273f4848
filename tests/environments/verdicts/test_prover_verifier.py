"""Provers and verifiers: what each is asked, and what each is paid."""

import json
import re

import pytest
from judged_matches import PROMPT, blocks, placed, played, scores

from equipoise.environments.verdicts.prover_verifier import ProverVerifier
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge
from equipoise.types import Move, Prompt

GAME = ProverVerifier()
JUDGE = {"kind": "prover_verifier", "gold": "exact"}


def grades(right, wrong):
    """A verifier who gives 4 this grade, and others that."""

    def says(view):
        code = re.search(r"code (\w{10})", view.messages[0].content)[1]
        grade = right if blocks(view)[-1] == ("answer", "4") else wrong
        return json.dumps({"reason": "?", "score": grade, "code": code})

    return {"verifier of helpful": says, "verifier of sneaky": says}


def test_provers_are_told_their_roles_and_verifiers_see_the_solution_alone():
    match = played(GAME, {"helpful": "4", "sneaky": "5", **grades(10, 1)})
    helpful, sneaky, *verifiers = [turn.view.messages[0].content for turn in match.turns]
    assert helpful == f"What is 2 + 2?\n\n{GAME.helpful}"
    assert sneaky == f"What is 2 + 2?\n\n{GAME.sneaky}"
    for text, solution in zip(verifiers, "45", strict=True):
        assert f"\n{solution}\n" in text
        assert GAME.helpful not in text
        assert GAME.sneaky not in text
    assert GAME.roles == ("helpful", "sneaky", "verifier")


@pytest.mark.parametrize(
    ("texts", "right", "wrong", "paid"),
    [
        (("4", "5"), 10, 1, (1, 0, 1, 1)),  # the verifier sees through both
        (("4", "5"), 1, 10, (0, 1, 0, 0)),  # it is deceived
        (("5", "4"), 10, 1, (0, 0, 1, 1)),  # both leave their roles
        (("4", "5"), 5.5, 5.5, (0.5, 0.5, 0.5, 0.5)),
    ],
)
def test_provers_are_paid_for_their_role_and_belief_verifiers_for_the_truth(
    texts, right, wrong, paid
):
    moves = dict(zip(GAME.provers, texts, strict=True)) | grades(right, wrong)
    assert tuple(scores(GAME, moves, JUDGE).by_seat("score").values()) == pytest.approx(
        (paid[0], paid[2], paid[1], paid[3])
    )


def test_against_the_sneaky_prover_alone_the_verifier_plays_for_one_sum():
    game = ProverVerifier(provers=("sneaky",))
    for grade in (1, 4, 10):
        judgement = scores(game, {"sneaky": "5", **grades(10, grade)}, JUDGE)
        assert sum(judgement.by_seat("score").values()) == pytest.approx(1)
        assert judgement.utilities("sneaky")["believed"] == pytest.approx((grade - 1) / 9)


def test_an_unreadable_grade_is_paid_nothing_and_a_failed_move_leaves_its_pair_unjudged():
    moves = {"helpful": "4", "sneaky": "5", **grades(10, 1)}
    judgement = scores(GAME, {**moves, "verifier of sneaky": "10"}, JUDGE)  # without the code
    assert judgement.by_seat("score") == {"helpful": 1, "verifier of helpful": 1, "verifier of sneaky": 0}  # fmt: skip
    assert judgement.reason == "a verifier's grade could not be read"
    assert judgement.by_seat("readable") == {"verifier of helpful": 1, "verifier of sneaky": 0}
    failed = Move("", "error", error="no memory")
    for seat in ("sneaky", "verifier of sneaky"):
        judgement = scores(GAME, {**moves, seat: failed}, JUDGE)
        assert set(judgement.scores) == {"helpful", "verifier of helpful"}
        assert "no memory" in judgement.reason
    unknown = Prompt("q", PROMPT.messages)
    assert scores(GAME, moves, JUDGE, unknown).scores is None


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="judges the game prover_verifier"):
        placed(Answers(), JUDGE)
    for gold in ("shorter", "judged_matches:ten"):
        with pytest.raises(ConfigError, match="between 0 and 1"):
            scores(GAME, {"helpful": "4", **grades(10, 1)}, {**JUDGE, "gold": gold})
    with pytest.raises(ValueError, match="low: must be below high = 1"):
        ProverVerifier(low=1, high=1)
    with pytest.raises(ValueError, match="name each once"):
        ProverVerifier(provers=("sneaky", "sneaky"))
    blank = Prompt("b", ())
    assert list(GAME.faults([blank]))
    assert GAME.first_question(blank) == blank


def test_gold_is_asked_about_the_solutions_alone():
    gold = {"kind": "rubric", "model": {"kind": "scripted", "text": "1"}, "low": 0, "high": 1}
    judge = Judge.build({**JUDGE, "gold": gold})
    assert judge.questions(len(GAME.seats), 1) == judge.gold.questions(2, 1) == 2


RECIPE = """
generations: 2
players:
  prover: {kind: local, model: builtin/pool, learns: true, max_new_tokens: 8, max_length: 128}
  checker: {kind: local, model: builtin/pool, adapter: builtin/sums, learns: true,
            max_new_tokens: 4, max_length: 256}
prompts: {kind: clerk_questions, count: 12, per_generation: 4, held_out: 2}
game: {kind: "prover_verifier", text: rubric_compact, helpful: "", sneaky: Wrongly.}
schedule:
  {kind: roles, roles: {helpful: prover, sneaky: prover, verifier: checker}, shared: true}
judge: {kind: "prover_verifier", gold: clerk}
learner: {kind: policy_gradient, estimator: role_baseline, batch_size: 2, warmup_steps: 0}
evaluate: at_table
max_unjudged: 1.0
"""


@pytest.mark.long
def test_provers_and_verifiers_learn_in_one_run_and_each_role_is_measured(command, tmp_path):
    (tmp_path / "prove.yaml").write_text(RECIPE)
    done = command("run", "prove.yaml", "--out", "run", "--json")
    assert done.code == 0, done.err
    last = done.facts["measured"][-1]
    assert {"helpful", "sneaky", "verifier", "helpful, right"} <= last["roles"].keys()
    assert set(last["scores"]) == {"prover@2", "checker@2"}
