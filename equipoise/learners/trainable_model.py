"""The model that a policy trainer trains: all of it, or an adapter on a base that it
shares with other learners.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from equipoise import seeds
from equipoise.learners.fine_tuning import model_to_train
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.models.adapters import add_adapter, load_adapter, resolve
from equipoise.models.loading import Dtype, load_model
from equipoise.models.quiet import quiet
from equipoise.models.resources import Resources
from equipoise.players.local import Local


class TrainableModel:
    """The weights of one learner, and those that it started from."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        player: Local,
        name: str,
        seed: int,
        device: torch.device,
        resources: Resources,
    ) -> None:
        """`resources` holds the bases that learners with adapters share.

        Raises ModelError.
        """
        self.player, self.name = player, name
        self._adapters: MultiAdapterModel | None = None
        self._start: Any = None
        if player.lora is None:
            model = model_to_train(player, player.start, seed, settings.precision)
            self.model: Any = model.to(device)
            if settings.kl:
                self._start = load_model(
                    player.model,
                    player.start,
                    dtype="float32",
                    device=str(device),
                    attention=player.attention,
                )
        else:
            dtype: Dtype = "bfloat16" if settings.precision == "bf16" else "float32"
            self._adapters = _shared(player, dtype, device, resources)
            self._adapters.add(name, player, seed, bool(settings.kl))
            self.model = self._adapters.model
        if settings.gradient_checkpointing:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
            self.model.enable_input_require_grads()
        self.activate()

    @property
    def width(self) -> int:
        """Of the hidden states."""
        return self.model.config.get_text_config().hidden_size

    def activate(self) -> Any:
        """The model with this learner's own weights in force, ready to train."""
        if self._adapters is not None:
            self._adapters.model.set_adapter(self.name)
        return self.model

    def sampling_model(self) -> Any:
        """The model as it samples, without PEFT around it."""
        model = self.activate()
        return model if self._adapters is None else model.get_base_model()

    @contextmanager
    def reference(self) -> Iterator[Any]:
        """The model with the weights that the learner started from."""
        if self._adapters is None:
            yield self._start
        elif self.player.start is None:
            with self.activate().disable_adapter():
                yield self.model
        else:
            name = start_adapter(self.name)
            self._adapters.model.set_adapter(name, inference_mode=True)
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
            if self._adapters is None:
                self.model.save_pretrained(str(folder))
                return
            self.activate().save_pretrained(str(folder), selected_adapters=[self.name])
        # where PEFT puts an adapter that is not called "default"
        for file in (folder / self.name).iterdir():
            file.rename(folder / file.name)
        shutil.rmtree(folder / self.name)


class MultiAdapterModel:
    """One base model in memory and the adapters of the learners on it.

    One adapter is in force at a time.
    """

    def __init__(self, player: Local, dtype: Dtype, device: torch.device) -> None:
        self.model: Any = load_model(
            player.model, dtype=dtype, device=str(device), attention=player.attention
        )

    def add(self, name: str, player: Local, seed: int, with_start: bool) -> None:
        """Add the adapter `name` as the player starts; it replaces one of that name.

        `with_start`: add a frozen copy, too, if the player starts from an adapter.
        """
        from transformers import set_seed

        assert player.lora is not None
        for old in (name, start_adapter(name)):
            if old in getattr(self.model, "peft_config", {}):
                self.model.delete_adapter(old)
        # a fresh adapter is drawn from torch's generator
        set_seed(seeds.child(seed, "adapter") % 2**32)
        if player.start is None:
            self.model = add_adapter(self.model, player.lora, name).eval()
            return
        self.model = load_adapter(
            self.model, player.model, player.start, name, trainable=True
        ).eval()
        if with_start:
            self.model = load_adapter(
                self.model, player.model, player.start, start_adapter(name)
            ).eval()


def _shared(
    player: Local, dtype: Dtype, device: torch.device, resources: Resources
) -> MultiAdapterModel:
    """The base of this player and of all that start from the same model."""
    model = resolve(player.model)
    key = ("learners' base", model, dtype, str(device), player.attention)
    return resources.get(key, lambda: MultiAdapterModel(player, dtype, device))


def start_adapter(name: str) -> str:
    """The name of the frozen copy of a learner's first adapter."""
    return f"{name}_as_given"
