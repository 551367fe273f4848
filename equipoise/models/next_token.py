"""A causal language model's next token: log-probabilities of a few tokens, and the most likely
token of all.

    logprob_BK[b, k] = log softmax(logits at the last token of row b)[token_K[k]]

Rows are padded on the right, where a causal model's last tokens cannot see the padding, so that
each row is read as if it were alone. Only the positions at which some row of a batch ends are
projected to the vocabulary, where the model allows.
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
class NextToken:
    """Log-probabilities in nats: of the given tokens, and of `likeliest`, a token's id.

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
    model: Any, rows: Sequence[Sequence[int]], tokens: Sequence[int], pad_id: int, batch_size: int
) -> list[NextToken]:
    """The log-probabilities of `tokens` after each row of token ids, in order.

    Rows of like length are read together, `batch_size` at a time; equal rows are read once, so
    their numbers are equal to the last digit. Raises ModelError when memory does not suffice.
    """
    return read_once(
        rows,
        batch_size,
        lambda batch: _read(model, batch, tokens, pad_id),
        "the guard",
        "batch_size, longest or max_length",
    )


@torch.inference_mode()
def _read(
    model: Any, rows: Sequence[Sequence[int]], tokens: Sequence[int], pad_id: int
) -> list[NextToken]:
    ids_BT = pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=pad_id
    )
    last_B = torch.tensor([len(row) - 1 for row in rows])
    kept, place_B = last_B.unique(return_inverse=True)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        inputs = {"logits_to_keep": kept.to(model.device)}
    else:
        inputs, place_B = {}, last_B
    ids_BT = ids_BT.to(model.device)
    # [B, U, V]: U of the T positions, those at which some row ends.
    logits_BUV = model(input_ids=ids_BT, use_cache=False, **inputs).logits
    device = logits_BUV.device
    row_B = torch.arange(len(rows), device=device)
    logits_BV = logits_BUV[row_B, place_B.to(device)].float()
    logprob_BV = torch.log_softmax(logits_BV, -1)
    highest_B, likeliest_B = logprob_BV.max(-1)  # NaN in a row makes all of it NaN
    logprob_BK = logprob_BV[:, list(tokens)]
    results = zip(logprob_BK.tolist(), likeliest_B.tolist(), highest_B.tolist(), strict=True)
    return [
        NextToken(tuple(logprobs), likeliest, highest) for logprobs, likeliest, highest in results
    ]
