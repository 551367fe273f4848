"""What a process that leads others reads of them: their lines, and why they failed."""

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import yaml

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.games.answers import Answers
from equipoise.learners import process_group
from equipoise.learners.base import TrainingBatch
from equipoise.learners.launch import Launch
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.process_group import (
    LOG,
    GroupLostError,
    ProcessGroup,
    StandingGroup,
    failure,
    follow_lines,
    learn_in_processes,
    read_batch,
    write_batch,
)
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.system.locks import lock
from equipoise.system.subprocesses import start_process
from equipoise.types import PlayerId

# Takes orders as the processes that train do, and trains nothing.
TAKES_ORDERS = """
import json, os, sys, time
from pathlib import Path
folder, done, parent = Path(sys.argv[1]), 0, os.getppid()
print("begun", flush=True)
while os.getppid() == parent:
    text = (folder / "order.json").read_text()
    order = json.loads(text) if text.endswith("\\n") else {}
    if order.get("what") == "end":
        (folder / "ended").touch()
        break
    if order.get("number", 0) > done:
        done = order["number"]
        place = folder / str(done)
        assert (place / "lines.jsonl").exists()  # a new name is seen late on other machines
        seed = json.loads((place / "training_batch.json").read_text())["training_batch"]["seed"]
        if seed == 13:
            print("out of luck", flush=True)
            sys.exit(3)
        with (place / "lines.jsonl").open("a") as lines:
            lines.write(json.dumps({"log": order}) + "\\n")
            lines.write(json.dumps({"facts": {"seed": seed}}) + "\\n")
    time.sleep(0.005)
"""


class Takes(Launch):
    """Starts one plain process that takes orders."""

    def command(self, folder):
        return [sys.executable, "-I", "-S", "-c", TAKES_ORDERS, str(folder)]


def left(folder, number, **said):
    given = {"kind": "", "message": "", "alone": False, **said}
    (folder / f"error-{number}.json").write_text(json.dumps(given))


def test_every_whole_line_is_read_once_until_nothing_more_comes(tmp_path):
    file, read, waited = tmp_path / "lines", [], []

    def has_ended(seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) > 1:
            with file.open("a") as lines:
                lines.write(f'{{"n": {len(waited)}}}\n{{"n":')
                lines.write(f" {10 * len(waited)}}}\n" if len(waited) % 2 else " 0}\n")
        return len(waited) == 4

    follow_lines(has_ended, file, read.append)
    assert [line["n"] for line in read] == [2, 0, 3, 30, 4, 0]
    assert set(waited) == {0.1}


def test_the_first_process_that_knows_why_says_it_and_a_lost_one_shows_its_end(tmp_path):
    (tmp_path / LOG).write_text("".join(f"line {n}\n" for n in range(15)))
    lost = failure(tmp_path, -9)
    assert isinstance(lost, GroupLostError)
    message = str(lost)
    assert f"ended with exit code -9; the end of {tmp_path / LOG}:\nline 3\n" in message
    assert message.endswith("line 14")
    assert "line 2\n" not in message
    left(tmp_path, 10, message="the others went", alone=True)
    assert isinstance(failure(tmp_path, 1), GroupLostError)
    left(tmp_path, 3, message="CUDA\nran out")
    foreign = failure(tmp_path, 1)
    assert type(foreign) is EquipoiseError
    assert str(foreign).endswith(f"({tmp_path / LOG}):\nCUDA\nran out")
    left(tmp_path, 9, kind="ConfigError", message="the rate is too high")
    known = failure(tmp_path, 1)
    assert type(known) is ConfigError
    assert str(known) == "the rate is too high"
    with pytest.raises(ConfigError):
        raise known


LEARNER = PolicyGradient.model_validate({})


def batch(folder, seed=1, **more) -> TrainingBatch:
    given = {"learner": PlayerId("ann"), "player": Player.build("tabular"), "game": Answers()}
    places = {"weights": None, "output": folder / "home", "scratch": folder / "scratch"}
    return TrainingBatch(**given, **places, seed=seed, **more)


@pytest.fixture
def group(tmp_path):
    """A group of one process that takes orders and trains nothing."""
    left = tmp_path / "launch" / "of another"
    left.mkdir(parents=True)
    with ProcessGroup(Takes(num_processes=1), tmp_path / "launch") as opened:
        yield opened


def test_processes_that_stay_take_one_order_after_another(group, tmp_path):
    (folder,) = (tmp_path / "launch").iterdir()
    assert len(folder.name) == 32
    assert (folder / process_group.ORDER).read_text() == ""
    told = []
    settings = yaml.safe_load((folder / "accelerate.yaml").read_text())
    assert settings == Launch(num_processes=1).accelerate()
    assert group.learn(LEARNER, batch(tmp_path, 5, log=told.append)) == {"seed": 5}
    assert group.save_state(LEARNER, batch(tmp_path, 6, log=told.append)) is None
    assert told == [{"number": 1, "what": "learn"}, {"number": 2, "what": "save_state"}]
    assert not [path for path in folder.iterdir() if path.is_dir()]
    with open(folder / process_group.PARENT) as held, pytest.raises(BlockingIOError):
        lock(held, shared=True, wait=False)
    group.close()
    assert group._process.returncode == 0
    assert (folder / "ended").exists()
    with open(folder / process_group.PARENT) as file:
        lock(file, shared=True, wait=False)
    group.close()


def test_processes_for_one_training_end_with_it(tmp_path, monkeypatch):
    returned = []
    monkeypatch.setattr(process_group, "return_unused_memory", lambda: returned.append(1))
    now, launch = batch(tmp_path, 7), Takes(num_processes=1)
    assert process_group.learn_in_processes(LEARNER, launch, now) == {"seed": 7}
    (folder,) = (now.scratch / "launch").iterdir()
    assert (folder / "ended").exists()
    assert returned == [1]


def other(rate: float) -> PolicyGradient:
    return PolicyGradient.model_validate({"learning_rate": rate})


def test_standing_processes_take_trainings_of_one_learner_and_leave_for_another(tmp_path):
    (tmp_path / "players").mkdir()
    standing, launch = StandingGroup(), Takes(num_processes=1)

    def learn(learner, seed, told):
        place = tmp_path / "players" / f".{seed}.scratch"
        now = batch(tmp_path, seed, log=told.append, standing=standing)
        return learn_in_processes(learner, launch, replace(now, scratch=place))

    told: list[dict] = []
    folder = tmp_path / "players" / ".launch"
    assert [learn(LEARNER, seed, told) for seed in (5, 6)] == [{"seed": 5}, {"seed": 6}]
    assert [line["number"] for line in told] == [1, 2]  # the same processes
    (first,) = folder.iterdir()
    assert learn(other(1e-3), 7, told) == {"seed": 7}
    assert told[2:] == [{"number": 1, "what": "learn"}]
    (second,) = folder.iterdir()
    assert first.name != second.name
    standing.close()
    assert not folder.exists()
    assert not (tmp_path / "players" / ".7.scratch").exists()


def test_standing_processes_that_were_lost_meanwhile_are_started_again_once(tmp_path):
    told: list[dict] = []
    standing, launch = StandingGroup(), Takes(num_processes=1)

    def learn(seed):
        now = batch(tmp_path, seed, log=told.append, standing=standing)
        return learn_in_processes(LEARNER, launch, now)

    learn(5)
    process = standing._group._process
    process.kill()
    process.wait()
    assert learn(6) == {"seed": 6}
    assert told[1:] == [{"processes_started_again": 1}, {"number": 1, "what": "learn"}]
    with pytest.raises(GroupLostError, match="out of luck"):  # these are lost over it, again
        learn(13)
    assert told[3:] == [{"processes_started_again": 1}]
    assert not (tmp_path / ".launch").exists()
    assert learn(8) == {"seed": 8}
    standing.close()


def test_whatever_ends_an_order_ends_the_processes(group, tmp_path):
    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        group.learn(LEARNER, batch(tmp_path, log=interrupt))
    assert group._process.returncode == -signal.SIGTERM
    with pytest.raises(GroupLostError, match=r"exit code -15; the end of .*log\.txt:\nbegun$"):
        group.learn(LEARNER, batch(tmp_path))


def test_a_process_that_ends_by_itself_is_noticed(group, tmp_path):
    with pytest.raises(GroupLostError, match=r"exit code 3; .*\nbegun\nout of luck$"):
        group.learn(LEARNER, batch(tmp_path, 13))


def test_a_group_needs_accelerate(tmp_path, monkeypatch):
    monkeypatch.setattr(process_group, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="'accelerate'") as caught:
        ProcessGroup(Takes(num_processes=1), tmp_path)
    assert caught.value.name == "accelerate"


def test_a_launcher_that_does_not_listen_is_killed(monkeypatch):
    monkeypatch.setattr(process_group, "PATIENCE", 0.05)
    launcher = start_process(
        ["sh", "-c", "trap '' TERM; echo ready; while :; do :; done"], stdout=-1
    )
    assert launcher.stdout.readline() == b"ready\n"
    process_group._end(launcher)
    assert launcher.returncode == -signal.SIGKILL
    launcher.stdout.close()


def test_the_beat_ends_with_the_group_and_holds_nobody_up(tmp_path):
    before = set(threading.enumerate())
    with suppress(KeyError), process_group._show_alive(tmp_path):
        (thread,) = set(threading.enumerate()) - before
        assert thread.daemon
        raise KeyError
    assert not thread.is_alive()


def test_other_processes_import_what_this_one_can(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "/of/mine", *sys.path])
    write_batch(tmp_path, LEARNER, batch(tmp_path))
    own = [os.getcwd(), "/of/mine"]
    here = [entry for entry in sys.path if entry not in ("", *own)]
    monkeypatch.setattr(sys, "path", ["/of/theirs", *here])
    read_batch(tmp_path, print, Resources())
    assert sys.path == ["/of/theirs", *here, *own]


def test_a_batch_is_text_and_arrays(tmp_path):
    array_KB = np.arange(6.0).reshape(2, 3)
    sent = batch(tmp_path, opponent_chosen_KB=array_KB, opponent_rejected_KB=-array_KB)
    write_batch(tmp_path, LEARNER, sent)
    learner, found = read_batch(tmp_path, print, Resources())
    assert learner == LEARNER
    assert found.output == (tmp_path / "home").absolute()
    np.testing.assert_array_equal(found.opponent_chosen_KB, array_KB)
    np.testing.assert_array_equal(found.opponent_rejected_KB, -array_KB)
    with pytest.raises(TypeError, match="a training batch with a complex cannot be sent"):
        write_batch(tmp_path, LEARNER, batch(tmp_path, first_seed=1j))
