"""Work and weights divided among the processes that train a policy together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from equipoise.errors import ConfigError
from equipoise.learners.launch import Launch


@dataclass(frozen=True)
class ProcessRank:
    """This process, the `index`-th of `processes` that train together."""

    device: torch.device
    processes: int = 1
    index: int = 0

    def portions_here(self, portions: list[list[int]]) -> list[tuple[list[int], float]]:
        """The portions that this process computes, each with its weight.

        All processes compute equally many; one with none left computes one of weight 0.
        """
        here = portions[self.index :: self.processes]
        most = -(-len(portions) // self.processes)
        filling = [(portions[0], 0.0)] * (most - len(here))
        return [*((rows, 1.0) for rows in here), *filling]

    def add_up(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.processes > 1:
            value = value.clone()
            distributed.all_reduce(value)
        return value


@dataclass(frozen=True)
class Sharding:
    """Shares of every weight among processes, which gather one layer at a time (FSDP2).

    None in its place: each holds all. reshard: free gathered weights after the forward pass.
    """

    reshard: bool = True

    @classmethod
    def of(cls, launch: Launch | None) -> Sharding | None:
        """The sharding that the configuration of the processes asks for."""
        if launch is None or not launch.divides_weights:
            return None
        settings = launch.accelerate().get("fsdp_config", {})
        return cls(bool(settings.get("fsdp_reshard_after_forward", True)))

    def place(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Move a model from the CPU to the devices, in shares; every process calls it.

        Its weights are replaced. Raises ConfigError for an older torch.
        """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        if not hasattr(FSDPModule, "set_force_sum_reduction_for_comms"):
            raise ConfigError(
                "learner.launch: to divide the weights of a policy gradient (fsdp2) needs a newer "
                f"torch than {torch.__version__}; `pip install -U torch`"
            )
        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        for layer in model.modules():
            if isinstance(layer, GradientCheckpointingLayer):
                fully_shard(layer, mesh=mesh, reshard_after_forward=self.reshard)
        fully_shard(model, mesh=mesh)
        for part in model.modules():
            if isinstance(part, FSDPModule):
                # Each process computes its part of one loss: gradients are added up, and not
                # averaged.
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)
        return model


def place_model(sharding: Sharding | None, model: Any, device: torch.device) -> Any:
    """The model on its device, whole or in shares."""
    return model.to(device) if sharding is None else sharding.place(model, device)


def gather(value: Any, keep: bool = True) -> Any:
    """A state with every sharded tensor whole, on the CPU; all processes call it.

    keep: false in processes that only help, and get empty tensors.
    """
    if isinstance(value, DTensor):
        gathered = value.full_tensor().detach()
        return gathered.cpu() if keep else gathered.new_empty(0)
    if isinstance(value, Mapping):
        return {name: gather(part, keep) for name, part in value.items()}
    return value


def distribute_like(weight: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A whole tensor as this process holds the weight: in shares where it is in shares."""
    if not isinstance(weight, DTensor):
        return value
    moved = value.to(weight.device)
    # every process has the whole, and takes its part
    return distribute_tensor(moved, weight.device_mesh, weight.placements, src_data_rank=None)
