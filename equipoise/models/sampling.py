"""Sampling answers from a causal language model, many at once, each row with its own
random numbers.

Row b's token at position t is the inverse of its cumulative distribution at
`uniform(seed_b, t)`, so it depends on the row's prompt and seed alone: the neighbours
in a batch change it by no more than the rounding of the forward pass.

Prompts go in batches of like length; rows that have finished leave the batch. Left out:
paged caches, speculation. A serving engine has those; this sampler needs no engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.sampling_batch import SamplingBatch
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.seeds import uniform

# Finished rows leave once they are 1 / LEAVE of the batch; for a smaller share, copying
# the cache is not worth it.
LEAVE = 8
# Steps between two looks at which rows have finished, on an accelerator: each look waits
# for the device.
CHECK = 8


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
) -> list[SampledAnswer]:
    """One answer to each prompt, in order.

    `model` is a transformers causal language model; `prompts` are token ids, none
    empty; `seeds` int64; `limits` the most tokens of each answer, at least 1. An answer
    ends with one of `stop_ids` or at its limit. Raises ModelError for a model that
    takes no `past_key_values`.
    """
    order = sorted(
        range(len(prompts)), key=lambda i: (len(prompts[i]), prompts[i]), reverse=True
    )
    answers: dict[int, SampledAnswer] = {}
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = SamplingBatch(model, [prompts[i] for i in rows], pad_id)
        seed_B = np.array([seeds[i] for i in rows], np.int64)
        limit_B = [limits[i] for i in rows]
        sampled = _answers(batch, seed_B, limit_B, settings, stop_ids)
        answers.update(zip(rows, sampled, strict=True))
    return [answers[i] for i in range(len(prompts))]


@torch.inference_mode()
def retraced(
    model: Any,
    prompts: Sequence[list[int]],
    answers: Sequence[list[int]],
    temperature: float,
    pad_id: int,
) -> list[list[float]]:
    """The log-probabilities, in nats, that the sampler's own step-by-step path gives
    the tokens of given answers.

    Under softmax(logits / temperature), without cuts. All rows go in one batch.
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


def _answers(
    batch: SamplingBatch,
    seed_B: np.ndarray,
    limits: list[int],
    settings: SamplingSettings,
    stop_ids: Sequence[int],
) -> Iterator[SampledAnswer]:
    device, longest = batch.device, max(limits)
    numbers = uniform(seed_B[:, None], np.arange(longest))
    if device.type == "mps":
        numbers = numbers.astype(np.float32)
    number_BT = torch.from_numpy(numbers).to(device)
    stop_S = torch.tensor(list(stop_ids), dtype=torch.int64, device=device)
    limit_B = torch.tensor(limits, device=device)
    token_BT = torch.zeros(number_BT.shape, dtype=torch.int64, device=device)
    logprob_BT = torch.zeros(number_BT.shape, dtype=torch.float32, device=device)
    uncut_BT = torch.zeros_like(logprob_BT)
    row_B = torch.arange(len(limits), device=device)
    done_B = torch.zeros(len(limits), dtype=torch.bool, device=device)
    every = 1 if device.type == "cpu" else CHECK
    for t in range(longest):
        token_B, logprob_B, uncut_B = choose(
            batch.logits_BV, number_BT[row_B, t], settings
        )
        token_BT[row_B, t], logprob_BT[row_B, t] = token_B, logprob_B
        uncut_BT[row_B, t] = uncut_B
        done_B |= (token_B[:, None] == stop_S).any(1) | (limit_B <= t + 1)
        if (t + 1) % every == 0:
            keep = (~done_B).nonzero()[:, 0]
            if len(keep) == 0:
                break
            if (len(done_B) - len(keep)) * LEAVE >= len(done_B):
                batch.select(keep)
                row_B, limit_B = row_B[keep], limit_B[keep]
                done_B, token_B = done_B[keep], token_B[keep]
        if t + 1 < longest:
            batch.step(token_B)
    numbers_B = (token_BT.tolist(), logprob_BT.tolist(), uncut_BT.tolist())
    for ids, logprobs, uncut, limit in zip(*numbers_B, limits, strict=True):
        ends = [n for n, token in enumerate(ids[:limit], 1) if token in stop_ids]
        length = ends[0] if ends else limit
        yield SampledAnswer(ids[:length], logprobs[:length], uncut[:length], bool(ends))
