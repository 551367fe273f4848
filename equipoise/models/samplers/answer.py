"""A sampled answer, by whatever sampler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampledAnswer:
    """Token ids (the end token included), their log-probabilities, and whether it ended with an end
    token.

    A log-probability is in nats, under the distribution that was sampled from: after temperature
    and cuts, renormalised. At temperature 0 it is under softmax(logits). `uncut` are those before
    the cuts. Either may be empty where an engine does not give it.
    """

    token_ids: list[int]
    logprobs: list[float]
    uncut: list[float]
    ended: bool
