"""A run that learns from pairs as plain text."""

import json

import pytest

import equipoise
from equipoise.runs.directory import RunDirectory


@pytest.mark.long
def test_the_first_iteration_alone_learns_from_the_datas_pairs_as_plain_text(tmp_path):
    answers = ["Yes, you may.", "No.", "Please say more.", "I cannot.", "Ask Ben.", "Now."]
    lines = []
    for n in range(12):
        row = {"prompt": f"May I take box {n}?", "chosen": answers[n % 6]}
        lines.append(json.dumps(row | {"rejected": answers[(n + 1) % 6]}))
    prompts = tmp_path / "pairs.jsonl"
    prompts.write_text("\n".join(lines) + "\n")
    settings = {
        "policy.model": "builtin/beginner",
        "policy.max_length": 128,
        "policy.max_new_tokens": 16,
        "learner.pair_text": {"max_length": 96, "max_prompt": 60, "opponents_max_prompt": 40},
        "learner.log_steps": 1,
        "prompts.path": str(prompts),
        "prompts.held_out": 2,
        "pairs": "data",
        "generations": 1,
        "judge": "shorter",
    }
    equipoise.run("mnpo_as_released", settings, tmp_path / "run", progress=False)
    with RunDirectory.open(tmp_path / "run") as run:
        (facts,) = [stage.facts for stage in run.ledger.stages("learn")]
    # the learner begins its text with a token for that and its opponent does not, so the residual
    # is not 0 where both are the same policy
    assert facts["margin"] != 0
