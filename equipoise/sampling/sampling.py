"""Sampling answers from a causal language model, many at once, each row with its own numbers.

Row b's token at position t is the inverse of its cumulative distribution at `uniform(seed_b, t)`,
so it depends on the row's prompt and seed alone, up to the rounding of the forward pass. Prompts
are read longest first, a bounded number of tokens at a time. Rows that have finished leave the
batch, and others take their places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from equipoise.models.progress import Telling
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.sampling.engines.base import SampledAnswer
from equipoise.sampling.sampling_batch import RowAdapters, SamplingBatch
from equipoise.seeds import uniform

# Finished rows leave once they are 1 / LEAVE of the batch; for a smaller share, copying the cache
# is not worth it. Where others wait for their place, at 1 / REFILL.
LEAVE = 8
REFILL = 16
# Steps between two looks at which rows have finished, on an accelerator: each look waits for the
# device.
CHECK = 8
# Tokens of prompts that are read at once, padding included: it bounds what a reading keeps in
# memory, and for how long the rows under way wait for it.
MOST_READ = 16_384

Key = tuple[int, ...]


@torch.inference_mode()
def sample(
    model: Any,
    prompts: Sequence[list[int]],
    seeds: Sequence[int],
    limits: Sequence[int],
    settings: SamplingSettings,
    *,
    stop_ids: Sequence[int],
    pad_id: int,
    batch_size: int,
    adapters: RowAdapters | None = None,
    refill: bool = True,
) -> list[SampledAnswer]:
    """One answer to each prompt, in order.

    `prompts`: token ids, none empty; `limits`: the most tokens of each answer, at least 1. An
    answer ends with one of `stop_ids` or at its limit. `adapters`: the rows' own, where the model
    has several in force. `refill`: finished rows make room for others, where the cache allows it.
    Raises ModelError for a model that takes no `past_key_values`.
    """
    waiting = WaitingPrompts(model, prompts, pad_id, adapters)
    slots = min(batch_size, len(prompts))
    sheet = AnswerSheet(seeds, limits, stop_ids, slots, model.device)
    telling = Telling()
    while waiting:
        batch, rows = waiting.read(slots)
        sheet.add(rows)
        while batch.joinable and waiting and len(sheet) < slots:
            _admit(waiting, batch, sheet, slots)
        refills = refill and batch.joinable
        while True:
            token_B = sheet.take(batch.logits_BV, settings)
            if sheet.due:
                share = REFILL if refills and waiting else LEAVE
                token_B = _drop_finished(batch, sheet, token_B, share)
            telling.look(sheet.share)
            if not len(sheet):
                break
            batch.step(token_B)
            if refills and waiting and (slots - len(sheet)) * REFILL >= slots:
                _admit(waiting, batch, sheet, slots)
    telling.end(len(prompts))
    return [sheet.answers[row] for row in range(len(prompts))]


def _admit(waiting: WaitingPrompts, batch: SamplingBatch, sheet: AnswerSheet, slots: int) -> None:
    arrived, rows = waiting.read(slots - len(sheet))
    batch.join(arrived)
    sheet.add(rows)


def _drop_finished(
    batch: SamplingBatch, sheet: AnswerSheet, token_B: torch.Tensor, share: int
) -> torch.Tensor:
    """Take finished rows out where they are 1 / share or all; the tokens of those that go on."""
    keep = sheet.unfinished()
    finished = len(sheet) - len(keep)
    if keep and (not finished or finished * share < len(sheet)):
        return token_B
    keep_B = sheet.select(keep)
    if keep:
        batch.select(keep_B)
        if batch.joinable:
            batch.trim()
    return token_B[keep_B]


@torch.inference_mode()
def retrace(
    model: Any,
    prompts: Sequence[list[int]],
    answers: Sequence[list[int]],
    temperature: float,
    pad_id: int,
) -> list[list[float]]:
    """The log-probabilities, in nats, of given answers' tokens under softmax(logits / temperature).

    As step-by-step sampling gives them, without cuts, in one batch.
    """
    batch = SamplingBatch(model, [list(prompt) for prompt in prompts], pad_id)
    logprobs: list[list[float]] = [[] for _ in answers]
    longest = max(map(len, answers))
    for t in range(longest):
        # An answer that is over repeats its last token, which is not read.
        ids = [answer[min(t, len(answer) - 1)] for answer in answers]
        token_B = torch.tensor(ids, device=batch.device)
        logprob_BV = (batch.logits_BV.float() / temperature).log_softmax(-1)
        logprob_B = logprob_BV.gather(1, token_B[:, None])[:, 0]
        for row, value in enumerate(logprob_B.tolist()):
            if t < len(answers[row]):
                logprobs[row].append(value)
        if t + 1 < longest:
            batch.step(token_B)
    return logprobs


class WaitingPrompts:
    """Prompts in reading order: longest first, equal ones together and read once."""

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
            batch = kept.copy_rows(torch.zeros(len(rows), dtype=torch.int64, device=kept.device))
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
            kept = batch.copy_rows(torch.tensor([end], device=batch.device))
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


class AnswerSheet:
    """The answers that grow together, each in a slot, which is free again when it has finished."""

    def __init__(
        self,
        seeds: Sequence[int],
        limits: Sequence[int],
        stop_ids: Sequence[int],
        slots: int,
        device: torch.device,
    ) -> None:
        """`limits` are the answers' most tokens, at least 1; at most `slots` grow at once."""
        self._seeds, self._limits, self._stop_ids = seeds, limits, stop_ids
        self._device = device
        self._every = 1 if device.type == "cpu" else CHECK
        self._longest = max(limits, default=0)
        self._wide = np.float32 if device.type == "mps" else np.float64
        # In the last column lies what finished rows sample until they leave.
        shape = (slots, self._longest + 1)
        self._number_ST = self._put(np.zeros(shape, self._wide))
        self._token_ST = torch.zeros(shape, dtype=torch.int64, device=device)
        self._logprob_ST = torch.zeros(shape, dtype=torch.float32, device=device)
        self._uncut_ST = torch.zeros_like(self._logprob_ST)
        self._limit_S = torch.zeros(slots, dtype=torch.int64, device=device)
        self._stop_I = self._put(np.array(stop_ids, np.int64))
        self._free = list(range(slots))
        self._rows: list[int] = []
        self._slots: list[int] = []
        self._slot_B = torch.zeros(0, dtype=torch.int64, device=device)
        self._place_B = torch.zeros_like(self._slot_B)
        self._done_B = torch.zeros_like(self._slot_B, dtype=torch.bool)
        self._steps = 0
        self._last = 0  # the step after which the last row is at its limit
        self.answers: dict[int, SampledAnswer] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[int]) -> None:
        """Begin these answers, after those that are there."""
        slots, self._free = self._free[: len(rows)], self._free[len(rows) :]
        slot_B = self._put(np.array(slots))
        seed_B = np.array([self._seeds[row] for row in rows], np.int64)
        numbers = uniform(seed_B[:, None], np.arange(self._longest + 1))
        limits = [self._limits[row] for row in rows]
        self._number_ST[slot_B] = self._put(numbers.astype(self._wide))
        self._limit_S[slot_B] = self._put(np.array(limits))
        new_B = torch.zeros_like(slot_B)
        self._rows += rows
        self._slots += slots
        self._slot_B = torch.cat([self._slot_B, slot_B])
        self._place_B = torch.cat([self._place_B, new_B])
        self._done_B = torch.cat([self._done_B, new_B.bool()])
        self._last = max(self._last, self._steps + max(limits))

    def take(self, logits_BV: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
        """Choose every answer's next token [B], and write it down."""
        slot_B, place_B = self._slot_B, self._place_B
        column_B = place_B.masked_fill(self._done_B, self._longest)
        number_B = self._number_ST[slot_B, column_B]
        written_BT = None
        if settings.penalises:
            behind_BT = torch.arange(self._longest + 1, device=self._device) >= place_B[:, None]
            written_BT = self._token_ST[slot_B].masked_fill(behind_BT, -1)
        token_B, logprob_B, uncut_B = choose(logits_BV, number_B, settings, written_BT)
        self._token_ST[slot_B, column_B] = token_B
        self._logprob_ST[slot_B, column_B] = logprob_B
        self._uncut_ST[slot_B, column_B] = uncut_B
        self._place_B = place_B + ~self._done_B
        stops_B = (token_B[:, None] == self._stop_I).any(1)
        full_B = self._limit_S[slot_B] <= self._place_B
        self._done_B = self._done_B | stops_B | full_B
        self._steps += 1
        return token_B

    @property
    def due(self) -> bool:
        """True when it is time to look which answers have finished."""
        return self._steps % self._every == 0 or self._steps >= self._last

    def share(self) -> float:
        """The answers done so far, those that grow by their share of the most tokens."""
        grown = (self._place_B / self._limit_S[self._slot_B]).sum().item()
        return len(self.answers) + float(grown)

    def unfinished(self) -> list[int]:
        """The places of the answers that go on."""
        done = self._done_B.tolist()
        return [place for place, is_done in enumerate(done) if not is_done]

    def select(self, keep: Sequence[int]) -> torch.Tensor:
        """Go on with these answers, and finish the others; returns their places as a tensor."""
        going = set(keep)
        leaving = [place for place in range(len(self._rows)) if place not in going]
        self._finish(leaving)
        keep_B = self._put(np.array(keep, np.int64))
        self._rows = [self._rows[place] for place in keep]
        self._slots = [self._slots[place] for place in keep]
        self._slot_B = self._slot_B[keep_B]
        self._place_B = self._place_B[keep_B]
        self._done_B = self._done_B[keep_B]
        return keep_B

    def _finish(self, places: Sequence[int]) -> None:
        if not places:
            return
        place_B = self._put(np.array(places))
        slot_B = self._slot_B[place_B]
        sizes = self._place_B[place_B].tolist()
        longest = max(sizes)
        written = (self._token_ST, self._logprob_ST, self._uncut_ST)
        columns = [values[slot_B, :longest].tolist() for values in written]
        rows = zip(places, sizes, *columns, strict=True)
        for place, size, ids, logprobs, uncut in rows:
            ended = ids[size - 1] in self._stop_ids
            self.answers[self._rows[place]] = SampledAnswer(
                ids[:size], logprobs[:size], uncut[:size], ended
            )
            self._free.append(self._slots[place])

    def _put(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)
