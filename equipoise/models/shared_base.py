"""A base model in memory, shared by all that play, judge, score or learn with an adapter on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.models.activation_checkpoints import disable_checkpoints, has_checkpoints
from equipoise.models.adapters import Lora, add_adapter, load_adapter, resolve
from equipoise.models.device import choose_device
from equipoise.models.loading import Loading, load_model, torch_dtype
from equipoise.models.resources import Resources

if TYPE_CHECKING:
    from equipoise.models.mixed_adapters import MixedAdapters

Key = tuple[str, ...]


class SharedBase:
    """A model in memory, and the adapters that turn it into one generation or another.

    Those of a folder play; a learner's own stay until another takes their name.
    """

    def __init__(self, name: str, model: Any) -> None:
        """`name` is the model's folder or hub id; `model` a transformers model."""
        self.name = name
        self.model = model
        self.peft: Any = None
        self._read: dict[str, str] = {}  # folder -> the name of its adapter
        self._count = 0
        self._mixes: bool | None = None

    def adapter(self, folder: Path) -> str:
        """The name of the adapter in `folder`, read at its first use. Raises ModelError."""
        key = str(folder.resolve())
        if key not in self._read:
            name = f"read-{self._count}"
            self._load(folder, name)
            self._read[key] = name
            self._count += 1
        return self._read[key]

    @contextmanager
    def lend(self, adapter: str | None) -> Iterator[Any]:
        """The model with this adapter active (None: without any), while the context is open."""
        self.model.eval()
        if adapter is not None:
            self.peft.set_adapter(adapter, inference_mode=True)
            yield self.model
        elif self.peft is not None:
            with self.peft.disable_adapter():
                yield self.model
        else:
            yield self.model

    @contextmanager
    def lend_mixed(self, adapters: Sequence[str | None]) -> Iterator[tuple[Any, MixedAdapters]]:
        """The model with adapters, each for its own rows, and these; only where it `mixes`."""
        from equipoise.models.mixed_adapters import MixedAdapters

        self.model.eval()
        mixed = MixedAdapters(self.model, adapters)
        with mixed.applied():
            yield self.model, mixed

    def mixes(self, adapters: Sequence[str | None]) -> bool:
        """True if rows with these adapters can go in one batch, after a trial of a few tokens."""
        import torch

        from equipoise.models.mixed_adapters import can_mix

        if self.peft is None or len(set(adapters)) < 2 or not can_mix(self.model):
            return False
        if self._mixes is None:
            first, second, *_ = dict.fromkeys(adapters)
            with torch.inference_mode():
                self._mixes = self._agree((first, second, first))
        return self._mixes

    def _agree(self, adapters: Sequence[str | None]) -> bool:
        import torch

        device = next(self.model.parameters()).device
        ids_BT = torch.arange(1, 9, device=device).expand(len(adapters), 8)
        alone = []
        for adapter in adapters:
            with self.lend(adapter) as model:
                alone.append(model(input_ids=ids_BT[:1], use_cache=False).logits)
        with self.lend_mixed(adapters) as (model, mixed):
            mixed.set_rows(torch.arange(len(adapters), device=device))
            try:
                together = model(input_ids=ids_BT, use_cache=False).logits
            except (AssertionError, RuntimeError, IndexError):
                return False  # rows are not rows in all of its layers
        logit_BTV = torch.cat(alone)
        exact = logit_BTV.dtype == self.model.dtype == torch.float32
        relative, absolute = (1e-3, 1e-2) if exact else (0.05, 0.5)
        return torch.allclose(together, logit_BTV, relative, absolute)

    # -- adapters that are trained

    def add(self, name: str, lora: Lora, start: Path | None) -> Any:
        """The PEFT model with an adapter to train, as in `start` or fresh. Raises ModelError."""
        self.drop(name)
        if start is None:
            self.peft = add_adapter(self.peft or self.model, lora, name).eval()
            return self.peft
        return self._load(start, name, trainable=True)

    def add_frozen(self, name: str, start: Path) -> None:
        """Add the adapter in `start`, beside one that is trained. Raises ModelError."""
        self.drop(name)
        self._load(start, name)

    def drop(self, name: str) -> None:
        """Delete the adapter of this name, if there is one."""
        import torch

        if self.peft is not None and name in self.peft.peft_config:
            # Those that were loaded to answer alone are tensors of inference.
            with warnings.catch_warnings(), torch.inference_mode():
                # PEFT says which other adapter is active then; `lend` sets its own.
                warnings.simplefilter("ignore", UserWarning)
                self.peft.delete_adapter(name)

    @contextmanager
    def bare(self) -> Iterator[Any]:
        """The model without a trace of its adapters while the context is open, to be wrapped."""
        configs = vars(self.model).pop("peft_config", None)
        layers = take_out_adapters(self.model)
        saves_memory = has_checkpoints(self.model)
        try:
            yield self.model
        finally:
            take_out_adapters(self.model)
            vars(self.model).pop("peft_config", None)
            for parent, name, layer in layers:
                setattr(parent, name, layer)
            if configs is not None:
                self.model.peft_config = configs
            if not saves_memory and has_checkpoints(self.model):
                disable_checkpoints(self.model)
            self.model.eval()

    def release(self) -> None:
        """Forget the adapters that were read; those of learners stay."""
        for name in self._read.values():
            self.drop(name)
        self._read.clear()
        if self.peft is not None and not self.peft.peft_config:
            take_out_adapters(self.model)
            vars(self.model).pop("peft_config", None)
            self.peft = None

    def _load(self, folder: Path, name: str, *, trainable: bool = False) -> Any:
        model = self.peft or self.model
        self.peft = load_adapter(model, self.name, folder, name, trainable=trainable)
        return self.peft.eval()


@dataclass(frozen=True)
class AdaptedModel:
    """A shared base with one of its adapters; None: the base as it is."""

    base: SharedBase
    adapter: str | None

    def lend(self) -> AbstractContextManager[Any]:
        """The model with this adapter active, while the context is open."""
        return self.base.lend(self.adapter)

    def bare(self) -> AdaptedModel:
        """The same model without an adapter."""
        return AdaptedModel(self.base, None)


class LazyModel:
    """A model that is read when it is first lent."""

    def __init__(self, read: Callable[[], AdaptedModel]) -> None:
        self._read = read
        self._model: AdaptedModel | None = None

    def lend(self) -> AbstractContextManager[Any]:
        """The model with its adapter active, while the context is open."""
        return self._loaded().lend()

    def bare(self) -> AdaptedModel:
        """The same model without an adapter."""
        return self._loaded().bare()

    def _loaded(self) -> AdaptedModel:
        if self._model is None:
            self._model = self._read()
        return self._model


@contextmanager
def short_products(model: Any) -> Iterator[None]:
    """Products in bfloat16, for which plain layers are cast once and not in each forward pass.

    The numbers are autocast's. The weights come back at the end; nothing is trained meanwhile.
    """
    import torch
    from torch import nn

    layers = [] if hasattr(model, "peft_config") else model.modules()
    whole = [(layer, layer.weight) for layer in layers if type(layer) is nn.Linear]
    try:
        for layer, weight in whole:
            # one that is sharded or quantised is a type of its own
            if type(weight) is nn.Parameter and weight.dtype == torch.float32:
                layer.weight = nn.Parameter(weight.detach().bfloat16(), requires_grad=False)
        with torch.autocast(model.device.type, torch.bfloat16):
            yield
    finally:
        for layer, weight in whole:
            layer.weight = weight


def base_key(model: str, loading: Loading) -> Key:
    """The key of a base among the resources: equal for equal weights on a device."""
    dtype, device, *others = loading
    target = choose_device(device)
    number = torch_dtype(model, dtype, target)
    return ("base", resolve(model), str(number), str(target), *map(str, others))


def shared_base(resources: Resources, model: str, loading: Loading) -> SharedBase:
    """The base of everybody with this model, loaded at its first use. Raises ModelError."""

    def load() -> SharedBase:
        return SharedBase(model, load_model(model, **loading._asdict()))

    return resources.get(base_key(model, loading), load)


def take_out_adapters(model: Any) -> list[tuple[Any, str, Any]]:
    """Put plain layers back; returns (parent, name, layer) of each layer with adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = []
    for parent in model.modules():
        for name, layer in parent.named_children():
            if isinstance(layer, BaseTunerLayer):
                layers.append((parent, name, layer))
    for parent, name, layer in layers:
        setattr(parent, name, layer.get_base_layer())
    return layers
