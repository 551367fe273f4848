"""A policy gradient learns from what a real vLLM sampled as it does from its own samples.

The built-in model, whose learning curve is known: a dozen updates of GRPO bring its share of right
answers from about 55 % to about 67 %, whoever samples.
"""

from statistics import fmean

import pytest

from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun

pytestmark = pytest.mark.live
SEEDS = (0, 1, 2)
UPDATES = 12
# Shares of right answers. Over seeds the ends of one sampler have a standard deviation of 0.015, so
# a difference of two means of three has one of 0.012.
NOISE = 0.06
LEARNED = 0.05  # at least; without learning it is 0 ± 0.02
ROUNDING = 1e-6  # KL in nats a token: float32 on both sides


def recipe(seed: int, sampler: object) -> dict:
    return {
        "seed": seed,
        "generations": UPDATES,
        "players": {
            "policy": {
                "kind": "local",
                "model": "builtin",
                "learns": True,
                "lora": {"r": 8, "alpha": 16},
                "dtype": "float32",
                "max_new_tokens": 32,
                "max_length": 128,
                "batch_size": 256,
                "sampler": sampler,
            }
        },
        "prompts": {
            "kind": "clerk_questions",
            "count": 800,
            "per_generation": 24,
            "held_out": 150,
            "reuse": True,
        },
        "game": {"kind": "answers", "samples": 8},
        "judge": "clerk",
        "learner": {
            "kind": "policy_gradient",
            "estimator": "group_relative",
            "learning_rate": 2e-3,
            "warmup_steps": 0,
            "kl": 0.0,
            "batch_size": 96,
        },
        "evaluate": {"kind": "held_out", "every": UPDATES},
    }


def test_grpo_through_vllm_ends_where_the_local_sampler_ends(serving, tmp_path, capsys):
    start = serving("builtin", adapters=2, max_length=128, rows=64)
    engine = {"kind": "vllm", "base_url": start(), "adapters": 2}
    scores: dict[str, list[tuple[float, float]]] = {"local": [], "vllm": []}
    for seed in SEEDS:
        for name, sampler in (("local", "local"), ("vllm", engine)):
            config = recipe_loader.build(recipe(seed, sampler), name)
            with new_run(config, tmp_path / f"{name}{seed}") as run:
                league(OpenRun(run), UPDATES)
                measured = run.ledger.stages("measure")
                learned = run.ledger.stages("learn")
            scores[name].append(tuple(stage.facts["score"] for stage in measured))
            assert max(stage.facts["mismatch_kl"] for stage in learned) < ROUNDING
    with capsys.disabled():
        print(f"\nGRPO, (start, end) by seed: {scores}")
    ends = {name: fmean(end for _, end in pairs) for name, pairs in scores.items()}
    gains = {name: fmean(end - first for first, end in pairs) for name, pairs in scores.items()}
    assert min(gains.values()) > LEARNED
    assert abs(ends["vllm"] - ends["local"]) < NOISE
