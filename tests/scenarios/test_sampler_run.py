"""Runs whose learner an engine samples, against the loopback server that has our own sampler behind
it: as in-process, and on after the engine was gone.
"""

from pathlib import Path

import pytest
from vllm_server import VllmServer

from equipoise.errors import ModelError
from equipoise.models.adapters import resolve
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.types import Match

pytestmark = pytest.mark.long
GENERATIONS = 2


@pytest.fixture
def server():
    server = VllmServer(resolve("builtin"))
    yield server
    server.stop()


def values(server: VllmServer | None, learner: dict) -> dict:
    sampler = "local"
    if server is not None:
        sampler = {"kind": "vllm", "base_url": server.url, "patience": 0}
    return {
        "generations": GENERATIONS,
        "commit_every": 2,
        "players": {
            "policy": {
                "kind": "local",
                "model": "builtin",
                "learns": True,
                "lora": {"r": 2, "alpha": 4},
                "max_new_tokens": 4,
                "max_length": 128,
                "device": "cpu",
                "sampler": sampler,
            }
        },
        "prompts": {"kind": "clerk_questions", "count": 60, "per_generation": 8, "held_out": 2},
        "game": {"kind": "answers", "samples": 4},
        "judge": "clerk",
        "evaluate": {"kind": "held_out", "every": GENERATIONS},
        **learner,
    }


PREFERENCE = {"loss": "dpo", "learner": {"kind": "preference", "learning_rate": 1e-3}}
GRPO = {
    "learner": {
        "kind": "policy_gradient",
        "estimator": "group_relative",
        "learning_rate": 1e-3,
        "warmup_steps": 0,
    }
}


def go_on(folder: Path, given: dict) -> list[Match]:
    """Begin the run, or go on with it, to its end; its matches."""
    opened = (
        RunDirectory.open(folder)
        if folder.exists()
        else new_run(recipe_loader.build(given, "test"), folder)
    )
    with opened as run:
        league(OpenRun(run), GENERATIONS)
        return recorded(run)


def recorded(run: RunDirectory) -> list[Match]:
    parts = [("train", t) for t in range(GENERATIONS)]
    parts += [("held_out", t) for t in (0, GENERATIONS)]
    return [match for part in parts for match in run.ledger.matches(*part)]


def answers(matches: list[Match]) -> dict:
    return {m.id: [turn.move.token_ids for turn in m.turns] for m in matches}


@pytest.mark.parametrize("learner", [PREFERENCE, GRPO], ids=["preference", "grpo"])
def test_a_run_through_an_engine_is_the_run_here(server, tmp_path, learner):
    here = go_on(tmp_path / "here", values(None, learner))
    there = go_on(tmp_path / "there", values(server, learner))
    assert answers(here) == answers(there)
    assert {name.split(":")[1] for name in server.adapters} == {"policy@1", "policy@2"}


def test_an_engine_that_was_gone_is_not_asked_again_for_what_was_recorded(server, tmp_path):
    whole = go_on(tmp_path / "whole", values(server, GRPO))
    server.restart()
    server.requests.clear()
    server.break_after = 40
    with pytest.raises(ModelError, match="equipoise sampler"):
        go_on(tmp_path / "run", values(server, GRPO))
    with RunDirectory.read(tmp_path / "run") as run:
        kept = recorded(run)
    server.restart()
    server.requests.clear()
    resumed = go_on(tmp_path / "run", {})
    assert answers(resumed) == answers(whole)
    tokens = sum(len(m.turns) for m in whole) - sum(len(m.turns) for m in kept)
    probes = 16 * len(server.adapters) + 16  # sampled ones, and those that prove what arrived
    assert kept
    assert tokens <= len(server.asked()) <= tokens + probes
