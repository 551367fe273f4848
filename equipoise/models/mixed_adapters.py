"""Rows of one batch computed with different LoRA adapters on one base.

    y_b = W x_b + s_a B_a A_a x_b,      a the adapter of row b

A layer's base product is one for all rows. Where prompts are read, each adapter adds a pair of thin
products; in a step of sampling (one token a row) one pair serves all adapters, side by side. PEFT's
own mixed batch (`adapter_names`) goes through the adapters one by one at every layer.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

Rows = torch.Tensor | slice


@dataclass(frozen=True, slots=True)
class _Part:
    """One adapter's factors on one layer: [r, in], and [out, r], scaled."""

    adapter: int
    down_RI: torch.Tensor
    up_OR: torch.Tensor


class MixedAdapters:
    """The adapters of a batch's rows, in force while `applied` is open."""

    def __init__(self, model: Any, adapters: Sequence[str | None]) -> None:
        """`model` holds PEFT's layers; None stands for the model without any adapter."""
        self.adapters = tuple(adapters)
        self._layers = [_MixedLayer(self, layer, self.adapters) for layer in tuned_layers(model)]
        self.set_rows(torch.zeros(0, dtype=torch.int64))

    def set_rows(self, adapter_B: torch.Tensor) -> None:
        """Set the adapter of each row of the next batches, by its place among `adapters`."""
        self.adapter_B = adapter_B
        self._rows: dict[int, Rows] | None = None
        self._own: dict[tuple[int, ...], torch.Tensor] = {}

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The layers compute every row with its own adapter, while the context is open."""
        for mixed in self._layers:
            mixed.layer.forward = mixed.forward
        try:
            yield
        finally:
            for mixed in self._layers:
                del mixed.layer.forward

    def rows_of(self, adapter: int) -> Rows | None:
        """The rows with this adapter, as one piece where they are; None: no row has it."""
        if self._rows is None:
            by_adapter: dict[int, list[int]] = {}
            for row, own in enumerate(self.adapter_B.tolist()):
                by_adapter.setdefault(own, []).append(row)
            self._rows = {own: self._piece(rows) for own, rows in by_adapter.items()}
        return self._rows.get(adapter)

    def _piece(self, rows: list[int]) -> Rows:
        if rows[-1] - rows[0] + 1 == len(rows):
            return slice(rows[0], rows[-1] + 1)
        return torch.tensor(rows, device=self.adapter_B.device)

    def own(self, ranks: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        """[B, R]: 1 where a row's adapter owns a column; `ranks` are the adapters' columns."""
        if ranks not in self._own:
            owner = []
            for a, rank in enumerate(ranks):
                for _ in range(rank):
                    owner.append(a)
            owner_1R = torch.tensor([owner], device=self.adapter_B.device)
            own_BR = self.adapter_B[:, None] == owner_1R
            self._own[ranks] = own_BR.to(like.device, like.dtype)
        return self._own[ranks]


class _MixedLayer:
    """One layer's base and the factors of all adapters that are on it."""

    def __init__(self, rows: MixedAdapters, layer: Any, adapters: Sequence[str | None]) -> None:
        self.layer = layer
        self._rows = rows
        self._parts: list[_Part] = []
        for place, name in enumerate(adapters):
            if name in layer.lora_A:
                up_OR = layer.lora_B[name].weight.detach() * layer.scaling[name]
                down_RI = layer.lora_A[name].weight.detach()
                self._parts.append(_Part(place, down_RI, up_OR))
        ranks = {part.adapter: len(part.down_RI) for part in self._parts}
        self._ranks = tuple(ranks.get(place, 0) for place in range(len(adapters)))
        if self._parts:
            self._down_RI = torch.cat([part.down_RI for part in self._parts])
            self._up_OR = torch.cat([part.up_OR for part in self._parts], 1)

    def forward(self, hidden_BTI: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """The layer's output, each row's by its own adapter."""
        base_BTO = self.layer.base_layer(hidden_BTI, *args, **kwargs)
        if not self._parts:
            return base_BTO
        assert len(hidden_BTI) == len(self._rows.adapter_B), "rows have lost their order"
        hidden_BTI = hidden_BTI.to(self._down_RI.dtype)
        if hidden_BTI.shape[1] == 1:
            return base_BTO + self._side_by_side(hidden_BTI).to(base_BTO.dtype)
        for part in self._parts:
            rows = self._rows.rows_of(part.adapter)
            if rows is not None:
                inner = functional.linear(hidden_BTI[rows], part.down_RI)
                added = functional.linear(inner, part.up_OR)
                base_BTO[rows] += added.to(base_BTO.dtype)
        return base_BTO

    def _side_by_side(self, hidden_B1I: torch.Tensor) -> torch.Tensor:
        """The adapters' part of the output for one token of each row, [B, 1, O]."""
        inner_BR = functional.linear(hidden_B1I[:, 0], self._down_RI)
        own_BR = self._rows.own(self._ranks, inner_BR)
        return functional.linear(inner_BR * own_BR, self._up_OR)[:, None]


def tuned_layers(model: Any) -> list[Any]:
    """The layers of a model in which PEFT has put adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [m for m in model.modules() if isinstance(m, BaseTunerLayer)]


def can_mix(model: Any) -> bool:
    """True if all adapters of a model are plain LoRA on linear layers, quantised or not."""
    from peft.utils.other import AuxiliaryTrainingWrapper

    if any(isinstance(m, AuxiliaryTrainingWrapper) for m in model.modules()):
        return False
    layers = tuned_layers(model)
    return bool(layers) and all(
        type(layer).__name__ in ("Linear", "Linear4bit", "TorchaoLoraLinear")
        and not layer.lora_variant
        and not layer.merged
        and not any(layer.lora_bias.values())
        for layer in layers
    )
