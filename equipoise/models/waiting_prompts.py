"""Prompts that wait for their place in a batch, and how they are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from equipoise.models.sampling_batch import RowAdapters, SamplingBatch

# Tokens of prompts that are read at once, padding included: it bounds what a reading keeps in
# memory, and for how long the rows under way wait for it.
MOST_READ = 16_384

Key = tuple[int, ...]


class WaitingPrompts:
    """Prompts in the order in which they are read: the longest first, equal ones next to each
    other. A prompt is read once for all of its rows, whenever these begin.
    """

    def __init__(
        self,
        model: Any,
        prompts: Sequence[list[int]],
        pad_id: int,
        adapters: RowAdapters | None = None,
    ) -> None:
        self._model, self._prompts, self._pad_id = model, prompts, pad_id
        self._adapters = adapters
        order = sorted(
            range(len(prompts)), key=lambda i: (len(prompts[i]), *self._key(i)), reverse=True
        )
        self._rows = deque(order)
        # A prompt that was read for rows of which some wait.
        self._read: tuple[Key, SamplingBatch] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, room: int) -> tuple[SamplingBatch, list[int]]:
        """The next rows, at least one and at most `room`, ready for their first token."""
        rows: list[int] = []
        batch = None
        if self._read is not None:
            key, kept = self._read
            rows = self._take(room, key)
            batch = kept.copied(torch.zeros(len(rows), dtype=torch.int64, device=kept.device))
        if len(rows) < room and self._rows:
            fresh = self._take(room - len(rows))
            adapters = None if self._adapters is None else self._adapters.of(fresh)
            prompts = [self._prompts[row] for row in fresh]
            arrived = SamplingBatch(self._model, prompts, self._pad_id, adapters)
            self._keep(arrived, fresh[-1])
            if batch is None:
                batch = arrived
            else:
                batch.join(arrived)
            rows += fresh
        elif not self._rows or self._key(self._rows[0]) != self._key(rows[-1]):
            self._read = None
        assert batch is not None, "nobody waits"
        return batch, rows

    def _keep(self, batch: SamplingBatch, last: int) -> None:
        """Keep the reading of the last row's prompt, if others of it wait."""
        self._read = None
        if self._rows and self._key(self._rows[0]) == self._key(last) and batch.joinable:
            end = len(batch.position_B) - 1
            kept = batch.copied(torch.tensor([end], device=batch.device))
            kept.trim()
            self._read = (self._key(last), kept)

    def _take(self, room: int, key: Key | None = None) -> list[int]:
        """The next rows, with `key` those of this prompt, else as many as may be read at once."""
        rows: list[int] = []
        distinct = 0
        width = len(self._prompts[self._rows[0]])
        while self._rows and len(rows) < room:
            own = self._key(self._rows[0])
            if key is not None and own != key:
                break
            distinct += not rows or own != self._key(rows[-1])
            if key is None and rows and distinct * width > MOST_READ:
                break
            rows.append(self._rows.popleft())
        return rows

    def _key(self, row: int) -> Key:
        own = 0 if self._adapters is None else self._adapters.of_row[row]
        return (own, *self._prompts[row])
