"""Log-probabilities under a causal language model: of answers, and of a text's own tokens.

logprob_t = log softmax(logits at token t − 1)[token t]        t = 1 … T − 1
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from equipoise.models.output_head import AnswerHead
from equipoise.models.packing import LONGEST_SHARED, PromptAnswers, pack, shares_prompts
from equipoise.models.progress import report_progress

# PromptAnswers to a prompt, and the rows that they came from.
Group = tuple[PromptAnswers, list[int]]


@torch.no_grad()
def answer_logprobs(
    model: nn.Module,
    ids: Sequence[Sequence[int]],
    answer_start: Sequence[int],
    pad_id: int,
    *,
    batch_size: int = 32,
    chunk: int | None = None,
    share: bool = True,
    learned: Sequence[Sequence[bool] | None] = (),
) -> list[tuple[float, int]]:
    """For each row of token ids: (log p of ids[answer_start:] in nats, its length in tokens).

    `learned`: which tokens of each answer count, as in `PromptAnswers`; by default all.

    `batch_size` answers of like length are scored together; rows with the same prompt share its
    computation where the model allows (`share`). The model is left in its mode.
    """
    if not ids:
        return []
    device = next(model.parameters()).device
    head = AnswerHead(model, chunk)
    was_training = model.training
    model.eval()
    try:
        groups = by_prompt(ids, answer_start, learned or [None] * len(ids))
        if share and len(groups) < len(ids):
            share = shares_prompts(head, model, groups[0][0], max(map(len, ids)))
        scores: list[tuple[float, int]] = [(0.0, 0)] * len(ids)
        for batch in _batches(groups if share else _singles(groups), batch_size):
            packed = pack([answers for answers, _ in batch], pad_id, shared=share)
            packed = packed.to(device)
            places = [place for _, group in batch for place in group]
            sums = packed.sums(head, model).tolist()
            for place, total, count in zip(places, sums, packed.count_A, strict=True):
                scores[place] = (total, count)
            report_progress(len(places))
    finally:
        model.train(was_training)
    return scores


def by_prompt(
    ids: Sequence[Sequence[int]],
    answer_start: Sequence[int],
    learned: Sequence[Sequence[bool] | None],
) -> list[Group]:
    """Rows with one prompt in groups, each no longer than a row may be."""
    groups: dict[tuple[int, ...], list[Group]] = {}
    for place, (row, start, mask) in enumerate(zip(ids, answer_start, learned, strict=True)):
        prompt = tuple(row[:start])
        answer = list(row[start:])
        same = groups.setdefault(prompt, [])
        if not same or row_length(same[-1]) + len(answer) > LONGEST_SHARED:
            same.append((PromptAnswers(prompt, []), []))
        answers, places = same[-1]
        joined = PromptAnswers(prompt, [*answers.answers, answer], [*answers.learned, mask])
        same[-1] = (joined, [*places, place])
    return [group for same in groups.values() for group in same]


def row_length(group: Group) -> int:
    answers, _ = group
    return len(answers.prompt) + sum(map(len, answers.answers))


def _singles(groups: Iterable[Group]) -> list[Group]:
    singles: list[Group] = []
    for answers, places in groups:
        for k, (answer, place) in enumerate(zip(answers.answers, places, strict=True)):
            single = PromptAnswers(answers.prompt, [answer], [answers.mask(k)])
            singles.append((single, [place]))
    return singles


def _batches(groups: Sequence[Group], batch_size: int) -> Iterable[list[Group]]:
    """Groups sorted by length, the longest first, in batches of about `batch_size` answers."""
    batch: list[Group] = []
    size = 0
    for group in sorted(groups, key=lambda group: -group[0].length):
        answers = len(group[1])
        if batch and size + answers > batch_size:
            yield batch
            batch = []
            size = 0
        batch.append(group)
        size += answers
    if batch:
        yield batch


# -- a text's own tokens, and those that were likelier in their places


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
    row_N: list[int] = []
    column_N: list[int] = []
    for row, ids in enumerate(rows):
        row_N += [row] * len(ids)
        column_N += range(len(ids))
    source_N = torch.tensor(row_N) * width + torch.tensor(column_N)
    # What a row's last token predicts is not there: 0 stands for it, and is dropped.
    targets: list[int] = []
    for ids in rows:
        targets += (*ids[1:], 0)
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
            row = row_N[start + place]
            column = column_N[start + place]
            known[row] &= finite_C[place]
            if column + 1 < len(rows[row]):
                scored[row].append(likelihood)
            else:
                next_V[row] = logprob_CV[place].clone()
        start += len(logprob_CV)
    return [ScoredRow(tuple(tokens), next_V[row], known[row]) for row, tokens in enumerate(scored)]
