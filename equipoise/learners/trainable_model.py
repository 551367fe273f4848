"""The models that a policy trainer trains: the policy, and its critic."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from equipoise.learners.fine_tuning import model_to_train, seed_adapter
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.recomputing import checkpointing
from equipoise.learners.sharding import Sharding, place_model
from equipoise.models.activation_checkpoints import enable_checkpoints
from equipoise.models.loading import Dtype, load_model
from equipoise.models.packing import PackedBatch
from equipoise.models.progress import quiet
from equipoise.models.resources import Resources
from equipoise.models.shared_base import AdaptedModel, SharedBase, shared_base
from equipoise.players.local import Local


class TrainableModel:
    """A learner's weights and first weights: a whole model, or an adapter on a shared base."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        player: Local,
        name: str,
        seed: int,
        device: torch.device,
        resources: Resources,
        sharding: Sharding | None = None,
        *,
        trained: bool = True,
    ) -> None:
        """`resources` holds shared bases; `sharding` divides whole weights among processes.

        If not `trained` here, it only samples, and has no reference. Raises ModelError.
        """
        self.player, self.name = player, name
        self._start: Any = None
        short: Dtype = "bfloat16" if settings.precision == "bf16" else "float32"
        loading = player.loading._replace(dtype=short, device=str(device))
        if player.lora is None:
            model = model_to_train(player, player.start, seed, settings.precision)
            self._base = SharedBase(player.model, place_model(sharding, model, device))
            if settings.kl and trained:
                place = str(device) if sharding is None else "cpu"
                placed = loading._replace(device=place)
                start = load_model(player.model, player.start, **placed._asdict())
                self._start = place_model(sharding, start, device)
        else:
            self._base = shared_base(resources, player.model, loading)
            seed_adapter(seed)
            self._base.add(self.adapter, player.lora, player.start)
            self._base.drop(_start_adapter(name))
            if player.start is not None and settings.kl and trained:
                self._base.add_frozen(_start_adapter(name), player.start)
        if settings.gradient_checkpointing and trained:
            enable_checkpoints(self.model, checkpointing(settings.gradient_checkpointing))
            self.model.enable_input_require_grads()
        self.activate()

    @property
    def model(self) -> Any:
        """The model, with whichever adapter is in force, in PEFT's wrapping if it has any."""
        return self._base.peft or self._base.model

    @property
    def adapter(self) -> str:
        """Its adapter's name; torch and PEFT have a use for some, such as `pop` and `default`."""
        taken = self.name == "default" or hasattr(nn.ModuleDict, self.name)
        return f"learner_{self.name}" if taken else self.name

    @property
    def width(self) -> int:
        """The width of the hidden states."""
        return self.model.config.get_text_config().hidden_size

    def activate(self) -> Any:
        """The model with this learner's own weights in force, ready to train."""
        if self.player.lora is not None:
            self.model.set_adapter(self.adapter)
        return self.model

    def to_sample(self) -> AdaptedModel:
        """The model as it samples, without PEFT around it."""
        return AdaptedModel(self._base, None if self.player.lora is None else self.adapter)

    @contextmanager
    def reference(self) -> Iterator[Any]:
        """The model with the weights that the learner started from."""
        if self.player.lora is None:
            yield self._start
        elif self.player.start is None:
            with self.activate().disable_adapter():
                yield self.model
        else:
            self.model.set_adapter(_start_adapter(self.name), inference_mode=True)
            yield self.model
            self.activate()

    def trained_parameters(self) -> dict[str, nn.Parameter]:
        """The weights that are trained, by name."""
        return {
            name: weight
            for name, weight in self.activate().named_parameters()
            if weight.requires_grad
        }

    def save(self, folder: Path) -> None:
        """Write the model or the adapter into `folder`, as `from_pretrained` reads it."""
        with quiet():
            if self.player.lora is None:
                self.model.save_pretrained(str(folder))
                return
            self.activate().save_pretrained(str(folder), selected_adapters=[self.adapter])
        for file in (folder / self.adapter).iterdir():
            file.rename(folder / file.name)
        shutil.rmtree(folder / self.adapter)


def _start_adapter(name: str) -> str:
    """The name of the frozen copy of a learner's first adapter."""
    return f"{name}_as_given"


class Critic(nn.Module):
    """V(state before a token) = w · hidden + b, on its own or on the policy's hidden states.

    The head starts at 0. On the policy's hidden states its gradient reaches its weights, too.
    """

    def __init__(self, body: nn.Module | None, width: int) -> None:
        """`body` gives hidden states of `width`; None: the policy's are used."""
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def make(cls, settings: PolicyGradientSettings, player: Local, width: int) -> Self:
        """An untrained critic; `width`: of the policy's hidden states. Raises ModelError."""
        if settings.critic == "head":
            return cls(None, width)
        body: Any = load_model(
            settings.critic_model or player.model,
            dtype="float32",
            device="cpu",
            attention=player.attention,
        )
        body.requires_grad_(True)
        if settings.gradient_checkpointing:
            enable_checkpoints(body, checkpointing(settings.gradient_checkpointing))
        return cls(body.base_model, body.config.get_text_config().hidden_size)

    def forward(self, packed: PackedBatch, hidden_NH: torch.Tensor | None) -> torch.Tensor:
        """V before each answer token, float32 [N]; `hidden_NH`: the policy's states there."""
        if self.body is not None:
            inputs = packed.inputs(self.body)
            hidden_BTH = self.body(**inputs, use_cache=False).last_hidden_state
            hidden_NH = hidden_BTH.flatten(0, 1).index_select(0, packed.source_N)
        assert hidden_NH is not None
        return self.head(hidden_NH.to(self.head.weight.dtype))[:, 0].float()
