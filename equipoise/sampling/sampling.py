"""Sampling answers from a causal language model, many at once, each row with its own numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from equipoise.models.progress import ProgressReports
from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.decode_slots import DecodeRequest
from equipoise.sampling.decoder import Decoder
from equipoise.sampling.engines.base import SampledAnswer
from equipoise.sampling.sampling_batch import RowAdapters, SamplingBatch


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
    Prompts are read longest first, equal ones together and once. Raises ModelError for a model that
    takes no `past_key_values`.
    """
    requests: list[DecodeRequest] = []
    for row, (prompt, seed, limit) in enumerate(zip(prompts, seeds, limits, strict=True)):
        adapter = 0 if adapters is None else adapters.of_row[row]
        requests.append(DecodeRequest(prompt, seed, limit, settings, adapter=adapter))
    longest_first = sorted(
        requests,
        key=lambda request: (len(request.prompt), request.adapter, *request.prompt),
        reverse=True,
    )
    waiting = deque(longest_first)
    decoder = Decoder(
        model,
        waiting,
        min(batch_size, len(prompts)),
        stop_ids=stop_ids,
        pad_id=pad_id,
        mixed=None if adapters is None else adapters.mixed,
    )
    progress = ProgressReports()
    while waiting:
        decoder.read(decoder.take(decoder.slots.free))
        while waiting and decoder.slots.free and decoder.joinable:
            decoder.read(decoder.take(decoder.slots.free))
        while len(decoder):
            decoder.round()
            progress.look(decoder.slots.share)
            if len(decoder) and refill and decoder.refills:
                decoder.read(decoder.take(decoder.slots.free))
    progress.end(len(prompts))
    answers: list[SampledAnswer] = []
    for request in requests:
        assert request.answer is not None, "every request was answered"
        answers.append(request.answer)
    return answers


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
