"""Training in several processes: the same result as in one, and nothing left behind."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import psutil
import pytest
import torch
import yaml
from pydantic import ValidationError
from small_runs import processes_with

from equipoise.errors import ConfigError, EquipoiseError, NoSignal
from equipoise.games.answers import Answers
from equipoise.learners import process_group, training_worker
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.launch import Launch
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.process_group import GroupLostError, StandingGroup, read_batch, write_batch
from equipoise.learners.sharding import ProcessRank, Sharding
from equipoise.learners.training_worker import is_left_alone, wait_for_lock, wait_for_silence
from equipoise.losses.base import PreferenceLoss
from equipoise.losses.preference import DPO
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.system.addresses import machine
from equipoise.system.locks import lock
from equipoise.system.locks import machine as this_machine
from equipoise.system.subprocesses import python_command, start_process
from equipoise.types import Pair, PlayerId, user

KEPT = {"fsdp_reshard_after_forward": False}
PACKAGED = ("ddp", "deepspeed_zero3", "fsdp2")
QUICK = {"epochs": 2, "learning_rate": 1e-3, "chunk": 16, "log_steps": 1, "save_steps": 0}


class Doubled(DPO):
    """A user's own loss."""

    kind: str = "test_launch:Doubled"  # pyright: ignore

    def rows(self, batch):
        return 2 * super().rows(batch)


class Broken(DPO):
    """A user's own loss that fails."""

    kind: str = "test_launch:Broken"  # pyright: ignore

    def rows(self, batch):
        raise RuntimeError("the user's own loss is broken")


def some_pairs(count: int) -> list[Pair]:
    return [
        Pair(
            str(n),
            0,
            str(n),
            (user(f"How much is {n} and one?"),),
            chosen=f"It is {n}." + " and seven" * (n % 5),
            rejected="I cannot help" + " with that" * (n % 2),
            chosen_score=1.0,
            rejected_score=0.0,
        )
        for n in range(count)
    ]


def training_batch(
    model: Path, folder: Path, *, lora: dict | None = None, loss="dpo", pairs: int = 11, **more
) -> TrainingBatch:
    """Eleven pairs in two passes are two full steps of eight and one of six."""
    home = folder / "home"
    home.mkdir(parents=True)
    numbers = np.arange(float(pairs))[None]
    now = TrainingBatch(
        learner=PlayerId("policy", 2),
        player=Player.build({"kind": "local", "model": str(model), "lora": lora, "device": "cpu"}),
        weights=None,
        output=home,
        scratch=folder / "scratch",
        seed=11,
        game=Answers(),
        loss=PreferenceLoss.build(loss),
        pairs=some_pairs(pairs),
        opponents=[(PlayerId("policy"), 1.0)],
        opponent_chosen_KB=-30 - numbers,
        opponent_rejected_KB=-31 - numbers,
        past_weights=[Path("a"), None],
    )
    return replace(now, **more)


def learner(kind: str = "preference", processes: int = 1, **settings) -> Learner:
    several = {"launch": {"num_processes": processes}} if processes > 1 else {}
    return Learner.build(
        {"kind": kind, **QUICK, "batch_size": 8 // processes, **several, **settings}
    )


def weights_of(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    (file,) = folder.glob("*.safetensors")
    return load_file(file)


def assert_same(first: Path, second: Path, atol: float = 2e-6) -> None:
    one, two = weights_of(first), weights_of(second)
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=0, atol=atol, err_msg=name)


def told(lines: list[dict]) -> list[dict]:
    """Lines to compare others with: the same but for rounding, whatever a clock said."""
    close = [
        {name: pytest.approx(value, rel=2e-4, abs=1e-9) for name, value in line.items()}
        for line in lines
    ]
    return [{**line, "tokens_per_second": ANY} for line in close]


def moved(folder: Path, model: Path) -> float:
    """How far the training has taken a weight; what the comparisons are held against."""
    name = "model.embed_tokens.weight"
    return float(np.abs(weights_of(folder)[name] - weights_of(model)[name]).max())


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, {"r": 4}], ids=["full", "lora"])
@pytest.mark.parametrize("kind", ["preference", "sft"])
def test_two_processes_learn_what_one_does(model_folder, tmp_path, kind, lora):
    model = model_folder("llama")
    alone, together = [], []
    one = training_batch(model, tmp_path / "one", lora=lora, log=alone.append)
    two = training_batch(model, tmp_path / "two", lora=lora, log=together.append)
    assert learner(kind).learn(one) == {
        k: pytest.approx(v, rel=2e-4) for k, v in learner(kind, 2).learn(two).items()
    }
    assert together == told(alone)
    assert len(alone) == 3 == learner(kind, 2).steps(11)
    assert_same(one.output, two.output)
    assert {file.name for file in one.output.iterdir()} == {
        file.name for file in two.output.iterdir()
    }
    if lora is None:
        assert moved(one.output, model) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, {"r": 4}], ids=["full", "lora"])
def test_processes_that_stay_learn_generation_after_generation_as_new_ones(
    model_folder, tmp_path, lora
):
    """Whose first generation is the second's start, and which begin at once."""
    model = model_folder("llama")
    standing = StandingGroup()
    homes: dict[str, list[Path]] = {"stay": [], "new": []}
    began: list[float] = []
    for name, group in (("stay", standing), ("new", None)):
        for generation, loss in enumerate(("dpo", "ipo")):
            home = tmp_path / f"{name} {generation}"
            given = training_batch(model, home, lora=lora, loss=loss, standing=group)
            weights = homes[name][-1] if homes[name] else None
            learner("preference", 2).learn(replace(given, weights=weights, seed=generation))
            homes[name].append(given.output)
            if group is not None:
                began.append(psutil.Process(group._group._process.pid).create_time())
    standing.close()
    assert began[0] == began[1]
    for stayed, new in zip(*homes.values(), strict=True):
        assert_same(stayed, new, atol=0)
    first, second = (weights_of(home) for home in homes["stay"])
    assert any((first[name] != second[name]).any() for name in first)


@pytest.mark.slow
def test_two_machines_find_each_other_and_number_themselves(model_folder, tmp_path):
    """Both are this one: the prefix starts the command twice, as srun would on two."""
    model = model_folder("llama")
    one, two = (training_batch(model, tmp_path / "one"), training_batch(model, tmp_path / "two"))
    twice = (
        tmp_path / "twice.sh"
    )  # a machine of rank 0 insists on a port that nobody listens on yet
    twice.write_text('"${@:1:4}" --machine_rank 1 "${@:5}" &\n"$@"\nwait\n')
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    config = {
        "distributed_type": "MULTI_GPU",
        "num_processes": 2,
        "num_machines": 2,
        "rdzv_backend": "c10d",
        "same_network": False,
        "main_process_ip": "localhost",
        "main_process_port": port,
    }
    several = learner(batch_size=4, launch={"config": config})
    with machine(launch_prefix=f"bash {twice}"):
        learned = several.learn(two)
    assert learned == {k: pytest.approx(v, rel=2e-4) for k, v in learner().learn(one).items()}
    assert_same(one.output, two.output)


SAVING = {"epochs": 6, "save_steps": 1}
STARTED = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from test_launch import SAVING, learner, training_batch
batch = training_batch(Path({model!r}), Path({folder!r}))
learner("preference", 2, **SAVING).learn(batch)
"""


@pytest.mark.slow
def test_what_was_killed_or_interrupted_leaves_no_process_and_goes_on(model_folder, tmp_path):
    model, folder = model_folder("llama"), tmp_path / "two"
    whole = training_batch(model, tmp_path / "one")
    learner("preference", **SAVING).learn(whole)
    tests = Path(__file__).parents[1]
    places = [str(tests / "learners"), str(tests), str(tests / "helpers")]
    script = STARTED.format(path=places, model=str(model), folder=str(folder))
    parent = subprocess.Popen([sys.executable, "-c", script])
    while not list(folder.glob("scratch/checkpoint-*/complete")):
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    until = time.monotonic() + 20
    while processes_with(folder / "scratch") and time.monotonic() < until:
        time.sleep(0.1)
    assert not processes_with(folder / "scratch")

    lines = []

    def interrupt(line):
        lines.append(line)
        if line["step"] == 5:
            raise KeyboardInterrupt

    now = replace(
        training_batch(model, tmp_path / "again"),
        output=folder / "home",
        scratch=folder / "scratch",
        log=interrupt,
    )
    with pytest.raises(KeyboardInterrupt):
        learner("preference", 2, **SAVING).learn(now)
    time.sleep(1)
    assert not processes_with(folder / "scratch")
    before = len(lines)
    facts = learner("preference", 2, **SAVING).learn(replace(now, log=lines.append))
    assert [line["step"] for line in lines[before:]] == list(range(1, 10))
    assert facts["steps"] == 9
    assert_same(whole.output, now.output, atol=1e-5)


@pytest.mark.slow
def test_errors_and_crashes_in_the_processes_are_told(model_folder, tmp_path):
    model = model_folder("llama")
    with pytest.raises(
        EquipoiseError, match=r"at step \d+ of 3: lower learner.learning_rate \(now 1e\+30\)"
    ):
        learner("preference", 2, learning_rate=1e30, warmup_ratio=0).learn(
            training_batch(model, tmp_path / "a")
        )
    with pytest.raises(
        EquipoiseError, match=r"(?s)log.txt.*in rows.*RuntimeError: the user's own loss is broken$"
    ):
        learner("preference", 2).learn(
            training_batch(model, tmp_path / "b", loss="test_launch:Broken")
        )
    config = {"distributed_type": "NO", "num_processes": 2}
    with pytest.raises(ConfigError, match=r" 2 processes, but accelerate started 1;"):
        learner(launch={"config": config}).learn(training_batch(model, tmp_path / "c"))
    with pytest.raises(EquipoiseError, match=r"(?s)exit code 1; the end of .*log.txt:.*NONE_SUCH"):
        config = {"distributed_type": "NONE_SUCH", "num_processes": 2}
        learner(launch={"config": config}).learn(training_batch(model, tmp_path / "d"))


def test_a_training_batch_is_read_as_it_was_written(tmp_path):
    now = training_batch(
        tmp_path / "model", tmp_path / "one", lora={"r": 4}, loss="test_launch:Doubled"
    )
    some = learner("sft", 2)
    write_batch(tmp_path, some, now)
    opened = Resources()
    again, found = read_batch(tmp_path, now.log, opened)
    assert found.resources is opened
    assert again == some
    assert type(found.loss) is Doubled
    for field in fields(TrainingBatch):
        one, two = getattr(now, field.name), getattr(found, field.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, two)
        elif field.name == "past_weights":
            assert two == [Path("a").absolute(), None]
        elif field.name != "resources":  # each process has its own
            assert one == two and type(one) is type(two), field.name


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_configuration_is_one_of_accelerate(name, tmp_path):
    from accelerate.commands.config.config_args import load_config_from_file

    file = tmp_path / "accelerate.yaml"
    file.write_text(
        yaml.safe_dump(Launch.model_validate({"config": name, "num_processes": 6}).accelerate())
    )
    found = load_config_from_file(str(file))
    kinds = {"ddp": "MULTI_GPU", "fsdp2": "FSDP", "deepspeed_zero3": "DEEPSPEED"}
    assert (found.distributed_type.value, found.num_processes, found.mixed_precision) == (
        kinds[name],
        6,
        "no",
    )
    assert name != "fsdp2" or found.fsdp_config["fsdp_version"] == 2
    assert name != "deepspeed_zero3" or found.deepspeed_config["zero_stage"] == 3


def test_a_launch_is_read_early_and_resolved_once(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("{distributed_type: MULTI_GPU, num_processes: 4, main_process_port: 1234}")
    now = Launch.model_validate({"config": str(own)})
    own.unlink()
    assert Launch.model_validate(now.model_dump(mode="json")) == now
    assert now.processes == 4
    with machine(launch_prefix="nice -n 1"):
        words = now.command(tmp_path)
    assert words[:3] == ["nice", "-n", "1"]
    assert "--main_process_port" not in words
    assert (
        Launch.model_validate({"num_processes": 3}).accelerate()["distributed_type"] == "MULTI_GPU"
    )
    for wrong, message in [
        ({}, "needs a config"),
        ({"config": "fsdp"}, "did you mean 'fsdp2'"),
        ({"config": {"distributed_type": "FSDP"}}, "give launch.num_processes"),
        ({"config": "none.yaml"}, "no such"),
    ]:
        with pytest.raises(ValidationError, match=message):
            Launch.model_validate(wrong)


@pytest.mark.parametrize("number", [0, "two", None])
def test_a_number_of_processes_is_a_number_from_one_on(number):
    with pytest.raises(ValidationError, match=r"has no num_processes; give launch\.num_processes"):
        Launch(config={"num_processes": number})
    assert Launch(config={"num_processes": number}, num_processes=1).processes == 1
    assert Launch(config={"num_processes": 1}).accelerate() == {"num_processes": 1}


def test_the_launcher_starts_a_worker_in_the_folder(tmp_path):
    assert Launch(config={"num_processes": 2}).command(tmp_path) == [
        *python_command("accelerate.commands.launch"),
        *("--config_file", str(tmp_path / "accelerate.yaml"), "--no_python"),
        *("--main_process_port", "0"),
        *python_command("equipoise.learners.training_worker", tmp_path),
    ]


def test_equal_steps_however_they_are_divided():
    lengths = [n * 7 % 13 for n in range(70)]
    orders = {
        tuple(
            learner(batch_size=size, gradient_accumulation=accumulation).order(
                lengths, 5, processes
            )
        )
        for size, accumulation, processes in ((8, 1, 1), (4, 2, 1), (4, 1, 2), (2, 2, 2), (1, 1, 8))
    }
    assert len(orders) == 1
    assert learner(processes=2).steps(70) == learner().steps(70) == 18
    large = learner(batch_size=16, gradient_accumulation=2).order(lengths, 5, 2)
    assert sorted(large) == sorted([*range(70)] * 2)
    for begin in range(0, 140, 64):
        step = [lengths[i] for i in large[begin : begin + 64]]
        assert step == sorted(step, reverse=True)
        assert len(set(step)) > 5


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["preference", pytest.param("sft", marks=pytest.mark.slow)]
)  # sft: the same trainer with another objective
def test_accumulated_batches_learn_what_one_batch_does(model_folder, tmp_path, kind):
    one, two = (training_batch(model_folder("llama"), tmp_path / name) for name in ("one", "two"))
    first = learner(kind).learn(one)
    second = learner(kind, batch_size=3, gradient_accumulation=2).learn(two)
    assert second["loss"] != pytest.approx(first["loss"], rel=1e-3)  # steps of six
    second = learner(kind, batch_size=2, gradient_accumulation=4).learn(two)
    assert second == {
        name: pytest.approx(value, rel=2e-4, abs=1e-9) for name, value in first.items()
    }
    assert_same(one.output, two.output)


def test_rows_fill_up_the_last_step_and_do_not_count():
    from equipoise.learners.answer_trainer import Row, _filling
    from equipoise.models.packing import PromptAnswers as Ids

    rows = [Row(Ids([1] * n, [[2]])) for n in (5, 3, 4)]
    assert _filling(rows, 4, 1) == [] == _filling(rows[:2], 1, 2)
    assert [(row.length, row.counts) for row in _filling(rows, 2, 2)] == [(4, False)]
    assert len(_filling(rows, 4, 2)) == 5


def test_an_error_and_a_crash(tmp_path):
    (tmp_path / "log.txt").write_text("first\n" + "more\n" * 20 + "Killed")
    crash = process_group.failure(tmp_path, -9)
    assert isinstance(crash, GroupLostError)
    assert re.search(r"(?s)exit code -9.*log.txt:.*Killed", str(crash))

    def leave(rank, kind, message, alone=False):
        why = {"kind": kind, "message": message, "alone": alone}
        (tmp_path / f"error-{rank}.json").write_text(json.dumps(why))
        return process_group.failure(tmp_path, 1)

    assert isinstance(leave(2, "", "Connection closed by peer", True), GroupLostError)
    foreign = leave(10, "", "Traceback …\nKeyError: 'x'")
    assert type(foreign) is EquipoiseError
    assert str(foreign).endswith("log.txt):\nTraceback …\nKeyError: 'x'")
    ours = leave(11, "NoSignal", "policy@0 has no example")
    assert isinstance(ours, NoSignal)
    assert str(ours) == "policy@0 has no example"


def test_what_comes_of_another_process_that_ended_and_what_does_not():
    def raised(act):
        with pytest.raises(Exception) as caught:
            act()
        return is_left_alone(caught.value)

    def own():
        raise RuntimeError("Connection closed by peer")

    assert raised(lambda: torch.zeros(1).backward())
    store = torch.distributed.HashStore()
    store.set_timeout(timedelta(milliseconds=1))
    assert raised(lambda: store.get("none"))
    assert not raised(own)
    assert not raised(lambda: torch.nn.Linear(2, 2)(torch.zeros(3)))
    assert not raised(lambda: torch.zeros(2) + torch.zeros(3))


@pytest.mark.parametrize("port", [None, 29501])
def test_processes_meet_at_a_free_port_unless_one_is_named(tmp_path, port):
    config = tmp_path / "mine.yaml"
    config.write_text(f"{{num_processes: 2, main_process_port: {port or 'null'}}}")
    command = Launch.model_validate({"config": str(config)}).command(tmp_path)
    assert ("--main_process_port" in command) == (port is None)
    assert command[-1] == str(tmp_path)


def test_a_launcher_is_ended_with_its_group():
    launcher = start_process(["sh", "-c", "sleep 60 & wait"])
    process_group._end(launcher)
    assert launcher.returncode == -signal.SIGTERM
    process_group._end(launcher)


def test_processes_see_that_who_gives_orders_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(process_group, "BEAT_SECONDS", 0.005)
    with process_group._show_alive(tmp_path):
        assert (tmp_path / process_group.HOST).read_text() == this_machine()
        seen = [0]
        while len(seen) < 4:
            beat = tmp_path / process_group.BEAT
            written = beat.read_text() if beat.exists() else ""
            if written and int(written) != seen[-1]:  # empty: read while it is being written
                seen.append(int(written))
        assert seen == sorted(seen)
        with open(tmp_path / process_group.PARENT) as file, pytest.raises(BlockingIOError):
            lock(file, shared=True, wait=False)
    wait_for_lock(tmp_path / process_group.PARENT)


class Noted(PolicyGradient):
    """A learner that trains nothing, and says what it was asked."""

    kind: str = "test_launch:Noted"  # pyright: ignore
    launch: Launch | None = Launch(num_processes=1)

    def learn(self, batch):
        batch.log({"step": 1, "launched": batch.launched})
        return {"steps": 1.0, "seed": float(batch.seed)}

    def save_state(self, batch):
        batch.output.joinpath("saved").write_text(str(batch.launched))


class Fails(Noted):
    """One that cannot go on."""

    kind: str = "test_launch:Fails"  # pyright: ignore

    def learn(self, batch):
        raise NoSignal("nothing here")


def ordered(folder, number, learner, batch):
    place = folder / str(number)
    place.mkdir()
    write_batch(place, learner, batch)
    return place


def test_a_process_does_what_it_is_told(tmp_path, model_folder):
    batch = training_batch(model_folder("llama"), tmp_path)
    place = ordered(tmp_path, 1, Noted(), batch)
    told = io.StringIO()
    facts = training_worker.carry_out(place, "learn", Resources(), told)
    assert facts == {"steps": 1.0, "seed": 11.0}
    assert told.getvalue() == '{"log": {"step": 1, "launched": true}}\n'
    assert training_worker.carry_out(place, "learn", Resources(), None) == facts
    assert training_worker.carry_out(place, "save_state", Resources(), None) == {}
    assert (batch.output / "saved").read_text() == "True"
    two = ordered(tmp_path, 2, Noted(launch=Launch(num_processes=2)), batch)
    with pytest.raises(ConfigError, match=r"asks for 2 processes, but accelerate started 1; "):
        training_worker.carry_out(two, "learn", Resources(), None)


def test_orders_are_taken_once_each_until_the_last(tmp_path, monkeypatch):
    file, slept = tmp_path / process_group.ORDER, []
    texts = ['{"number": 1, "what": "le', '{"number": 1, "what": "learn"}\n']
    texts += ['{"number": 2, "what": "save_state"}\n', '{"number": 2, "what": "end"}\n']

    def sleep(seconds):
        slept.append(seconds)
        file.write_text(texts.pop(0))

    monkeypatch.setattr(training_worker.time, "sleep", sleep)
    file.touch()
    found = [*training_worker.orders(file)]
    assert found == [(1, "learn"), (2, "save_state")]
    assert not texts
    assert slept == [0.05] * 4


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_process_answers_each_order(tmp_path, model_folder, monkeypatch, rank):
    batch = training_batch(model_folder("llama"), tmp_path)
    place = ordered(tmp_path, 1, Noted(), batch)
    orders = iter([(1, "learn")])
    monkeypatch.setattr(training_worker, "orders", lambda file: orders)
    training_worker._serve(tmp_path, rank)
    lines = [json.loads(line) for line in (place / process_group.LINES).read_text().splitlines()]
    said = [{"log": {"step": 1, "launched": True}}, {"facts": {"steps": 1.0, "seed": 11.0}}]
    assert lines == (said if rank == 0 else [])


@pytest.mark.parametrize("rank", [0, 1])
def test_no_process_goes_on_before_the_others(tmp_path, model_folder, monkeypatch, rank):
    """What several processes share is stood in for, and says what was answered by then."""
    batch = training_batch(model_folder("llama"), tmp_path)
    place, calls = ordered(tmp_path, 1, Noted(), batch), []

    def call(name):
        calls.append((name, "facts" in (place / process_group.LINES).read_text()))

    class Together:
        def wait_for_everyone(self):
            call("wait")

        def destroy_process_group(self):
            call("leave")

    monkeypatch.setattr("accelerate.PartialState", Together)
    monkeypatch.setattr(training_worker, "orders", lambda file: iter([(1, "learn")]))
    training_worker._serve(tmp_path, rank)
    said = rank == 0
    assert calls == [("wait", False), ("wait", said), ("leave", said)]
    monkeypatch.setattr(training_worker, "orders", lambda file: iter([]))
    training_worker._serve(tmp_path, rank)
    assert len(calls) == 3


class Looks(Noted):
    """One that sees what has been told so far."""

    kind: str = "test_launch:Looks"  # pyright: ignore

    def learn(self, batch):
        batch.log({"step": 1})
        return {"told": float((batch.scratch / "told").read_text().count("step"))}


def test_a_line_is_told_at_once(tmp_path, model_folder):
    batch = training_batch(model_folder("llama"), tmp_path)
    batch.scratch.mkdir()
    place = ordered(tmp_path, 1, Looks(), batch)
    with open(batch.scratch / "told", "a") as answers:
        assert training_worker.carry_out(place, "learn", Resources(), answers) == {"told": 1}


@pytest.mark.parametrize("here", [True, False])
def test_a_process_ends_with_the_one_that_gives_orders(tmp_path, monkeypatch, here):
    """By its lock on one machine, by its silence on another."""
    did = []
    (tmp_path / process_group.HOST).write_text(this_machine() if here else "another")
    for name in ("wait_for_lock", "wait_for_silence"):
        monkeypatch.setattr(training_worker, name, lambda file, n=name: did.append((n, file.name)))
    monkeypatch.setattr(training_worker.os, "_exit", did.append)
    training_worker._end_with_parent(tmp_path)
    way = ("wait_for_lock", "parent.lock") if here else ("wait_for_silence", "parent.beat")
    assert did == [way, 1]


def test_a_lock_is_waited_for_by_several(tmp_path, monkeypatch):
    slept = []
    with (tmp_path / "held").open("w") as held, (tmp_path / "held").open() as other:
        lock(held)

        def sleep(seconds):
            slept.append(seconds)
            if len(slept) == 2:
                held.close()
                lock(other, shared=True)  # another that waits has seen it

        monkeypatch.setattr(training_worker.time, "sleep", sleep)
        wait_for_lock(tmp_path / "held")
    assert slept == [0.5, 0.5]


@pytest.mark.long
def test_a_process_of_its_own_takes_orders_until_who_gives_them_has_gone(tmp_path):
    command = [sys.executable, "-m", "equipoise.learners.training_worker", str(tmp_path)]
    (tmp_path / process_group.ORDER).touch()
    (tmp_path / process_group.HOST).write_text(this_machine())
    with open(tmp_path / process_group.PARENT, "w") as held:
        lock(held)
        (tmp_path / process_group.ORDER).write_text('{"number": 0, "what": "end"}\n')
        assert subprocess.run(command, check=False).returncode == 0
        (tmp_path / process_group.ORDER).write_text('{"number": 1, "what": "learn"}\n')
        broken = subprocess.run(command, check=False, capture_output=True)
        assert broken.returncode == 1
        assert b"FileNotFoundError" in broken.stderr
        reason = json.loads((tmp_path / "error-0.json").read_text())
        assert (reason["kind"], reason["alone"]) == ("", False)
    (tmp_path / process_group.ORDER).write_text("")
    assert subprocess.run(command, check=False).returncode == 1


@pytest.mark.long
def test_what_goes_wrong_in_a_process_is_left_for_the_one_that_gives_orders(
    tmp_path, model_folder, monkeypatch
):
    ordered(tmp_path, 1, Fails(), training_batch(model_folder("llama"), tmp_path))
    (tmp_path / process_group.ORDER).write_text('{"number": 1, "what": "learn"}\n')
    (tmp_path / process_group.LOG).touch()
    monkeypatch.setattr(training_worker, "_end_with_parent", lambda folder: None)
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(NoSignal):
        training_worker.main(tmp_path)
    assert [path.name for path in tmp_path.glob("error-*")] == ["error-3.json"]
    again = process_group.failure(tmp_path, 1)
    assert isinstance(again, NoSignal)
    assert str(again) == "nothing here"


def test_silence_is_no_change_for_a_while(tmp_path, monkeypatch):
    """By a clock of the test's own: the file appears after 3 seconds, and changes after 8."""
    beat, now = tmp_path / process_group.BEAT, [0.0]

    def sleep(seconds):
        assert seconds == min(1.0, patience / 10)
        now[0] += seconds
        for when, text in ((3, "1"), (8, "2")):
            if now[0] == when:
                beat.write_text(text)

    monkeypatch.setattr(training_worker.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(training_worker.time, "sleep", sleep)
    for patience, end in ((10.0, 18.0), (2.5, 20.5)):
        wait_for_silence(beat, patience)
        assert now[0] == end


def test_lines_are_handed_on_once_they_are_whole(tmp_path):
    file, found, looks = tmp_path / "lines", [], iter(["", "1\n2", "\n", "3\n4"])

    def has_ended(seconds):
        assert seconds == 0.1
        text = next(looks)
        if text:
            with file.open("a") as lines:
                lines.write(text)
        return text == "3\n4"

    process_group.follow_lines(has_ended, file, found.append)
    assert found == [1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "divides", "accelerators", "sharding"),
    [
        ({"num_processes": 2}, False, True, None),
        ({"config": "ddp", "num_processes": 2}, False, True, None),
        ({"config": "fsdp2", "num_processes": 2}, True, True, Sharding(reshard=True)),
        ({"config": "deepspeed_zero3", "num_processes": 2}, True, True, Sharding(reshard=True)),
        (
            {"config": {"distributed_type": "FSDP", "fsdp_config": KEPT, "num_processes": 3}},
            *(True, True, Sharding(reshard=False)),
        ),
        ({"config": {"distributed_type": "NO", "num_processes": 1}}, False, False, None),
    ],
)
def test_what_a_launch_divides(settings, divides, accelerators, sharding):
    launch = Launch.model_validate(settings)
    assert (launch.divides_weights, launch.on_accelerators) == (divides, accelerators)
    assert Sharding.of(launch) == sharding
    assert Sharding.of(None) is None
    assert launch.accelerate()["num_processes"] == launch.processes


def test_portions_of_work_are_dealt_out_so_that_all_compute_equally_many():
    portions = [[0, 1], [2], [3, 4], [5], [6]]
    ranks = [ProcessRank(torch.device("cpu"), 3, i).portions_here(portions) for i in range(3)]
    assert ranks == [
        [([0, 1], 1.0), ([5], 1.0)],
        [([2], 1.0), ([6], 1.0)],
        [([3, 4], 1.0), ([0, 1], 0.0)],
    ]
    alone = ProcessRank(torch.device("cpu"))
    assert alone.portions_here(portions) == [(rows, 1.0) for rows in portions]
    value = torch.ones(2)
    assert alone.add_up(value) is value
