"""The slots in which answers grow: each row's dice, settings, tokens and log-probabilities.

Row b's token at position t is the inverse of its cumulative distribution at `uniform(seed_b, t)`,
so it depends on the row's prompt and seed alone, up to the rounding of the forward pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from equipoise.models.grammar import TokenGrammar, allow_next
from equipoise.models.logprobs import Likelihood, likelihoods
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.sampling.engines.base import SampledAnswer
from equipoise.seeds import uniform

# Steps between two looks at which rows have finished, on an accelerator: each look waits for the
# device.
CHECK = 8


@dataclass(eq=False)
class DecodeRequest:
    """A prompt to be answered.

    `prompt`: token ids, not empty, with those that the answer has `begun` with at its end; `limit`:
    the most further tokens, at least 1. `adapter`: the row's own, by its place among the mixed
    ones. `grammar`: the form that the answer follows; `likeliest`: so many of the likeliest tokens
    are handed over beside each. `cancelled` may be set at any time. At the end `answer` holds what
    a request that does not stream was answered.
    """

    prompt: list[int]
    seed: int
    limit: int
    settings: SamplingSettings
    begun: Sequence[int] = ()
    adapter: int = 0
    grammar: TokenGrammar | None = None
    likeliest: int | None = None
    cancelled: bool = False
    answer: SampledAnswer | None = field(default=None, init=False)

    def shares_prompt(self, other: DecodeRequest) -> bool:
        """True if one reading of the prompt serves both."""
        return self.adapter == other.adapter and self.prompt == other.prompt


class StreamedRequest(DecodeRequest, ABC):
    """A request to which each token is handed as it comes."""

    @abstractmethod
    def take(self, token: int | None, likelihood: Likelihood | None) -> bool:
        """Receive the next token, None where the logits are no numbers; true: the answer ends."""


class DecodeSlots:
    """The answers that grow together, each in a slot, which is free again when it has finished."""

    def __init__(self, stop_ids: Sequence[int], size: int, device: torch.device) -> None:
        """At most `size` answers grow at once."""
        self.size = size
        self.finished = 0  # answers that have left
        self._stop_ids = stop_ids
        self._device = device
        self._wide = np.float32 if device.type == "mps" else np.float64
        self._longest = 0
        # In the last column lies what finished rows sample until they leave.
        self._number_ST = self._put(np.zeros((size, 1), self._wide))
        self._token_ST = torch.zeros((size, 1), dtype=torch.int64, device=device)
        self._logprob_ST = torch.zeros((size, 1), dtype=torch.float32, device=device)
        self._uncut_ST = torch.zeros_like(self._logprob_ST)
        self._limit_S = torch.zeros(size, dtype=torch.int64, device=device)
        self._stop_I = self._put(np.array(stop_ids, np.int64))
        self._free = list(range(size))
        self._requests: list[DecodeRequest] = []
        self._slots: list[int] = []
        self._slot_B = torch.zeros(0, dtype=torch.int64, device=device)
        self._place_B = torch.zeros_like(self._slot_B)
        self._done_B = torch.zeros_like(self._slot_B, dtype=torch.bool)
        # Rows that are sampled alike; None: all of them.
        self._groups: list[tuple[SamplingSettings, torch.Tensor | None]] = []
        self._streams = False
        self._steps = 0
        self._last = 0  # the step after which the last row is at its limit

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def free(self) -> int:
        """The number of free slots."""
        return len(self._free)

    @property
    def requests(self) -> Sequence[DecodeRequest]:
        """The requests that are being answered, and those finished that have not left."""
        return self._requests

    def add(self, requests: Sequence[DecodeRequest]) -> None:
        """Begin these answers, after those that are there."""
        slots = self._free[: len(requests)]
        self._free = self._free[len(requests) :]
        slot_B = self._put(np.array(slots))
        limits = [len(request.begun) + request.limit for request in requests]
        self._make_room(max(limits))
        seed_B = np.array([request.seed for request in requests], np.int64)
        numbers = uniform(seed_B[:, None], np.arange(self._longest + 1))
        self._number_ST[slot_B] = self._put(numbers.astype(self._wide))
        self._limit_S[slot_B] = self._put(np.array(limits))
        for slot, request in zip(slots, requests, strict=True):
            if request.begun:
                begun = self._put(np.array(request.begun, np.int64))
                self._token_ST[slot, : len(request.begun)] = begun
        place_B = self._put(np.array([len(request.begun) for request in requests], np.int64))
        self._requests = [*self._requests, *requests]
        self._slots += slots
        self._slot_B = torch.cat([self._slot_B, slot_B])
        self._place_B = torch.cat([self._place_B, place_B])
        self._done_B = torch.cat([self._done_B, torch.zeros_like(place_B).bool()])
        most = max(request.limit for request in requests)
        self._last = max(self._last, self._steps + most)
        self._group()

    def choose(self, logits_BV: torch.Tensor) -> torch.Tensor:
        """Choose every answer's next token [B], and write it down."""
        slot_B = self._slot_B
        column_B = self._place_B.masked_fill(self._done_B, self._longest)
        number_B = self._number_ST[slot_B, column_B]
        grammars = [request.grammar for request in self._requests]
        allowed_BV = allow_next(logits_BV, grammars)
        if len(self._groups) == 1:
            chosen = self._choose_group(self._groups[0][0], allowed_BV, number_B, None)
        else:
            chosen = (
                torch.zeros_like(slot_B),
                torch.zeros(len(slot_B), device=self._device),
                torch.zeros(len(slot_B), device=self._device),
            )
            for settings, row_B in self._groups:
                own = self._choose_group(settings, allowed_BV[row_B], number_B[row_B], row_B)
                for all_B, values_B in zip(chosen, own, strict=True):
                    all_B[row_B] = values_B
        token_B, logprob_B, uncut_B = chosen
        self._token_ST[slot_B, column_B] = token_B
        self._logprob_ST[slot_B, column_B] = logprob_B
        self._uncut_ST[slot_B, column_B] = uncut_B
        was_done_B = self._done_B
        self._place_B = self._place_B + ~was_done_B
        stops_B = (token_B[:, None] == self._stop_I).any(1)
        full_B = self._limit_S[slot_B] <= self._place_B
        self._done_B = was_done_B | stops_B | full_B
        if self._streams:
            self._hand_over(logits_BV, token_B, was_done_B)
        self._steps += 1
        return token_B

    @property
    def due(self) -> bool:
        """True when it is time to look which answers have finished."""
        if self._streams or self._device.type == "cpu":
            return True
        return self._steps % CHECK == 0 or self._steps >= self._last

    def share(self) -> float:
        """The answers done so far, those that grow by their share of the most tokens."""
        grown = (self._place_B / self._limit_S[self._slot_B]).sum().item()
        return self.finished + float(grown)

    def unfinished(self) -> list[int]:
        """The places of the answers that go on."""
        done = self._done_B.tolist()
        return [
            place
            for place, request in enumerate(self._requests)
            if not done[place] and not request.cancelled
        ]

    def select(self, keep: Sequence[int]) -> torch.Tensor:
        """Go on with these answers, and finish the others; returns their places as a tensor."""
        going = set(keep)
        leaving = [place for place in range(len(self._requests)) if place not in going]
        self._finish(leaving)
        keep_B = self._put(np.array(keep, np.int64))
        self._requests = [self._requests[place] for place in keep]
        self._slots = [self._slots[place] for place in keep]
        self._slot_B = self._slot_B[keep_B]
        self._place_B = self._place_B[keep_B]
        self._done_B = self._done_B[keep_B]
        self._group()
        return keep_B

    def _choose_group(
        self,
        settings: SamplingSettings,
        logits_BV: torch.Tensor,
        number_B: torch.Tensor,
        row_B: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Token, log-probability and the one before cuts of rows that are sampled alike."""
        written_BT = None
        if settings.penalises:
            slot_B, place_B = self._slot_B, self._place_B
            if row_B is not None:
                slot_B, place_B = slot_B[row_B], place_B[row_B]
            behind_BT = torch.arange(self._longest + 1, device=self._device) >= place_B[:, None]
            written_BT = self._token_ST[slot_B].masked_fill(behind_BT, -1)
        return choose(logits_BV, number_B, settings, written_BT)

    def _hand_over(
        self, logits_BV: torch.Tensor, token_B: torch.Tensor, was_done_B: torch.Tensor
    ) -> None:
        """Give every request that streams its token; what it ends is done."""
        tokens = token_B.tolist()
        done = was_done_B.tolist()
        known = torch.isfinite(logits_BV.amax(-1)).tolist()
        scored = self._likelihoods(logits_BV, token_B)
        ended = [False] * len(tokens)
        for place, request in enumerate(self._requests):
            if done[place] or request.cancelled or not isinstance(request, StreamedRequest):
                continue
            token = tokens[place] if known[place] else None
            ended[place] = request.take(token, scored.get(place))
        self._done_B = self._done_B | self._put(np.array(ended))

    def _likelihoods(self, logits_BV: torch.Tensor, token_B: torch.Tensor) -> dict[int, Likelihood]:
        """The likelihoods of tokens under softmax(logits), by the places that ask for them."""
        wanted: dict[int, int] = {}
        for place, request in enumerate(self._requests):
            if request.likeliest is not None:
                wanted[place] = request.likeliest
        if not wanted:
            return {}
        place_B = self._put(np.array([*wanted]))
        logprob_BV = logits_BV[place_B].float().log_softmax(-1)
        scored = likelihoods(logprob_BV, token_B[place_B], [*wanted.values()])
        return dict(zip(wanted, scored, strict=True))

    def _finish(self, places: Sequence[int]) -> None:
        """Free the slots of answers, and write down those that were not handed over."""
        self.finished += len(places)
        self._free += [self._slots[place] for place in places]
        places = [p for p in places if not isinstance(self._requests[p], StreamedRequest)]
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
            request = self._requests[place]
            own = slice(len(request.begun), size)
            ended = ids[size - 1] in self._stop_ids
            request.answer = SampledAnswer(ids[own], logprobs[own], uncut[own], ended)

    def _make_room(self, longest: int) -> None:
        """Have columns for answers of so many tokens."""
        further = longest - self._longest
        if further <= 0:
            return
        self._longest = longest
        self._token_ST = torch.nn.functional.pad(self._token_ST, (0, further))
        self._logprob_ST = torch.nn.functional.pad(self._logprob_ST, (0, further))
        self._uncut_ST = torch.nn.functional.pad(self._uncut_ST, (0, further))
        # The column of finished rows moves; its number is as good as any.
        self._number_ST = torch.nn.functional.pad(self._number_ST, (0, further))

    def _group(self) -> None:
        """Put rows that are sampled alike together."""
        self._streams = any(isinstance(request, StreamedRequest) for request in self._requests)
        places: dict[SamplingSettings, list[int]] = {}
        for place, request in enumerate(self._requests):
            places.setdefault(request.settings, []).append(place)
        self._groups = []
        for settings, own in places.items():
            row_B = self._put(np.array(own)) if len(places) > 1 else None
            self._groups.append((settings, row_B))

    def _put(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)
