"""One base a process: a league of adapters loads its model once, and learns the same weights as
where everybody loads its own.
"""

import pytest
import torch
from safetensors.torch import load_file

from equipoise.learners import fine_tuning
from equipoise.models import loading
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun

MEMBER = {
    "kind": "local",
    "model": "builtin",
    "learns": True,
    "max_length": 256,
    "max_new_tokens": 4,
    "lora": {"r": 2, "alpha": 4},
}


def values(members: int, generations: int) -> dict:
    return {
        "generations": generations,
        "players": {f"player_{n}": MEMBER for n in range(members)},
        "prompts": {"kind": "clerk_questions", "count": 30, "per_generation": 6, "held_out": 4},
        "game": {"kind": "answers", "samples": 2},
        "schedule": "sparta",
        "judge": "clerk",
        "loss": {"kind": "dpo", "reference": "previous"},
        "learner": {"kind": "preference", "batch_size": 8, "learning_rate": 1e-3},
        "evaluate": {"kind": "held_out", "samples": 1},
        "max_unjudged": 1.0,
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("members", "generations", "before"),
    [(2, 1, 7), pytest.param(6, 2, 37, marks=pytest.mark.slow)],
)
def test_a_league_loads_its_base_once_and_learns_the_same(
    members, generations, before, monkeypatch, tmp_path
):
    loads = []
    load = loading._load_whole

    def counted(*arguments, **settings):
        loads.append(arguments)
        return load(*arguments, **settings)

    monkeypatch.setattr(loading, "_load_whole", counted)
    resolved = recipe_loader.build(values(members, generations), "test")

    def play(folder) -> int:
        loads.clear()
        with new_run(resolved, folder) as run:
            league(OpenRun(run), generations)
        return len(loads)

    assert play(tmp_path / "shared") == 1
    monkeypatch.setattr(fine_tuning, "base_of", lambda settings, player: None)
    assert play(tmp_path / "apart") == before

    adapters = sorted((tmp_path / "apart").rglob("adapter_model.safetensors"))
    assert len(adapters) == members * generations
    for apart in adapters:
        weights = load_file(apart)
        shared = load_file(tmp_path / "shared" / apart.relative_to(tmp_path / "apart"))
        assert weights.keys() == shared.keys()
        assert all(torch.equal(weights[name], shared[name]) for name in weights)
