"""AdamW for a policy and its critic: warm-up, clipping, gradients summed over processes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.sharding import ProcessRank, distribute_like, gather
from equipoise.learners.trainable_model import Critic, TrainableModel


class PolicyOptimizer:
    """One AdamW for the policy and its critic, each with a learning rate of its own."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        policy: TrainableModel,
        critic: Critic | None,
        rank: ProcessRank,
    ) -> None:
        self.settings, self.rank = settings, rank
        self.policy, self.critic = policy, critic
        self.rates = [settings.learning_rate]
        groups: list[dict[str, Any]] = [
            {"params": list(policy.trained_parameters().values()), "eps": settings.epsilon}
        ]
        if critic is not None:
            self.rates.append(settings.critic_learning_rate or 0.0)
            groups.append({"params": list(critic.parameters())})
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = rate
        self.adamw = torch.optim.AdamW(
            groups, betas=settings.betas, weight_decay=settings.weight_decay
        )
        self.steps = 0

    def add_up(self, sums: dict[str, torch.Tensor]) -> dict[str, float]:
        """The sums over all processes, also of gradients but for those of sharded weights."""
        if self.rank.processes > 1:
            for weight in self._weights():
                if not isinstance(weight, DTensor):
                    gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
                    weight.grad = self.rank.add_up(gradient)
            total = self.rank.add_up(torch.stack(list(sums.values())))
            sums = dict(zip(sums, total, strict=True))
        return {name: value.item() for name, value in sums.items()}

    def clip(self) -> list[float]:
        """Cut policy's and critic's gradients to the largest norm; returns their norms before."""
        models = [self.policy.trained_parameters().values()]
        if self.critic is not None:
            models.append(self.critic.parameters())  # type: ignore[arg-type]
        largest = self.settings.max_grad_norm
        norms = [nn.utils.clip_grad_norm_(model, largest) for model in models]
        return [gather(norm).item() for norm in norms]

    def step(self) -> None:
        factor = rate_factor(self.settings, self.steps + 1)
        for group, rate in zip(self.adamw.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        self.steps += 1

    def restore(self, state: Mapping[str, Any], steps: int) -> None:
        """Take up the state that AdamW had after so many steps."""
        weights = list(self._weights())
        moments: dict[int, dict[str, Any]] = {}
        for number, own in state["state"].items():
            weight = weights[number]
            moments[number] = {
                name: distribute_like(weight, value)
                if isinstance(value, torch.Tensor) and value.shape == weight.shape
                else value
                for name, value in own.items()
            }
        self.adamw.load_state_dict({**state, "state": moments})
        self.steps = steps

    def _weights(self) -> Iterator[nn.Parameter]:
        """The weights that it moves, in the order in which AdamW numbers them."""
        for group in self.adamw.param_groups:
            yield from group["params"]


def rate_factor(settings: PolicyGradientSettings, step: int) -> float:
    """The factor of the learning rates at an optimizer step, counted from 1."""
    warmup = settings.warmup_steps
    if step < warmup:
        return step / warmup
    return math.sqrt(warmup / step) if settings.scheduler == "inverse_sqrt" else 1.0
