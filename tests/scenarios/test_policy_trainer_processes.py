"""An update in several processes is the update of one, also where one of them dies, or the one that
gives them orders.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import yaml
from safetensors.torch import load_file
from small_runs import processes_with, settings, start

from equipoise.api.play_out import play_out
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.monitor import Silent
from tests.soak._recorded import differences

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
        "learning_rate": 1e-4,
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
        return load_file(tmp_path / name / "players" / "policy" / "2" / "model.safetensors")

    return weights


@pytest.mark.slow
def test_two_processes_equal_one(play, tmp_path):
    alone, together = play("alone"), play("together", learner__launch__num_processes=2)
    assert max((alone[name] - together[name]).abs().max().item() for name in alone) < 2e-7
    lines = [
        json.loads(line)
        for line in (tmp_path / "together" / "metrics.jsonl").read_text().splitlines()
    ]
    assert [line["stage"] for line in lines if "/learn/" in line["stage"]] == [
        "0/learn/policy",
        "1/learn/policy",
    ]


class Strikes(Silent):
    """Kills a process of the training when generation 1 begins to learn."""

    def stage(self, name, total=None, generation=None):
        if (name, generation) == ("learn", 1):
            (victim, *_) = workers()
            os.kill(victim, signal.SIGKILL)


def workers() -> list[int]:
    """The processes that train for this one, but for their launcher."""
    return [
        child.pid
        for child in psutil.Process().children(recursive=True)
        if "equipoise.learners.training_worker" in child.cmdline()
        and "accelerate.commands.launch" not in child.cmdline()
    ]


@pytest.mark.slow
def test_a_run_whose_process_was_killed_ends_as_if_none_had_been(tmp_path):
    values = {**RUN, "learner": {**RUN["learner"], "launch": {"num_processes": 2}}}
    weights = {}
    for name, monitor in (("calm", Silent()), ("struck", Strikes())):
        config = recipe_loader.build(yaml.safe_load(json.dumps(values)), name)
        with new_run(config, tmp_path / name) as run:
            play_out(run, monitor)
        assert workers() == []
        file = tmp_path / name / "players" / "policy" / "2" / "model.safetensors"
        weights[name] = file.read_bytes()
    assert weights["calm"] == weights["struck"]
    assert not list((tmp_path / "struck").rglob("launch"))
    lines = (tmp_path / "struck" / "metrics.jsonl").read_text().splitlines()
    again = [line for line in lines if "processes_started_again" in line]
    assert [json.loads(line)["stage"] for line in again] == ["1/learn/policy"]


def stopped_while_learning(process: subprocess.Popen, run: Path, number: int) -> int:
    """Send the signal while the run's processes work at an update; the exit code, once nothing of
    the run is left.
    """
    limit = time.monotonic() + 600
    while not any('"what": "learn"' in file.read_text() for file in orders(run)):
        assert process.poll() is None and time.monotonic() < limit, "no update began"
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=600)
    while processes_with(run):
        assert time.monotonic() < limit, "processes were left behind"
        time.sleep(0.1)
    return process.returncode


def orders(run: Path) -> list[Path]:
    return list(run.rglob("order.json"))


@pytest.mark.slow
def test_a_run_that_is_stopped_while_its_processes_learn_leaves_none_and_goes_on(tmp_path, command):
    """By Ctrl-C, then by SIGKILL; it ends with the records and weights of another."""
    values = RUN["learner"] | {"save_every": 1, "launch": {"num_processes": 2}}
    (tmp_path / "run.yaml").write_text(json.dumps(RUN | {"learner": values}))
    process = start("run", "run.yaml", "--out", "stopped", cwd=tmp_path)
    run = tmp_path / "stopped"
    assert stopped_while_learning(process, run, signal.SIGINT) == 130
    process = start("resume", "stopped", cwd=tmp_path)
    assert stopped_while_learning(process, run, signal.SIGKILL) == -signal.SIGKILL
    assert command("resume", "stopped").code == 0
    assert command("run", "run.yaml", "--out", "calm").code == 0
    assert differences(tmp_path / "calm", run) == []
    assert not orders(run)
