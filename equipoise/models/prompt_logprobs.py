"""Log-probabilities of a text's own tokens, and the tokens that were likelier in their places.

logprob_t = log softmax(logits at token t − 1)[token t]        t = 1 … T − 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from equipoise.models.output_head import AnswerHead


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A token's log-probability in nats, and the likeliest tokens in its place, in order."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row's tokens but the first, and log p `next_V` after the last; unusable unless `known`."""

    tokens: tuple[Likelihood, ...]
    next_V: torch.Tensor
    known: bool


def likelihoods(
    logprob_BV: torch.Tensor, token_B: torch.Tensor, most_likely: Sequence[int]
) -> list[Likelihood]:
    """log p of token_B[b] under row b, float32 [B, V] in nats, and its `most_likely[b]` tokens."""
    size = min(max(most_likely), logprob_BV.shape[1])
    top_BK, ids_BK = logprob_BV.topk(size)
    chosen_B = logprob_BV.gather(1, token_B[:, None])[:, 0]
    columns = (chosen_B.tolist(), ids_BK.tolist(), top_BK.tolist(), most_likely)
    return [
        Likelihood(chosen, tuple(zip(ids, top, strict=True))[:most])
        for chosen, ids, top, most in zip(*columns, strict=True)
    ]


@torch.inference_mode()
def score_rows(
    model: Any,
    rows: Sequence[Sequence[int]],
    most_likely: Sequence[int],
    pad_id: int,
    head: AnswerHead,
) -> list[ScoredRow]:
    """Every token of each row of ids in one batch, with the `most_likely` ones in its place.

    No row is empty. Raises ModelError as `AnswerHead` does.
    """
    ids_BT = pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=pad_id
    )
    width = ids_BT.shape[1]
    row_N = [row for row, ids in enumerate(rows) for _ in ids]
    column_N = [column for ids in rows for column in range(len(ids))]
    source_N = torch.tensor(row_N) * width + torch.tensor(column_N)
    # What a row's last token predicts is not there: 0 stands for it, and is dropped.
    targets = [token for ids in rows for token in (*ids[1:], 0)]
    target_N = torch.tensor(targets, device=model.device)
    scored: list[list[Likelihood]] = [[] for _ in rows]
    next_V: dict[int, torch.Tensor] = {}
    known = [True] * len(rows)
    start = 0
    inputs = {"input_ids": ids_BT.to(model.device)}
    for logprob_CV in head.distributions(model, source_N, **inputs):
        chunk = slice(start, start + len(logprob_CV))
        target_C = target_N[chunk].to(logprob_CV.device)
        wanted = [most_likely[row] for row in row_N[chunk]]
        finite_C = torch.isfinite(logprob_CV.amax(-1)).tolist()
        for place, likelihood in enumerate(likelihoods(logprob_CV, target_C, wanted)):
            row, column = row_N[start + place], column_N[start + place]
            known[row] &= finite_C[place]
            if column + 1 < len(rows[row]):
                scored[row].append(likelihood)
            else:
                next_V[row] = logprob_CV[place].clone()
        start += len(logprob_CV)
    return [ScoredRow(tuple(tokens), next_V[row], known[row]) for row, tokens in enumerate(scored)]
