"""Weights in shares: a process group of this process alone, and one of two."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from equipoise.errors import ConfigError
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.policy_trainer import PolicyOptimizer
from equipoise.learners.sharding import ProcessRank, Sharding, distribute_like, gather, place_model
from equipoise.learners.trainable_model import Critic

CPU = torch.device("cpu")
INPUTS_BI = torch.arange(12.0).view(2, 6) / 10


class Layer(GradientCheckpointingLayer):
    """A layer as those of transformers' models."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.linear(hidden).tanh()


def whole_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Layer(), Layer(), nn.Linear(6, 1))


@contextmanager
def joined(folder: Path, rank: int = 0, processes: int = 1) -> Iterator[None]:
    """A process group that finds itself by a file in the folder."""
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meet'}",
        rank=rank,
        world_size=processes,
        timeout=timedelta(seconds=60),
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()


@pytest.fixture
def alone(tmp_path):
    with joined(tmp_path):
        yield


def divided(model: nn.Module) -> list[bool]:
    return [isinstance(weight, DTensor) for weight in model.parameters()]


@pytest.mark.parametrize("reshard", [True, False])
def test_every_layer_is_divided_and_gathered_by_itself(alone, reshard):
    model = place_model(Sharding(reshard), whole_model(), CPU)
    parts = [name for name, part in model.named_modules() if isinstance(part, FSDPModule)]
    assert parts == ["", "0", "1"]
    assert divided(model) == [True] * 6
    expected = whole_model()
    torch.testing.assert_close(model(INPUTS_BI), expected(INPUTS_BI))
    assert divided(model) == [reshard] * 4 + [False] * 2
    model(INPUTS_BI).sum().backward()
    expected(INPUTS_BI).sum().backward()
    for own, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(own.grad.full_tensor(), other.grad)


def test_a_model_that_is_not_divided_is_moved_to_its_device():
    model = whole_model()
    assert place_model(None, model, torch.device("meta")) is model
    assert {weight.device.type for weight in model.parameters()} == {"meta"}
    assert Sharding() == Sharding(reshard=True)


def test_an_older_torch_is_named(monkeypatch):
    monkeypatch.delattr(FSDPModule, "set_force_sum_reduction_for_comms")
    with pytest.raises(ConfigError, match="needs a newer torch than 2"):
        Sharding().place(whole_model(), CPU)


def test_a_state_is_gathered_whole_wherever_its_tensors_lie(alone):
    mesh = init_device_mesh("cpu", (1,))
    weight = nn.Parameter(distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]))
    plain = torch.zeros(3)
    state = {"weight": weight, "moments": {0: {"step": plain, "mean": weight}}, "lr": 0.5}
    whole = gather(state)
    assert whole.keys() == state.keys()
    assert whole["lr"] == 0.5
    for found in (whole["weight"], whole["moments"][0]["mean"]):
        assert type(found) is torch.Tensor
        assert not found.requires_grad
        assert torch.equal(found, torch.ones(4, 2))
    assert whole["moments"][0]["step"] is plain
    helping = gather(state, False)
    assert helping["weight"].shape == helping["moments"][0]["mean"].shape == (0,)
    assert helping["moments"][0]["step"] is plain
    assert helping["lr"] == 0.5


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_whole_tensor_is_divided_as_the_weight_is(alone, device):
    value = torch.arange(8.0).view(4, 2)
    assert distribute_like(torch.zeros(4, 2), value) is value
    mesh = init_device_mesh("cpu", (1,))
    weight = distribute_tensor(torch.zeros(4, 2, device=device), mesh, [Shard(1)])
    part = distribute_like(weight, value)
    assert isinstance(part, DTensor)
    assert part.device.type == device
    assert part.device_mesh is mesh
    assert part.placements == weight.placements == (Shard(1),)
    assert device == "meta" or torch.equal(part.full_tensor(), value)
    assert distribute_like(torch.zeros(4, 2), weight) is weight


def test_an_optimizer_moves_weights_in_shares(alone):
    """A divided policy under a head that is whole; what is kept is whole, and is divided anew."""
    mesh = init_device_mesh("cpu", (1,))

    def made() -> PolicyOptimizer:
        weight = nn.Parameter(distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]))
        policy = SimpleNamespace(trained_parameters=lambda: {"weight": weight})
        given = {"optimizer": "adamw", "warmup_steps": 0, "estimator": "gae", "critic": "head"}
        settings = PolicyGradientSettings.model_validate(given)
        rank = SimpleNamespace(processes=2, add_up=lambda value: 2 * value)
        return PolicyOptimizer(settings, policy, Critic(None, 3), rank)  # pyright: ignore[reportArgumentType]

    first = made()
    (weight,) = first.policy.trained_parameters().values()
    assert first.critic is not None
    head = first.critic.head
    weight.grad, head.weight.grad = torch.ones_like(weight), torch.ones_like(head.weight)
    assert first.add_up({"loss": torch.tensor(2.0)}) == {"loss": 4.0}
    assert weight.grad.full_tensor().unique().tolist() == [1]
    assert head.weight.grad.tolist() == [[2] * 3]
    assert head.bias.grad.tolist() == [0]
    assert first.clip() == pytest.approx([8**0.5, 12**0.5])
    first.step()
    state = gather(first.adamw.state_dict())
    other = made()
    other.restore(state, 5)
    again = other.adamw.state_dict()["state"]
    assert other.steps == 5
    assert again.keys() == {0, 1, 2}
    assert isinstance(again[0]["exp_avg"], DTensor)
    assert type(again[0]["step"]) is type(again[1]["exp_avg"]) is torch.Tensor
    whole_again = gather(again)
    for number, kept in state["state"].items():
        for name, value in kept.items():
            assert torch.equal(whole_again[number][name], value)


def one_of_two(rank: int, folder: Path) -> None:
    """What each of two processes does; what it found is left in the folder."""
    torch.set_num_threads(1)
    with joined(folder, rank, 2):
        here = ProcessRank(CPU, 2, rank)
        own = torch.tensor([1.0, 10.0]) * (rank + 1)
        found = {"sum": here.add_up(own), "own": own}
        model = place_model(Sharding(), whole_model(), CPU)
        found["shapes"] = [tuple(weight.to_local().shape) for weight in model.parameters()]
        model(INPUTS_BI[rank : rank + 1]).sum().backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        found["gradients"] = gather(gradients, rank == 0)
        first = next(model.parameters())
        found["part"] = distribute_like(first, torch.arange(36.0).view(6, 6)).to_local()
    torch.save(found, folder / f"{rank}.pt")


@pytest.mark.long
def test_two_processes_hold_half_each_and_add_up_their_gradients(tmp_path):
    """This process is the first."""
    second = multiprocessing.get_context("spawn").Process(target=one_of_two, args=(1, tmp_path))
    second.start()
    one_of_two(0, tmp_path)
    second.join()
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert first["own"].tolist() == [1, 10]
    assert second["own"].tolist() == [2, 20]
    assert first["sum"].tolist() == second["sum"].tolist() == [3, 30]
    halves = [(3, 6), (3,)] * 2
    assert first["shapes"] == [*halves, (1, 6), (1,)]
    assert second["shapes"][:4] == halves
    expected = whole_model()
    expected(INPUTS_BI).sum().backward()
    for name, weight in expected.named_parameters():
        torch.testing.assert_close(first["gradients"][name], weight.grad)
        assert second["gradients"][name].shape == (0,)
    rows = torch.arange(36.0).view(6, 6)
    assert torch.equal(first["part"], rows[:3])
    assert torch.equal(second["part"], rows[3:])
