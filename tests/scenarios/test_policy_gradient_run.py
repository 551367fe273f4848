"""Runs of learners that stay in memory: stopped anywhere and resumed, they end as if nothing had
happened.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from equipoise.api.extending import change_settings
from equipoise.errors import EquipoiseError
from equipoise.learners.policy_trainer import PolicyOptimizer
from equipoise.learners.sampled_policy import SampledPolicy
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.damage import examine
from equipoise.runs.directory import RunDirectory
from equipoise.runs.live_learners import LiveLearners
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.system.files import CHECKSUMS

GENERATIONS = 4


class Killed(BaseException):
    """As a signal would, nothing catches it."""


class Monitor:
    """Nobody; at call `last` of its stages it kills the run."""

    def __init__(self, last: int | None = None) -> None:
        self.last, self.stages, self.shown = last, [], []

    def stage(self, name, total=None, generation=None):
        self.stages.append(name)
        if len(self.stages) == self.last:
            raise Killed

    def advance(self, n=1):
        pass

    def part(self, steps):
        pass

    def numbers(self, **named):
        self.shown.append(named)


def values(**learner) -> dict:
    """An adversary and a defender that take turns on the built-in world."""
    player = {"kind": "local", "learns": True, "max_length": 128, "batch_size": 64}
    return {
        "generations": GENERATIONS,
        "players": {
            "defender": {**player, "model": "builtin/red_team", "max_new_tokens": 4},
            "adversary": {
                **player,
                "model": "builtin/red_team",
                "max_new_tokens": 8,
                "lora": {"r": 2, "alpha": 4},
            },
        },
        "prompts": {
            "kind": "clerk_requests",
            "count": 8,
            "per_generation": 4,
            "held_out": 2,
            "reuse": True,
        },
        "game": {"kind": "red_team", "text": "rewrite_compact"},
        "schedule": {"kind": "roles", "roles": {"defender": "defender", "adversary": "adversary"}},
        "judge": {"kind": "red_team", "guard": "clerk_guard", "helper": "clerk"},
        "turns": {"kind": "alternate", "steps": {"defender": 2, "adversary": 1}},
        "learner": {
            "kind": "policy_gradient",
            "learning_rate": 1e-3,
            "warmup_steps": 2,
            "critic": "head",
            **learner,
        },
        "learners": {
            "adversary": {
                "estimator": "role_baseline",
                "critic": None,
                "critic_learning_rate": None,
            }
        },
        "evaluate": {"kind": "red_team", "every": 3, "crossplay": 0},
    }


def go_on(folder: Path, monitor=None, **learner) -> list[dict]:
    """Begin the run, or go on with it, to its end; what was measured."""
    opened = (
        RunDirectory.open(folder)
        if folder.exists()
        else new_run(recipe_loader.build(values(**learner), "test"), folder)
    )
    with opened as run:
        league(OpenRun(run, monitor or Monitor()), GENERATIONS)
        return [facts for _, _, _, facts, _ in run.ledger.stages("measure")]


def weights(folder: Path) -> dict[str, bytes]:
    """Every model, adapter and state that lies there."""
    found = [
        path for path in (folder / "players").rglob("*") if path.suffix in (".safetensors", ".pt")
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def metrics(folder: Path) -> list[dict]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [
        {name: value for name, value in line.items() if name != "tokens_per_second"}
        for line in lines
    ]


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """(folder, what was measured, who watched it) of a run that nothing disturbed."""
    folder, monitor = tmp_path_factory.mktemp("calm") / "run", Monitor()
    return folder, go_on(folder, monitor), monitor


def same(folder: Path, measured: list[dict], calm) -> None:
    assert measured == calm[1]
    assert metrics(folder) == metrics(calm[0])
    assert weights(folder) == weights(calm[0])
    assert {p.name for p in (folder / "players").rglob(".*")} == {".state"}, (
        "a draft was left behind"
    )


@pytest.mark.long
def test_only_those_whose_turn_it_is_grow_older_and_only_what_is_measured_is_kept(calm):
    assert [facts["ages"] for facts in calm[1]] == [
        {"defender": d, "adversary": a} for d, a in ((0, 0), (2, 1), (3, 1))
    ]
    assert sorted(weights(calm[0])) == [
        "players/adversary/.state/1/state.pt",
        "players/adversary/1/adapter_model.safetensors",
        "players/defender/.state/3/state.pt",
        "players/defender/2/model.safetensors",
        "players/defender/3/model.safetensors",
    ]


@pytest.mark.long
def test_who_watches_hears_what_the_moves_were_paid(calm):
    with RunDirectory.read(calm[0]) as run:
        paid = [facts["reward"] for *_, facts, _ in run.ledger.stages("episodes")]
    assert paid
    assert [shown["reward"] for shown in calm[2].shown if "reward" in shown] == paid


@pytest.mark.long
def test_a_finished_run_goes_on_for_another_generation(calm, tmp_path):
    """Its learners are taken from their states."""
    folder = tmp_path / "run"
    config = recipe_loader.build({**values(), "generations": 3}, "test")
    with new_run(config, folder) as run:
        league(OpenRun(run, Monitor()), 3)
    with RunDirectory.open(folder) as run:
        change_settings(run, {"generations": GENERATIONS})
    same(folder, go_on(folder), calm)


SLOW = pytest.mark.slow


@pytest.mark.long
@pytest.mark.parametrize(
    "save_every", [pytest.param(1, marks=SLOW), 3, pytest.param(100, marks=SLOW)]
)
def test_stopped_between_learning_and_measuring(calm, save_every, tmp_path, monkeypatch):
    def refuse(self, learners):
        if any(learner.generation for learner in learners):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(LiveLearners, "save", refuse)
        with pytest.raises(Killed):
            go_on(tmp_path / "run", save_every=save_every)
    states = sorted(path.parent.name for path in (tmp_path / "run").rglob("state.pt"))
    assert states == {1: ["1", "2"], 3: [], 100: []}[save_every]
    same(tmp_path / "run", go_on(tmp_path / "run"), calm)


@pytest.mark.long
def test_damaged_states_are_set_aside_and_their_updates_repeated(calm, tmp_path):
    """One by its checksum, one that has none and cannot be read."""
    folder = tmp_path / "run"
    with pytest.raises(Killed):
        go_on(folder, Monitor(round(0.95 * len(calm[2].stages))), save_every=1)
    states = sorted(folder.rglob("state.pt"))
    assert [str(path.relative_to(folder)) for path in states] == [
        "players/adversary/.state/1/state.pt",
        "players/defender/.state/3/state.pt",
    ]
    flipped, cut = states
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    os.truncate(cut, cut.stat().st_size // 2)
    assert [part.part for part in examine(folder) if part.state == "damaged"] == [
        "players/adversary/.state/1",
        "players/defender/.state/3",
    ]
    (cut.parent / CHECKSUMS).unlink()
    monitor = Monitor()
    measured = go_on(folder, monitor)
    shown = " ".join(str(named.get("set_aside", "")) for named in monitor.shown)
    assert "its checksum is another); it is damaged-1 now" in shown
    assert "state.pt: is missing or damaged (" in shown
    assert "damaged-3 now" in shown
    for aside in folder.rglob("damaged-*"):
        shutil.rmtree(aside)
    same(folder, measured, calm)


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [pytest.param(0.35, marks=SLOW), 0.6, pytest.param(0.95, marks=SLOW)]
)
def test_stopped_anywhere(calm, part, tmp_path):
    with pytest.raises(Killed):
        go_on(tmp_path / "run", Monitor(round(part * len(calm[2].stages))), save_every=2)
    same(tmp_path / "run", go_on(tmp_path / "run"), calm)


@pytest.mark.long
def test_a_sampler_that_plays_something_else_stops_the_run(tmp_path, monkeypatch):
    def differs(self, actor):
        raise EquipoiseError(f"{self.learner} plays something else")

    monkeypatch.setattr(SampledPolicy, "assert_agreement", differs)
    with pytest.raises(EquipoiseError, match=r"defender@1 plays something else"):
        go_on(tmp_path / "run")


@pytest.mark.long
def test_an_error_in_an_update_leaves_the_last_sound_generation_to_go_on_from(
    calm, tmp_path, monkeypatch
):
    add_up, calls = PolicyOptimizer.add_up, []

    def breaks(self, sums):
        calls.append(1)
        broken = {"policy_loss": float("nan")} if len(calls) == 4 else {}
        return add_up(self, sums) | broken

    with monkeypatch.context() as patch:
        patch.setattr(PolicyOptimizer, "add_up", breaks)
        with pytest.raises(EquipoiseError, match=r"defender@2: .*learner\.learning_rate"):
            go_on(tmp_path / "run")
    kept = weights(tmp_path / "run")
    assert {"players/defender/2/model.safetensors", "players/defender/.state/2/state.pt"} <= set(
        kept
    )
    with RunDirectory.open(tmp_path / "run") as run:
        assert run.ledger.stage_facts("3/learn/defender") is None
    same(tmp_path / "run", go_on(tmp_path / "run"), calm)
