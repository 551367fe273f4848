"""An update in several processes is the update of one."""

import json

import pytest
from safetensors.torch import load_file
from small import settings

RUN = {
    "generations": 2,
    "players": {
        "policy": {
            "kind": "local",
            "model": "builtin",
            "learns": True,
            "max_new_tokens": 12,
            "max_length": 96,
        }
    },
    "prompts": {
        "kind": "clerk_questions",
        "count": 40,
        "per_generation": 4,
        "held_out": 4,
        "reuse": True,
    },
    "game": {"kind": "answers", "samples": 4},
    "judge": "clerk",
    "learner": {
        "kind": "policy_gradient",
        "estimator": "group_relative",
        "learning_rate": 1e-3,
        "batch_size": 4,
    },
    "evaluate": {"every": 2, "samples": 1},
}


@pytest.fixture
def play(tmp_path, command):
    (tmp_path / "run.yaml").write_text(json.dumps(RUN))

    def weights(name, **changes):
        done = command("run", "run.yaml", *settings(**changes), "--out", name, "--json")
        assert done.code == 0, done.err
        return load_file(
            tmp_path / name / "players" / "policy" / "2" / "model.safetensors"
        )

    return weights


@pytest.mark.slow
def test_two_processes_equal_one(play, tmp_path):
    alone, together = play("alone"), play("together", learner__launch__num_processes=2)
    assert (
        max((alone[name] - together[name]).abs().max().item() for name in alone) < 1e-5
    )
    lines = [
        json.loads(line)
        for line in (tmp_path / "together" / "metrics.jsonl").read_text().splitlines()
    ]
    assert [line["stage"] for line in lines if "/learn/" in line["stage"]] == [
        "0/learn/policy",
        "1/learn/policy",
    ]
