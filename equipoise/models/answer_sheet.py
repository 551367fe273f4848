"""What rows that are sampled have answered so far, and their random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.seeds import uniform

# Steps between two looks at which rows have finished, on an accelerator: each look waits for the
# device.
CHECK = 8


class AnswerSheet:
    """The answers that grow together, a row each: where each is, and which have finished.

    A row writes into a slot of its own; slots of finished rows are given to others.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        limits: Sequence[int],
        stop_ids: Sequence[int],
        slots: int,
        device: torch.device,
    ) -> None:
        """`limits` are the most tokens of each answer, at least 1; at most `slots` answers grow at
        once.
        """
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
        """These answers begin, after those that are there."""
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
        token_B, logprob_B, uncut_B = choose(logits_BV, number_B, settings)
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
        """Whether it is time to look which answers have finished."""
        return self._steps % self._every == 0 or self._steps >= self._last

    def unfinished(self) -> list[int]:
        """The places of the answers that go on."""
        done = self._done_B.tolist()
        return [place for place, is_done in enumerate(done) if not is_done]

    def select(self, keep: Sequence[int]) -> torch.Tensor:
        """Go on with these answers, which have not finished; the others are whole. The places that
        go on, as a tensor.
        """
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
