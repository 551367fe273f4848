"""P(answer beats the opponents) in a run: their own answers are played, scored and kept."""

import pytest
from small_runs import SMALL, settings

from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

LOSS = {"kind": "mnpo", "target": "probability", "weights": [0.5, 0.5]}
TWO = settings(generations=2, loss=LOSS, players__policy__max_new_tokens=6)


@pytest.mark.long
def test_the_opponents_answer_the_same_prompts(command, tmp_path):
    planned = command("plan", "quickstart", *SMALL, *TWO, "--json")
    done = command("run", "quickstart", *SMALL, *TWO, "--out", "run", "--json")
    assert done.code == 0, done.err
    with RunDirectory.read(tmp_path / "run") as run:
        asked = run.ledger.matches("opponents")
        dealt = {prompt.id for prompt in run.ledger.prompts("train", 1)}
        judged = run.ledger.judgements_of(match.id for match in asked)
        learner = PlayerId("policy", 1)
        pairs = run.ledger.pairs(1, learner)
    assert {match.prompt for match in asked} == dealt
    assert len(judged) == len(asked)
    assert {seat for match in asked for seat in match.seats.values()} == {PlayerId("policy", 0)}, (
        "π_1's own answers are those of the training matches"
    )
    for pair in pairs:
        assert 0 <= pair.rejected_win <= pair.chosen_win <= 1
    counts = planned.facts["counts"]
    played = done.facts["records"]["matches"]
    assert counts["matches"] + counts["held_out_matches"] == played


@pytest.mark.long
def test_sppo_learns_from_a_judge_of_any_scale(command, tmp_path):
    """The clerk's scores with a shift are no probabilities; P is counted."""
    loss = settings(loss="sppo", judge={"kind": "shorter"})
    done = command("run", "quickstart", *SMALL, *loss, "--out", "run")
    assert done.code == 0, done.err
    with RunDirectory.read(tmp_path / "run") as run:
        pairs = run.ledger.pairs(0, PlayerId("policy"))
    assert any(not 0 <= pair.rejected_score <= 1 for pair in pairs)
    assert all(0 <= pair.rejected_win <= pair.chosen_win <= 1 for pair in pairs)
