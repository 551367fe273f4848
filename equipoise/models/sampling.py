"""Sampling answers from a causal language model, many at once, each row with its own random
numbers.

Row b's token at position t is the inverse of its cumulative distribution at `uniform(seed_b, t)`,
so it depends on the row's prompt and seed alone: the neighbours in a batch change it by no more
than the rounding of the forward pass.

Prompts are read longest first, a bounded number of tokens at a time. Rows that have finished leave
the batch, and others take their places. Left out: paged caches, speculation. A serving engine has
those; this sampler needs no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from equipoise.models.answer_sheet import AnswerSheet
from equipoise.models.samplers.answer import SampledAnswer
from equipoise.models.sampling_batch import RowAdapters, SamplingBatch
from equipoise.models.token_choice import SamplingSettings
from equipoise.models.waiting_prompts import WaitingPrompts

# Finished rows leave once they are 1 / LEAVE of the batch; for a smaller share, copying the cache
# is not worth it. Where others wait for their place, at 1 / REFILL.
LEAVE = 8
REFILL = 16


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

    `model` is a transformers causal language model; `prompts` are token ids, none empty; `seeds`
    int64; `limits` the most tokens of each answer, at least 1. An answer ends with one of
    `stop_ids` or at its limit. `adapters` are the rows' own, where the model has several in force.
    `refill`: rows that have finished make room for others, where the model's cache allows it.
    Raises ModelError for a model that takes no `past_key_values`.
    """
    waiting = WaitingPrompts(model, prompts, pad_id, adapters)
    slots = min(batch_size, len(prompts))
    sheet = AnswerSheet(seeds, limits, stop_ids, slots, model.device)
    while waiting:
        _grow(waiting, sheet, settings, slots, refill)
    return [sheet.answers[row] for row in range(len(prompts))]


@torch.inference_mode()
def retraced(
    model: Any,
    prompts: Sequence[list[int]],
    answers: Sequence[list[int]],
    temperature: float,
    pad_id: int,
) -> list[list[float]]:
    """The log-probabilities, in nats, that the sampler's own step-by-step path gives the tokens of
    given answers.

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


def _grow(
    waiting: WaitingPrompts,
    sheet: AnswerSheet,
    settings: SamplingSettings,
    slots: int,
    refill: bool,
) -> None:
    """Grow a batch of the waiting rows until all of its rows have finished."""
    batch, rows = waiting.read(slots)
    sheet.add(rows)
    while batch.joinable and waiting and len(sheet) < slots:
        _admit(waiting, batch, sheet, slots)
    refill &= batch.joinable
    while True:
        token_B = sheet.take(batch.logits_BV, settings)
        if sheet.due:
            keep = sheet.unfinished()
            finished = len(sheet) - len(keep)
            share = REFILL if refill and waiting else LEAVE
            if not keep or (finished and finished * share >= len(sheet)):
                keep_B = sheet.select(keep)
                if not keep:
                    return
                batch.select(keep_B)
                token_B = token_B[keep_B]
                if batch.joinable:
                    batch.trim()
        batch.step(token_B)
        if refill and waiting and (slots - len(sheet)) * REFILL >= slots:
            _admit(waiting, batch, sheet, slots)


def _admit(waiting: WaitingPrompts, batch: SamplingBatch, sheet: AnswerSheet, slots: int) -> None:
    """Read some of the waiting prompts, and let them grow with the others."""
    arrived, rows = waiting.read(slots - len(sheet))
    batch.join(arrived)
    sheet.add(rows)
