"""The forward pass of a batch of rows that grow token by token, with their cache.

Prompts are padded on the left, and read once for each adapter that plays them. Rows can leave the
batch with their part of the cache, and rows of another batch join it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from equipoise.errors import ModelError
from equipoise.models.mixed_adapters import MixedAdapters

# Columns of a past that storage is made for beyond those that it holds.
ROOM = 64


class RoomyLayer(DynamicLayer):
    """A layer's past, keys and values [B, heads, T, D], with room behind it: a token is written
    there, where transformers' own layer copies the whole past.
    """

    _rooms: tuple[torch.Tensor | None, torch.Tensor | None] = None, None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append columns; returns all keys and all values."""
        if not self.is_initialized:
            self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
            self.dtype, self.device = key_states.dtype, key_states.device
            self.is_initialized = True
        held: Any = self.keys, self.values
        parts = zip(held, (key_states, value_states), self._rooms, strict=True)
        (self.keys, key_room), (self.values, value_room) = (_appended(*part) for part in parts)
        self._rooms = key_room, value_room
        return self.keys, self.values


def _appended(
    past: torch.Tensor, new: torch.Tensor, room: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(the past with the new columns, the storage that it lies in), larger storage where needed."""
    width, end = past.shape[2], past.shape[2] + new.shape[2]
    begun = room is not None and room.data_ptr() == past.data_ptr() and len(room) == len(past)
    if room is None or not begun or end > room.shape[2]:
        room = past.new_empty(*past.shape[:2], end + ROOM, past.shape[3])
        room[:, :, :width] = past
    room[:, :, width:end] = new
    return room[:, :, :end], room


def roomy_cache(config: Any) -> DynamicCache:
    """An empty past of a model, whose layers have room where they keep every token."""
    cache = DynamicCache(config=config)
    cache.layers = [
        RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    return cache


@dataclass(frozen=True, slots=True)
class RowAdapters:
    """The adapter of each of a number of rows, by its place among the mixed ones."""

    mixed: MixedAdapters
    of_row: Sequence[int]

    def of(self, rows: Sequence[int]) -> RowAdapters:
        """The adapters of some of the rows."""
        return RowAdapters(self.mixed, [self.of_row[row] for row in rows])


class SamplingBatch:
    """Rows that grow a token at a time. `logits_BV` are those of each row's next token."""

    def __init__(
        self, model: Any, prompts: list[list[int]], pad_id: int, adapters: RowAdapters | None = None
    ) -> None:
        """`adapters`: those of the rows, in order, where they have adapters of their own."""
        self.model, self.device = model, model.device
        parameters = inspect.signature(model.forward).parameters
        if "past_key_values" not in parameters:
            raise ModelError(
                f"{type(model).__name__} keeps its past in a way that this sampler does not "
                "know; it cannot be sampled from here"
            )
        self.last = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self.cache: Any = roomy_cache(model.config)
        of_row = [0] * len(prompts) if adapters is None else adapters.of_row
        keys = [(own, *prompt) for own, prompt in zip(of_row, prompts, strict=True)]
        read = list(dict.fromkeys(keys))
        distinct = [list(prompt) for _, *prompt in read]
        self.mixed = None if adapters is None else adapters.mixed
        self.adapter_B = torch.tensor([own for own, *_ in read], device=self.device)
        length_B = torch.tensor([len(prompt) for prompt in distinct], device=self.device)
        width = max(map(len, distinct))
        column_1T = torch.arange(width, device=self.device)[None]
        left_B1 = width - length_B[:, None]  # columns of padding on the left
        shown_BT = column_1T >= left_B1
        self.shown_BT = None if bool(shown_BT.all()) else shown_BT.long()
        self.position_B = length_B
        ids = [[pad_id] * (width - len(prompt)) + prompt for prompt in distinct]
        ids_BT = torch.tensor(ids, device=self.device)
        self.logits_BV = self._forward(ids_BT, (column_1T - left_B1).clamp_min(0))
        if len(distinct) < len(prompts):
            row_of = {key: row for row, key in enumerate(read)}
            row_B = torch.tensor([row_of[key] for key in keys], device=self.device)
            self.select(row_B)
            self.logits_BV = self.logits_BV[row_B]

    def step(self, token_B: torch.Tensor) -> None:
        """Append a token to each row."""
        if self.shown_BT is not None:
            new_B1 = self.shown_BT.new_ones(len(token_B), 1)
            self.shown_BT = torch.cat([self.shown_BT, new_B1], 1)
        self.logits_BV = self._forward(token_B[:, None], self.position_B[:, None])
        self.position_B = self.position_B + 1

    def select(self, row_B: torch.Tensor) -> None:
        """Go on with these rows, in this order, perhaps repeated; `logits_BV` stay as they are."""
        self.cache.reorder_cache(row_B)
        self.position_B = self.position_B[row_B]
        self.adapter_B = self.adapter_B[row_B]
        if self.shown_BT is not None:
            self.shown_BT = self.shown_BT[row_B]

    def copy_rows(self, row_B: torch.Tensor) -> SamplingBatch:
        """These rows as a batch of their own; this one, which must be joinable, stays as it is."""
        twin = copy.copy(self)
        twin.cache = copy.copy(self.cache)
        twin.cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        twin.select(row_B)
        twin.logits_BV = self.logits_BV[row_B]
        return twin

    @property
    def joinable(self) -> bool:
        """True if rows can join: every layer keeps its whole past, one column for each token."""
        return all(type(layer) is RoomyLayer for layer in self.cache.layers)

    def join(self, other: SamplingBatch) -> None:
        """Append the rows of `other`, a joinable batch of the same model."""
        width = max(self.cache.get_seq_length(), other.cache.get_seq_length())
        shown_BT = _stack(self._shown()[..., None], other._shown()[..., None], width)
        shown_BT = shown_BT[..., 0]
        for layer, added in zip(self.cache.layers, other.cache.layers, strict=True):
            layer.keys = _stack(layer.keys, added.keys, width)
            layer.values = _stack(layer.values, added.values, width)
        self.shown_BT = None if bool(shown_BT.all()) else shown_BT
        self.position_B = torch.cat([self.position_B, other.position_B])
        self.adapter_B = torch.cat([self.adapter_B, other.adapter_B])
        self.logits_BV = torch.cat([self.logits_BV, other.logits_BV])

    def trim(self) -> None:
        """Drop the columns on the left that no row needs any more. The batch must be joinable."""
        width = int(self.position_B.max())
        if self.shown_BT is not None and width < self.shown_BT.shape[1]:
            for layer in self.cache.layers:
                layer.keys = layer.keys[:, :, -width:]
                layer.values = layer.values[:, :, -width:]
            shown_BT = self.shown_BT[:, -width:]
            self.shown_BT = None if bool(shown_BT.all()) else shown_BT

    def _shown(self) -> torch.Tensor:
        if self.shown_BT is not None:
            return self.shown_BT
        length = self.cache.get_seq_length()
        return self.position_B.new_ones(len(self.position_B), length)

    def _forward(self, ids_BT: torch.Tensor, position_BT: torch.Tensor) -> torch.Tensor:
        if self.mixed is not None and self.mixed.adapter_B is not self.adapter_B:
            self.mixed.set_rows(self.adapter_B)
        out = self.model(
            input_ids=ids_BT,
            attention_mask=self.shown_BT,
            position_ids=position_BT,
            past_key_values=self.cache,
            use_cache=True,
            **self.last,
        )
        return out.logits[:, -1]


def _stack(first: torch.Tensor, second: torch.Tensor, width: int) -> torch.Tensor:
    return torch.cat([_widen(first, width), _widen(second, width)])


def _widen(past: torch.Tensor, width: int) -> torch.Tensor:
    """A past [B, …, T, D] with zeros on its left, of `width` columns."""
    return torch.nn.functional.pad(past, (0, 0, width - past.shape[-2], 0))
