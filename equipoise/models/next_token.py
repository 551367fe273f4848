"""What a causal language model says next: log-probabilities of a few tokens, and the
likeliest of all.

    logprob_BK[b, k] = log softmax(logits at the last token of row b)[token_K[k]]

Rows are padded on the right, where a causal model's last tokens cannot see it, so that
each is read as if it were alone. Only the positions at which some row of a batch ends
are projected to the vocabulary, where the model allows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from equipoise.models.batches import read_once


@dataclass(frozen=True, slots=True)
class Next:
    """Log-probabilities in nats: of the tokens that were asked for, and of `likeliest`,
    a token's id.

    All are NaN where the model's logits are not numbers.
    """

    logprobs: tuple[float, ...]
    likeliest: int
    highest: float

    @property
    def known(self) -> bool:
        """Whether the logits were numbers."""
        return not math.isnan(self.highest)


def next_tokens(
    model: Any,
    rows: Sequence[Sequence[int]],
    tokens: Sequence[int],
    pad_id: int,
    batch_size: int,
) -> list[Next]:
    """What `model` says of `tokens` after each row of token ids, in order.

    Rows of like length are read together, `batch_size` at a time; equal rows are read
    once, so their numbers are equal to the last digit. Raises ModelError when memory
    does not suffice.
    """
    remedy = "batch_size, longest or max_length"
    return read_once(
        rows,
        batch_size,
        lambda batch: _read(model, batch, tokens, pad_id),
        "the guard",
        remedy,
    )


@torch.inference_mode()
def _read(
    model: Any, rows: Sequence[Sequence[int]], tokens: Sequence[int], pad_id: int
) -> list[Next]:
    ids_BT = pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=pad_id
    )
    last_B = torch.tensor([len(row) - 1 for row in rows])
    kept, place_B = last_B.unique(return_inverse=True)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        inputs = {"logits_to_keep": kept.to(model.device)}
    else:
        inputs, place_B = {}, last_B
    logits_BUV = model(
        input_ids=ids_BT.to(model.device), use_cache=False, **inputs
    ).logits
    row_B = torch.arange(len(rows), device=logits_BUV.device)
    logprob_BV = torch.log_softmax(
        logits_BUV[row_B, place_B.to(logits_BUV.device)].float(), -1
    )
    highest, likeliest = logprob_BV.max(-1)  # NaN anywhere in a row makes all of it NaN
    asked_BK = logprob_BV[:, list(tokens)]
    return [
        Next(tuple(asked), *rest)
        for asked, *rest in zip(
            asked_BK.tolist(), likeliest.tolist(), highest.tolist(), strict=True
        )
    ]
