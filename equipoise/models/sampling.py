"""Sampling answers from a causal language model, many at once, each with its own dice.

Row b's token at position t is the inverse of its cumulative distribution at
`uniform(seed_b, t)`, so it depends on the row's prompt and seed alone: the neighbours
in a batch change it by no more than the rounding of the forward pass. The tokens keep
the vocabulary's order in that distribution, so rounding that swaps two near-equal
tokens in rank does not swap them here.

Prompts go in batches of like length, padded on the left; a prompt that occurs several
times in a batch is read once; rows that have finished leave the batch, and their part
of the cache with them. A `Batch` can also take in rows that come later, which is what
the server does. Left out: paged caches, speculation. A serving engine does that; this
is the sampler that needs none.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from equipoise.errors import ModelError
from equipoise.seeds import uniform

BLOCK = 256  # tokens of the vocabulary summed together in the first of the two steps of the inverse
RANKED = 1024  # the most likely tokens looked at for top-p before the whole vocabulary is sorted
LEAVE = 8  # finished rows leave once they are 1 / LEAVE of the batch; a smaller share is not worth copying the cache
CHECK = 8  # steps between two looks at who has finished, on an accelerator: each look waits for the device


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How a token is chosen: softmax(logits / temperature), cut to `top_k` tokens, then
    to the mass `top_p`.

    temperature 0 takes the most likely token; top_k 0 and top_p 1 cut nothing.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled answer: token ids (the end token included), their log-probabilities,
    and whether it ended itself.

    A log-probability is in nats, under the distribution that was sampled from: after
    temperature and cuts, renormalised. At temperature 0 it is under softmax(logits).
    """

    token_ids: list[int]
    logprobs: list[float]
    ended: bool


@torch.inference_mode()
def sample(
    model: Any,
    prompts: Sequence[list[int]],
    seeds: Sequence[int],
    limits: Sequence[int],
    choice: SamplingSettings,
    *,
    stop_ids: Sequence[int],
    pad_id: int,
    batch_size: int,
) -> list[Sample]:
    """One answer to each prompt, in order.

    `model` is a transformers causal language model; `prompts` are token ids, none
    empty; `seeds` int64; `limits` the most tokens of each answer, at least 1. An answer
    ends with one of `stop_ids` or at its limit. Raises ModelError for a model that
    takes no `past_key_values`.
    """
    order = sorted(
        range(len(prompts)), key=lambda i: (len(prompts[i]), prompts[i]), reverse=True
    )
    answers: dict[int, Sample] = {}
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = Batch(model, [prompts[i] for i in rows], pad_id)
        seed_B = np.array([seeds[i] for i in rows], np.int64)
        answers.update(
            zip(
                rows,
                _answers(batch, seed_B, [limits[i] for i in rows], choice, stop_ids),
                strict=True,
            )
        )
    return [answers[i] for i in range(len(prompts))]


@torch.inference_mode()
def retraced(
    model: Any,
    prompts: Sequence[list[int]],
    answers: Sequence[list[int]],
    temperature: float,
    pad_id: int,
) -> list[list[float]]:
    """What the sampler's own step-by-step path gives each token of answers that are
    known: log-probabilities in nats.

    Under softmax(logits / temperature), uncut. All rows in one batch.
    """
    batch = Batch(model, [list(prompt) for prompt in prompts], pad_id)
    found: list[list[float]] = [[] for _ in answers]
    longest = max(map(len, answers))
    for t in range(longest):
        token_B = torch.tensor(
            [answer[min(t, len(answer) - 1)] for answer in answers], device=batch.device
        )
        logprob_BV = (batch.logits_BV.float() / temperature).log_softmax(-1)
        for row, value in enumerate(
            logprob_BV.gather(1, token_B[:, None])[:, 0].tolist()
        ):
            if t < len(answers[row]):
                found[row].append(value)
        if t + 1 < longest:
            batch.step(token_B)
    return found


def choose(
    logits_BV: torch.Tensor, number_B: torch.Tensor, choice: SamplingSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """A token for each row, and its log-probability.

    `logits_BV` [B, V]; `number_B` float64 [B] in [0, 1), the dice. Returns (token_B
    int64, logprob_B float32, in nats).
    """
    logits_BV = logits_BV.float()
    if choice.temperature == 0:
        best_B, token_B = logits_BV.max(-1)
        return token_B, best_B - logits_BV.logsumexp(-1)
    logits_BV = logits_BV / choice.temperature
    if choice.top_k or choice.top_p < 1:
        logits_BV = logits_BV.masked_fill(
            logits_BV < _least_kept(logits_BV, choice), -torch.inf
        )
    logits_BV = logits_BV - logits_BV.amax(-1, keepdim=True)
    token_B, total_B = _inverse(logits_BV.exp(), number_B)
    return token_B, logits_BV.gather(1, token_B[:, None])[:, 0] - total_B.log().float()


def _least_kept(logits_BV: torch.Tensor, choice: SamplingSettings) -> torch.Tensor:
    """[B, 1]: the smallest logit that the cuts keep. What ties with it is kept as well."""
    if choice.top_p >= 1:
        return logits_BV.topk(min(choice.top_k, logits_BV.shape[-1])).values[:, -1:]
    if choice.top_k:
        value_BR = logits_BV.topk(min(choice.top_k, logits_BV.shape[-1])).values
        share_BR = value_BR.softmax(-1)
    else:
        value_BR, share_BR = _ranked(logits_BV, choice.top_p)
    before_BR = share_BR.cumsum(-1) - share_BR
    kept_B1 = (before_BR < choice.top_p).sum(-1, keepdim=True)
    return value_BR.gather(1, kept_B1.clamp_min(1) - 1)


def _ranked(logits_BV: torch.Tensor, mass: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest logits, in descending order, and their probabilities: enough to hold
    `mass` in every row.
    """
    if logits_BV.shape[-1] > 4 * RANKED:
        value_BR = logits_BV.topk(RANKED).values
        share_BR = (value_BR - logits_BV.logsumexp(-1, keepdim=True)).exp()
        if not bool((share_BR.sum(-1) < mass).any()):
            return value_BR, share_BR
    if (
        logits_BV.device.type == "cpu"
    ):  # NumPy sorts several times faster than torch does there
        value_BV = torch.from_numpy(np.sort(logits_BV.numpy(), -1)).flip(-1)
    else:
        value_BV = logits_BV.sort(descending=True).values
    return value_BV, value_BV.softmax(-1)


def _inverse(
    weight_BV: torch.Tensor, number_B: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first token at which the cumulative weight passes `number_B` of the whole,
    and the whole, [B] each.

    In two steps, block by block and then within the block that was hit: sums instead of
    a running sum over the vocabulary, in double precision, so that rare tokens keep
    their probability.
    """
    size = weight_BV.shape[1]
    wide = torch.float32 if weight_BV.device.type == "mps" else torch.float64
    full = size // BLOCK * BLOCK
    block_BN = (
        weight_BV[:, :full].unflatten(1, (size // BLOCK, BLOCK)).sum(-1, dtype=wide)
    )
    if full < size:
        block_BN = torch.cat(
            [block_BN, weight_BV[:, full:].sum(-1, keepdim=True, dtype=wide)], 1
        )
    block, left_B1, total_B1 = _passes(block_BN, number_B.to(wide)[:, None], share=True)
    place_BK = block * BLOCK + torch.arange(BLOCK, device=weight_BV.device)
    within_BK = (
        weight_BV.gather(1, place_BK.clamp_max(size - 1))
        .to(wide)
        .masked_fill(place_BK >= size, 0)
    )
    inner, _, _ = _passes(within_BK, left_B1, share=False)
    return (block * BLOCK + inner)[:, 0], total_B1[:, 0]


def _passes(
    weight_BN: torch.Tensor, target_B1: torch.Tensor, share: bool
) -> tuple[torch.Tensor, ...]:
    """(index at which the running sum passes the target, what of the target is left
    there, the whole), [B, 1] each.
    """
    running_BN = weight_BN.cumsum(1)
    total_B1 = running_BN[:, -1:]
    below = (
        1 - 2 * torch.finfo(running_BN.dtype).eps
    )  # so that rounding never points behind the last token
    target_B1 = torch.minimum(
        target_B1 * total_B1 if share else target_B1, total_B1 * below
    )
    index = torch.searchsorted(running_BN, target_B1, right=True)
    left_B1 = target_B1 - (running_BN.gather(1, index) - weight_BN.gather(1, index))
    return index, left_B1.clamp_min(0), total_B1


def _answers(
    batch: Batch,
    seed_B: np.ndarray,
    limits: list[int],
    choice: SamplingSettings,
    stop_ids: Sequence[int],
) -> Iterator[Sample]:
    device, longest = batch.device, max(limits)
    numbers = uniform(seed_B[:, None], np.arange(longest))
    number_BT = torch.from_numpy(
        numbers.astype(np.float32) if device.type == "mps" else numbers
    ).to(device)
    stop_S = torch.tensor(list(stop_ids), dtype=torch.int64, device=device)
    limit_B = torch.tensor(limits, device=device)
    token_BT = torch.zeros(number_BT.shape, dtype=torch.int64, device=device)
    logprob_BT = torch.zeros(number_BT.shape, dtype=torch.float32, device=device)
    row_B = torch.arange(len(limits), device=device)
    done_B = torch.zeros(len(limits), dtype=torch.bool, device=device)
    every = 1 if device.type == "cpu" else CHECK
    for t in range(longest):
        token_B, logprob_B = choose(batch.logits_BV, number_BT[row_B, t], choice)
        token_BT[row_B, t], logprob_BT[row_B, t] = token_B, logprob_B
        done_B |= (token_B[:, None] == stop_S).any(1) | (limit_B <= t + 1)
        if (t + 1) % every == 0:
            keep = (~done_B).nonzero()[:, 0]
            if len(keep) == 0:
                break
            if (len(done_B) - len(keep)) * LEAVE >= len(done_B):
                batch.select(keep)
                row_B, limit_B, done_B, token_B = (
                    row_B[keep],
                    limit_B[keep],
                    done_B[keep],
                    token_B[keep],
                )
        if t + 1 < longest:
            batch.step(token_B)
    for ids, logprobs, limit in zip(
        token_BT.tolist(), logprob_BT.tolist(), limits, strict=True
    ):
        end = next(
            (n for n, token in enumerate(ids[:limit], 1) if token in stop_ids), None
        )
        yield Sample(ids[: end or limit], logprobs[: end or limit], end is not None)


class Batch:
    """The forward pass of rows that grow a token at a time. `logits_BV` are those of
    each row's next token.
    """

    def __init__(self, model: Any, prompts: list[list[int]], pad_id: int) -> None:
        self.model, self.device = model, model.device
        distinct = {tuple(prompt): None for prompt in prompts}
        place = {prompt: n for n, prompt in enumerate(distinct)}
        self.width = max(map(len, distinct))
        length_B = torch.tensor(
            [len(prompt) for prompt in distinct], device=self.device
        )
        ids = [
            [pad_id] * (self.width - len(prompt)) + list(prompt) for prompt in distinct
        ]
        column_1T = torch.arange(self.width, device=self.device)[None]
        shown_BT = column_1T >= self.width - length_B[:, None]
        self.shown_BT = None if bool(shown_BT.all()) else shown_BT.long()
        self.position_B = length_B
        self.cache: Any = DynamicCache(config=model.config)
        takes = inspect.signature(model.forward).parameters
        if "past_key_values" not in takes:
            raise ModelError(
                f"{type(model).__name__} keeps its past in a way that cannot be sampled from here"
            )
        self.last = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        position_BT = (column_1T - (self.width - length_B[:, None])).clamp_min(0)
        self.logits_BV = self._forward(
            torch.tensor(ids, device=self.device), position_BT
        )
        if len(distinct) < len(prompts):
            row_B = torch.tensor(
                [place[tuple(prompt)] for prompt in prompts], device=self.device
            )
            self.select(row_B)
            self.logits_BV = self.logits_BV[row_B]

    def step(self, token_B: torch.Tensor) -> None:
        """Append a token to each row."""
        if self.shown_BT is not None:
            self.shown_BT = torch.cat(
                [self.shown_BT, self.shown_BT.new_ones(len(token_B), 1)], 1
            )
        self.logits_BV = self._forward(token_B[:, None], self.position_B[:, None])
        self.position_B = self.position_B + 1

    def select(self, row_B: torch.Tensor) -> None:
        """Go on with these rows, in this order; a row may be named several times.
        `logits_BV` stay as they are.
        """
        self.cache.reorder_cache(row_B)
        self.position_B = self.position_B[row_B]
        if self.shown_BT is not None:
            self.shown_BT = self.shown_BT[row_B]

    @property
    def joinable(self) -> bool:
        """Whether rows of another batch can be taken in: every layer keeps its whole
        past, a column a token.
        """
        return all(type(layer) is DynamicLayer for layer in self.cache.layers)

    def join(self, other: Batch) -> None:
        """Take in the rows of `other`, a joinable batch of the same model, behind one's
        own.
        """
        width = max(self.cache.get_seq_length(), other.cache.get_seq_length())
        shown_BT = torch.cat(
            [_widened(batch._shown()[..., None], width) for batch in (self, other)]
        )[..., 0]
        for mine, theirs in zip(self.cache.layers, other.cache.layers, strict=True):
            mine.keys = torch.cat(
                [_widened(mine.keys, width), _widened(theirs.keys, width)]
            )
            mine.values = torch.cat(
                [_widened(mine.values, width), _widened(theirs.values, width)]
            )
        self.shown_BT = None if bool(shown_BT.all()) else shown_BT
        self.position_B = torch.cat([self.position_B, other.position_B])
        self.logits_BV = torch.cat([self.logits_BV, other.logits_BV])

    def trim(self) -> None:
        """Drop the columns on the left that belong to no row any more; only of a
        joinable batch.
        """
        width = int(self.position_B.max())
        if self.shown_BT is not None and width < self.shown_BT.shape[1]:
            for layer in self.cache.layers:
                layer.keys, layer.values = (
                    layer.keys[:, :, -width:],
                    layer.values[:, :, -width:],
                )
            shown_BT = self.shown_BT[:, -width:]
            self.shown_BT = None if bool(shown_BT.all()) else shown_BT

    def _shown(self) -> torch.Tensor:
        """Which columns are tokens, [B, T], also where all of them are."""
        if self.shown_BT is not None:
            return self.shown_BT
        return self.position_B.new_ones(
            len(self.position_B), self.cache.get_seq_length()
        )

    def _forward(self, ids_BT: torch.Tensor, position_BT: torch.Tensor) -> torch.Tensor:
        """Logits of the token after the last, [B, V]."""
        out = self.model(
            input_ids=ids_BT,
            attention_mask=self.shown_BT,
            position_ids=position_BT,
            past_key_values=self.cache,
            use_cache=True,
            **self.last,
        )
        return out.logits[:, -1]


def _widened(past: torch.Tensor, width: int) -> torch.Tensor:
    """A past [B, …, T, D] with zeros on its left, `width` columns in all."""
    return torch.nn.functional.pad(past, (0, 0, width - past.shape[-2], 0))
