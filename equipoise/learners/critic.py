"""The critic of a policy: before each token, what its move will be paid."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from equipoise import seeds
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.models.loading import load_model
from equipoise.models.packing import PackedBatch
from equipoise.players.local import Local


class Critic(nn.Module):
    """V(state before a token) = w · hidden + b, on a model of its own or on the policy's hidden
    states.

    The head starts at 0: nothing is expected yet. On the policy's hidden states its gradient
    reaches the policy's weights, too.
    """

    def __init__(self, body: nn.Module | None, width: int) -> None:
        """`body` gives hidden states of `width`; None: the policy's are used."""
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def make(cls, settings: PolicyGradientSettings, player: Local, width: int, seed: int) -> Critic:
        """The critic that the settings ask for, untrained.

        `width`: of the policy's hidden states. Raises ModelError.
        """
        if settings.critic == "head":
            return cls(None, width)
        torch.manual_seed(seeds.child(seed, "critic") % 2**32)
        body: Any = load_model(
            settings.critic_model or player.model,
            dtype="float32",
            device="cpu",
            attention=player.attention,
        )
        body.requires_grad_(True)
        if settings.gradient_checkpointing:
            body.activation_checkpointing_enable({"use_reentrant": False})
        return cls(body.base_model, body.config.get_text_config().hidden_size)

    def forward(self, packed: PackedBatch, hidden_NH: torch.Tensor | None) -> torch.Tensor:
        """V before each answer token of the batch, float32 [N].

        `hidden_NH`: the policy's hidden states there.
        """
        if self.body is not None:
            inputs = packed.inputs(self.body)
            hidden_BTH = self.body(**inputs, use_cache=False).last_hidden_state
            hidden_NH = hidden_BTH.flatten(0, 1).index_select(0, packed.source_N)
        assert hidden_NH is not None
        return self.head(hidden_NH.to(self.head.weight.dtype))[:, 0].float()
