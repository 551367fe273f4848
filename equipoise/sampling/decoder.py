"""Answers of a language model that grow together, a token a round, each with its own dice.

Prompts wait in a queue, are read a bounded number of tokens at a time, and join the answers under
way; finished answers leave, and others take their places. The sampler of a run and the server both
decode here, so that a served answer is the run's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from equipoise.models.mixed_adapters import MixedAdapters
from equipoise.sampling.decode_slots import DecodeRequest, DecodeSlots
from equipoise.sampling.sampling_batch import RowAdapters, SamplingBatch

# Finished rows leave once they are 1 / LEAVE of the batch; for a smaller share, copying the cache
# is not worth it. Where others wait for their place, at 1 / REFILL.
LEAVE = 8
REFILL = 16
# Tokens of prompts that are read at once, padding included: it bounds what a reading keeps in
# memory, and for how long the rows under way wait for it.
MOST_READ = 16_384


class Decoder:
    """Answers that grow in the slots of one batch.

    `waiting` may be filled at any time, and shared by several decoders of one model. `take` and
    `read` let waiting requests in; `round` appends a token to every answer.
    """

    def __init__(
        self,
        model: Any,
        waiting: deque[DecodeRequest],
        slots: int,
        *,
        stop_ids: Sequence[int],
        pad_id: int,
        mixed: MixedAdapters | None = None,
        most_read: int | None = None,
    ) -> None:
        """At most `slots` answers grow at once; each ends with one of `stop_ids` or at its limit.

        `mixed`: the adapters of requests, where rows of one batch have several.
        """
        self.waiting = waiting
        self.slots = DecodeSlots(stop_ids, slots, model.device)
        self._model = model
        self._pad_id = pad_id
        self._mixed = mixed
        self._most_read = most_read or MOST_READ
        self._batch: SamplingBatch | None = None
        # A request whose prompt was read, and that reading, while others of this prompt wait.
        self._kept: tuple[DecodeRequest, SamplingBatch] | None = None

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def joinable(self) -> bool:
        """True if requests can be let in now."""
        return self._batch is None or self._batch.joinable

    @property
    def refills(self) -> bool:
        """True if others wait and so many slots are free that letting them in is worth it."""
        if not self.waiting or not self.joinable:
            return False
        return self.slots.free * REFILL >= self.slots.size

    def take(self, room: int) -> list[DecodeRequest]:
        """The next waiting requests, at most `room`, as many as may be read at once."""
        taken: list[DecodeRequest] = []
        known = None if self._kept is None else self._kept[0]
        distinct = 0
        widest = 0
        while self.waiting and len(taken) < room:
            request = self.waiting[0]
            if request.cancelled:
                self.waiting.popleft()
                continue
            if known is None or not request.shares_prompt(known):
                distinct += 1
                widest = max(widest, len(request.prompt))
                if distinct > 1 and distinct * widest > self._most_read:
                    break
                known = request
            taken.append(self.waiting.popleft())
        return taken

    @torch.inference_mode()
    def read(self, requests: Sequence[DecodeRequest]) -> None:
        """Read the prompts of requests that were taken; their answers join those under way.

        Raises ModelError for a model that takes no `past_key_values`.
        """
        kept, self._kept = self._kept, None
        arrived = None
        fresh = requests
        if kept is not None:
            fresh = [request for request in requests if not request.shares_prompt(kept[0])]
            copies = len(requests) - len(fresh)
            if copies:
                row_B = torch.zeros(copies, dtype=torch.int64, device=kept[1].device)
                arrived = kept[1].copy_rows(row_B)
        if fresh:
            adapters = None
            if self._mixed is not None:
                adapters = RowAdapters(self._mixed, [request.adapter for request in fresh])
            prompts = [request.prompt for request in fresh]
            batch = SamplingBatch(self._model, prompts, self._pad_id, adapters)
            if batch.joinable and self._shares_with_next(fresh[-1]):
                end = len(batch.position_B) - 1
                reading = batch.copy_rows(torch.tensor([end], device=batch.device))
                reading.trim()
                self._kept = fresh[-1], reading
            if arrived is None:
                arrived = batch
            else:
                arrived.join(batch)
        elif kept is not None and self._shares_with_next(kept[0]):
            self._kept = kept
        assert arrived is not None, "no request was taken"
        if self._batch is None:
            self._batch = arrived
        else:
            self._batch.join(arrived)
        self.slots.add(requests)

    @torch.inference_mode()
    def round(self) -> None:
        """Append a token to every answer; finished ones leave, once they are enough."""
        assert self._batch is not None, "no answer is under way"
        token_B = self.slots.choose(self._batch.logits_BV)
        if self.slots.due:
            token_B = self._drop_finished(self._batch, token_B)
        if len(self.slots):
            self._batch.step(token_B)
        else:
            self._batch = None

    def _drop_finished(self, batch: SamplingBatch, token_B: torch.Tensor) -> torch.Tensor:
        """Take finished rows out where they are a share or all; the tokens of those that go on."""
        keep = self.slots.unfinished()
        finished = len(self.slots) - len(keep)
        share = REFILL if self.waiting and batch.joinable else LEAVE
        if keep and (not finished or finished * share < len(self.slots)):
            return token_B
        keep_B = self.slots.select(keep)
        if keep:
            batch.select(keep_B)
            if batch.joinable:
                batch.trim()
        return token_B[keep_B]

    def _shares_with_next(self, request: DecodeRequest) -> bool:
        return bool(self.waiting) and request.shares_prompt(self.waiting[0])
