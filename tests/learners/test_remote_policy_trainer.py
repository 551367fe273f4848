"""Updates of a policy gradient in processes that stay: the same as in processes that start anew for
each, or in none, also with weights in shares; what is lost is noticed, and nothing is left behind.
"""

import io
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import psutil
import pytest
import torch
from pydantic import ValidationError
from small_runs import processes_with
from test_policy_trainer import learn, played

from equipoise.errors import ConfigError, EquipoiseError, RunError
from equipoise.games.answers import Answers
from equipoise.learners import remote_policy_trainer
from equipoise.learners.estimators import GroupRelative
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_trainer import PolicyTrainer
from equipoise.learners.process_group import GroupLostError, ProcessGroup, write_batch
from equipoise.learners.remote_policy_trainer import RemotePolicyTrainer
from equipoise.learners.sampled_policy import EngineAdapters, PolicyState, PolicyUpdate
from equipoise.learners.sharding import ProcessRank
from equipoise.learners.training_worker import carry_out, orders
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.sampling.engines.base import EngineAdapter
from equipoise.system.folder import draft_name
from equipoise.types import PlayerId

WITH_CRITIC = {"estimator": "gae", "critic": "model", "entropy": 0.01}


@pytest.fixture
def standing(model_folder, tmp_path):
    """standing(lora=…, launch={…}, **settings) -> a trainer of the tiny Llama; the same in this
    process where `launch` is None.
    """
    opened = []

    def build(launch=None, lora=None, **settings):
        given = {
            "kind": "local",
            "model": str(model_folder("llama")),
            "lora": lora,
            "learns": True,
            "device": "cpu",
            "max_new_tokens": 5,
            "max_length": 128,
        }
        learner = PolicyGradient.model_validate(
            {
                "learning_rate": 1e-4,
                "warmup_steps": 0,
                "batch_size": 3,
                "launch": launch,
                **settings,
            }
        )
        shared = (learner, Player.build(given), "policy", 3, Resources())
        if launch is None:
            return PolicyTrainer(*shared)
        scratch = tmp_path / f"scratch-{len(opened)}"
        opened.append(RemotePolicyTrainer(*shared, None, scratch, Answers()))
        return opened[-1]

    yield build
    for trainer in opened:
        trainer.close()


def apart(one, two) -> float:
    """How far two trainers' weights are apart."""
    first, second = (t.policy.trained_parameters() for t in (one, two))
    assert first.keys() == second.keys()
    return max((first[name] - second[name]).abs().max().item() for name in first)


def updated(trainer, count, *, close=False, folder: Path | None = None):
    """The facts of so many updates of moves that are the same for everybody; `close`: the processes
    end after each, and others go on from the state.
    """
    torch.manual_seed(0)
    facts = []
    for _ in range(count):
        facts.append(learn(trainer, played(trainer)))
        if close:
            state = folder / str(trainer.learner.generation)
            state.mkdir(parents=True)
            trainer.save_state(state)
            trainer.load(state, trainer.learner.generation)
    return facts


class GroupHere(ProcessGroup):
    """A group of one process, which is this one: orders are written, read and carried out."""

    opened = closed = 0

    def __init__(self, launch, folder):
        self._folder, self._number = folder / str(GroupHere.opened), 0
        self._resources, self._lines = Resources(), io.StringIO()
        GroupHere.opened += 1

    def _give_order(self, kind, learner, batch):
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir(parents=True)
        write_batch(folder, learner, batch)
        facts = carry_out(folder, kind, self._resources, self._lines)
        for line in self._lines.getvalue().splitlines():
            batch.log(json.loads(line)["log"])
        self._lines = io.StringIO()
        return facts

    def close(self):
        GroupHere.closed += 1


@pytest.mark.long
def test_what_is_ordered_is_what_one_process_learns(standing, tmp_path, monkeypatch):
    """Two updates, a state, and one more by a process that takes it up: to the last bit."""
    monkeypatch.setattr(remote_policy_trainer, "ProcessGroup", GroupHere)
    settings: dict = {"estimator": "gae", "critic": "head", "kl": 0.1, "warmup_steps": 5}
    settings["lora"] = {"r": 2}
    one, ordered = standing(**settings), standing({"num_processes": 1}, **settings)
    monkeypatch.setattr(GroupHere, "opened", 0)
    monkeypatch.setattr(GroupHere, "closed", 0)
    lines: list[list[dict]] = [[], []]
    for update in range(3):
        for trainer, told in zip((one, ordered), lines, strict=True):
            facts = learn(trainer, played(trainer, update), update, told)
            told[-1] |= facts
            del told[-1]["tokens_per_second"]
        if update == 1:
            ordered.save_state(tmp_path)
            ordered.load(tmp_path, 2)
    assert lines[0] == lines[1]
    assert apart(one, ordered) == 0
    assert str(ordered.learner) == "policy@3"
    assert (GroupHere.opened, GroupHere.closed) == (2, 1)
    with pytest.raises(ConfigError, match="asks for 2 processes, but accelerate started 1"):
        learn(standing({"num_processes": 2}, **settings), played(one))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "lora", "settings"),
    [
        pytest.param("ddp", {"r": 2}, {"estimator": "group_relative"}, id="ddp, lora"),
        pytest.param("fsdp2", None, WITH_CRITIC, id="fsdp2, critic"),
    ],
)
def test_two_processes_that_stay_learn_what_one_does(standing, tmp_path, config, lora, settings):
    launch = {"config": config, "num_processes": 2}
    one = standing(lora=lora, **settings)
    two = standing(launch, lora, **settings)
    again = standing(launch, lora, **settings)
    expected = updated(one, 2)
    close = [pytest.approx(f, rel=1e-3, abs=2e-6) for f in expected]
    facts = updated(two, 2)
    assert facts == close
    assert apart(one, two) < 2e-7
    two.assert_agreement(two.actor)

    state = tmp_path / "state"
    state.mkdir()
    two.save_state(state)
    saved = PolicyState.read(state)  # whole, whoever held which share
    mine = one.optimizer.adamw.state_dict()["state"]
    assert saved.steps == 2
    assert saved.optimizer["state"].keys() == mine.keys()
    for number, moments in mine.items():
        for name, value in moments.items():
            torch.testing.assert_close(saved.optimizer["state"][number][name], value)

    # others, from the state, for every update: equal to the bit
    assert updated(again, 2, close=True, folder=tmp_path / "each") == facts
    assert apart(again, two) == 0
    one.load(state, 2)
    assert apart(one, two) == 0


@pytest.mark.slow
def test_a_process_that_is_killed_is_noticed_and_none_is_left(standing, tmp_path):
    trainer = standing({"num_processes": 2}, estimator="group_relative")
    taught = played(trainer)
    learn(trainer, taught)
    scratch = tmp_path / "scratch-0"
    workers = [
        pid
        for pid in processes_with(scratch)
        if "equipoise.learners.training_worker" in psutil.Process(pid).cmdline()
        and "accelerate.commands.launch" not in psutil.Process(pid).cmdline()
    ]
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    with pytest.raises(GroupLostError, match=r"(?s)log.txt"):
        learn(trainer, taught)
    with pytest.raises(GroupLostError):
        learn(trainer, taught)
    until = time.monotonic() + 20
    while processes_with(scratch) and time.monotonic() < until:
        time.sleep(0.1)
    assert not processes_with(scratch)


class Broken(GroupRelative):
    """A user's own estimator, which fails in one of the processes."""

    kind: str = "test_remote_policy_trainer:Broken"  # pyright: ignore
    killed: bool = False

    def advantages(self, batch, reward_BT, baselines):
        if os.environ.get("RANK") == "1":
            if self.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyError("the user's own")
        return super().advantages(batch, reward_BT, baselines)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_an_exception_is_told_from_a_process_that_was_lost(standing, killed):
    estimator = {"kind": "test_remote_policy_trainer:Broken", "killed": killed}
    trainer = standing({"num_processes": 2}, estimator=estimator)
    with pytest.raises(EquipoiseError) as error:
        learn(trainer, played(trainer))
    if killed:
        assert isinstance(error.value, GroupLostError)
    else:
        assert type(error.value) is EquipoiseError
        told = r"(?s)log.txt\):\nTraceback.*in advantages.*KeyError: \"the user's own\"$"
        assert re.search(told, str(error.value))


def test_every_process_computes_equally_many_portions():
    device = torch.device("cpu")

    def own(count, index):
        return ProcessRank(device, 3, index).portions_here([[n] for n in range(count)])

    assert [own(4, index) for index in range(3)] == [
        [([0], 1.0), ([3], 1.0)],
        [([1], 1.0), ([0], 0.0)],
        [([2], 1.0), ([0], 0.0)],
    ]
    alone = ProcessRank(device)
    assert alone.portions_here([[0], [1]]) == [([0], 1.0), ([1], 1.0)]
    value = torch.ones(2)
    assert alone.processes == 1
    assert alone.add_up(value) is value


def test_an_order_is_obeyed_once_it_is_whole(tmp_path):
    file = tmp_path / "order.json"
    file.write_text('{"number": 1, "what": "learn"}\n')
    given = orders(file)
    assert next(given) == (1, "learn")
    file.write_text('{"number": 2, "what": "save_state"}\n')
    assert next(given) == (2, "save_state")
    file.write_text('{"number": 2, "what": "end"}\n')
    assert list(given) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("deepspeed_zero3", "not by DeepSpeed"),
        (
            {
                "distributed_type": "FSDP",
                "num_processes": 2,
                "fsdp_config": {"fsdp_offload_params": True},
            },
            "fsdp_offload_params: false",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused(config, message):
    with pytest.raises(ValidationError, match=message):
        PolicyGradient.model_validate({"launch": {"config": config}})


def test_an_adapter_is_not_divided():
    learner = PolicyGradient.model_validate({"launch": {"config": "fsdp2"}})
    whole, adapter = (
        Player.build({"kind": "local", "learns": True, "lora": lora}) for lora in (None, {"r": 2})
    )
    assert list(learner.faults(whole, Answers())) == []
    assert "with lora, use ddp" in str(list(learner.faults(adapter, Answers())))


def adapter_policy(start=None):
    """A policy of one adapter, which writes its name."""

    def save(folder):
        (folder / "adapter_model.safetensors").write_bytes(folder.name.encode())

    return SimpleNamespace(player=SimpleNamespace(start=start), save=save)


def test_an_engine_has_the_two_newest_adapters(tmp_path):
    learner = PlayerId("policy", 0)
    adapters = EngineAdapters(adapter_policy(), tmp_path, lambda: learner)
    assert adapters.newest() is None  # the base that it began with
    # what a process that was killed had written of it, whole or in part, is written anew
    for left in ("10", draft_name("10")):
        (tmp_path / left).mkdir()
        (tmp_path / left / "old").touch()
    for generation in (1, 2, 10, 9):
        learner = PlayerId("policy", generation)
        adapters.newest()
    assert [path.name for path in (tmp_path / "10").iterdir()] == ["adapter_model.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10", "9"]


def test_an_adapter_is_written_once_and_takes_the_place_of_what_a_crash_left(tmp_path):
    for left in ("3", draft_name("3")):
        (tmp_path / left).mkdir()
        (tmp_path / left / "half").touch()
    learner = PlayerId("policy", 3)
    adapters = EngineAdapters(adapter_policy(), tmp_path, lambda: learner)
    third = adapters.newest()
    assert [path.name for path in tmp_path.iterdir()] == ["3"]
    [written] = (tmp_path / "3").iterdir()
    assert written.name == "adapter_model.safetensors"
    assert written.read_text().startswith(".3.draft.")
    assert third == EngineAdapter.of("policy@3", tmp_path / "3")
    (tmp_path / "3" / "adapter_model.safetensors").write_text("as it was sent")
    assert adapters.newest() is third
    learner = PlayerId("policy", 4)
    assert adapters.newest() == EngineAdapter.of("policy@4", tmp_path / "4")
    assert (tmp_path / "3" / "adapter_model.safetensors").read_text() == "as it was sent"


def test_an_engine_begins_with_the_adapter_that_was_given_and_needs_no_folder(tmp_path):
    learner = PlayerId("policy", 0)
    given = tmp_path / "given"
    given.mkdir()
    (given / "adapter_model.safetensors").write_bytes(b"given")
    adapters = EngineAdapters(adapter_policy(given), None, lambda: learner)
    first = adapters.newest()
    assert first == EngineAdapter.of("policy@0", given)
    assert adapters.newest() is first
    homes = set()
    for generation in (1, 2, 3):
        learner = PlayerId("policy", generation)
        found = adapters.newest()
        assert found is not None
        assert found.folder.name == str(generation)
        homes.add(found.folder.parent)
    (home,) = homes
    assert home.name.startswith("equipoise-adapters-")
    assert sorted(path.name for path in home.iterdir()) == ["2", "3"]
    shutil.rmtree(home)


def test_an_update_is_read_alone_or_out_of_a_state(tmp_path):
    probe = [([1, 2], [3])]
    state = PolicyState({"w": torch.ones(2)}, None, {"state": {}}, 0.1, 5, {"first": 0.5}, probe)
    state.write(tmp_path)
    assert vars(PolicyState.read(tmp_path)) == {**vars(state), "weights": ANY}
    found = PolicyUpdate.read(tmp_path)
    assert found.weights["w"].tolist() == [1, 1]
    assert found.probe == probe
    PolicyUpdate({"w": torch.zeros(2)}, []).write(tmp_path)
    found = PolicyUpdate.read(tmp_path)
    assert found.weights["w"].tolist() == [0, 0]
    assert found.probe == []
    (tmp_path / "update.pt").write_bytes(b"torn")
    with pytest.raises(RunError, match=r"update\.pt: is missing or damaged"):
        PolicyUpdate.read(tmp_path)
    with pytest.raises(RunError, match=r"none/state\.pt: is missing or damaged"):
        PolicyState.read(tmp_path / "none")
