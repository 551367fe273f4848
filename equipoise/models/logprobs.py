"""How likely a causal language model finds answers: sums of log-probabilities over
their tokens.

Answers to one prompt can share its computation. They then follow it in one row,

    prompt, answer 1, answer 2, …      position ids   0 … P−1, P … , P … ,

and an attention mask lets each token see the prompt and its own answer only: what each
answer's tokens see is what they would see alone. That holds for attention with
positions given as ids; `shares_prompts` asks whether a model is of that kind and, on a
small example, whether the numbers agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from equipoise.models.output_head import AnswerHead

LONGEST_SHARED = 2048  # tokens in a row; beyond it the wasted half of a masked [T, T] attention costs more than it saves


@dataclass(frozen=True, slots=True)
class Answers:
    """A prompt's token ids and those of the answers that follow it."""

    prompt: Sequence[int]
    answers: Sequence[Sequence[int]]

    @property
    def length(self) -> int:
        """Tokens of all answers with the prompt before each."""
        return sum(len(self.prompt) + len(answer) for answer in self.answers)


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch: B rows of T tokens that hold A answers, whose N tokens are to be scored.

    input_ids and position_ids int64 [B, T]; attention_mask bool [B, 1, T, T], or None
    where rows are plainly causal; source_N the positions, in the flattened batch, that
    the N tokens target_N are predicted from; count_A how many of them each answer has,
    in order.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor | None
    attention_mask: torch.Tensor | None
    source_N: torch.Tensor
    target_N: torch.Tensor
    count_A: tuple[int, ...]

    def to(self, device: torch.device) -> Packed:
        """The batch on `device`."""
        moved = {
            name: value.to(device, non_blocking=True)
            for name in (
                "input_ids",
                "position_ids",
                "attention_mask",
                "source_N",
                "target_N",
            )
            if (value := getattr(self, name)) is not None
        }
        return replace(self, **moved)

    def sums(self, head: AnswerHead, model: nn.Module) -> torch.Tensor:
        """log p(answer | prompt) [A] in nats, differentiable where gradients are on."""
        return self.by_answer(self.tokens(head, model)).sum(1)

    def by_answer(self, value_N: torch.Tensor) -> torch.Tensor:
        """Numbers of the N tokens as [A, T], each answer's from the left, 0 behind
        them.
        """
        return pad_sequence(list(value_N.split(self.count_A)), batch_first=True)

    def tokens(self, head: AnswerHead, model: nn.Module) -> torch.Tensor:
        """log p of each answer token [N] in nats, differentiable where gradients are
        on.
        """
        return head(model, self.source_N, self.target_N, **self.inputs(model))

    def inputs(self, model: nn.Module) -> dict[str, Any]:
        """What `model` is called with."""
        inputs: dict[str, Any] = {"input_ids": self.input_ids}
        if self.attention_mask is not None:
            inputs |= {
                "position_ids": self.position_ids,
                "attention_mask": _as_model_takes_it(self.attention_mask, model),
            }
        return inputs


def pack(batch: Sequence[Answers], pad_id: int, *, shared: bool) -> Packed:
    """One row for each prompt (`shared`) or one for each answer, whichever needs fewer
    tokens with the padding counted.

    Padding stands right, where a causal model's answers cannot see it.
    """
    together = max(len(item.prompt) + sum(map(len, item.answers)) for item in batch)
    alone = max(len(item.prompt) + max(map(len, item.answers)) for item in batch)
    answers = sum(len(item.answers) for item in batch)
    if (
        shared
        and together <= LONGEST_SHARED
        and len(batch) * together < answers * alone
    ):
        return replace(_rows(batch, together, pad_id), **_branches(batch, together))
    return _rows(
        [Answers(item.prompt, [answer]) for item in batch for answer in item.answers],
        alone,
        pad_id,
    )


def _rows(batch: Sequence[Answers], width: int, pad_id: int) -> Packed:
    """Each prompt and its answers one after the other in a row of `width` tokens."""
    ids_BT = torch.full((len(batch), width), pad_id, dtype=torch.long)
    source: list[int] = []
    target: list[int] = []
    for b, item in enumerate(batch):
        assert item.prompt, "an answer's first token needs a token before it"
        ids = [*item.prompt, *(token for answer in item.answers for token in answer)]
        ids_BT[b, : len(ids)] = torch.tensor(ids)
        start = b * width + len(item.prompt)
        for answer in item.answers:
            source += [
                b * width + len(item.prompt) - 1,
                *range(start, start + len(answer) - 1),
            ][: len(answer)]
            target += answer
            start += len(answer)
    counts = tuple(len(answer) for item in batch for answer in item.answers)
    return Packed(
        ids_BT,
        None,
        None,
        torch.tensor(source, dtype=torch.long),
        torch.tensor(target, dtype=torch.long),
        counts,
    )


def _branches(batch: Sequence[Answers], width: int) -> dict[str, torch.Tensor]:
    """Position ids and attention mask under which each answer sees the prompt and
    itself.
    """
    position_BT = torch.zeros((len(batch), width), dtype=torch.long)
    branch_BT = torch.full_like(
        position_BT, -1
    )  # 0 the prompt, k its k-th answer, −1 padding
    for b, item in enumerate(batch):
        lengths = [len(item.prompt), *map(len, item.answers)]
        ends = list(accumulate(lengths))
        for k, (length, end) in enumerate(zip(lengths, ends, strict=True)):
            first = 0 if k == 0 else len(item.prompt)
            branch_BT[b, end - length : end] = k
            position_BT[b, end - length : end] = torch.arange(first, first + length)
    causal_TT = torch.ones(width, width, dtype=torch.bool).tril()
    mask_BTT = causal_TT & (
        (branch_BT[:, None, :] == 0) | (branch_BT[:, None, :] == branch_BT[:, :, None])
    )
    return {"position_ids": position_BT, "attention_mask": mask_BTT[:, None]}


def _as_model_takes_it(mask: torch.Tensor, model: nn.Module) -> torch.Tensor:
    """A boolean mask as it is for `sdpa`; for eager attention 0 where a token may look,
    elsewhere a very low number.
    """
    inner: Any = extract_model_from_parallel(model)
    if inner.config.get_text_config()._attn_implementation != "eager":
        return mask
    dtype = inner.dtype
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        ~mask, torch.finfo(dtype).min
    )


@torch.no_grad()
def shares_prompts(
    head: AnswerHead, model: nn.Module, example: Answers, longest: int
) -> bool:
    """Whether answers that share a row with their prompt get from `model` what they get
    alone.

    `example` has a prompt; a few of its tokens serve as a trial. `longest` is the most
    tokens that a prompt and one answer will have: attention that slides over fewer
    would see too much of a packed row. False for models without position ids (ALiBi,
    recurrence) and for attention kernels that take no mask.
    """
    inner: Any = extract_model_from_parallel(model)
    base = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    config = base.config.get_text_config()
    settings = config.to_dict()
    windows = [
        w
        for key in ("sliding_window", "attention_chunk_size")
        if (w := settings.get(key))
    ]
    kinds = set(settings.get("layer_types") or ()) - {
        "full_attention",
        "sliding_attention",
        "chunked_attention",
    }
    if (
        config._attn_implementation not in ("sdpa", "eager")
        or base._is_stateful
        or kinds
        or "position_ids" not in inspect.signature(base.forward).parameters
        or longest > min(windows, default=longest)
    ):
        return False
    ids = list(example.prompt)[:8]
    trial = [Answers(ids, [ids[::-1], ids[1:] + ids[:1]])]
    rows = replace(_rows(trial, 3 * len(ids), 0), **_branches(trial, 3 * len(ids)))
    device = next(base.parameters()).device
    was_training = model.training
    model.eval()
    try:
        alone = pack(trial, 0, shared=False).to(device).sums(head, model)
        packed = rows.to(device).sums(head, model)
    finally:
        model.train(was_training)
    return head.agree(alone, packed)


def token_logprobs(
    model: nn.Module,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor | None,
    answer_mask: torch.Tensor,
    *,
    chunk: int | None = None,
    head: AnswerHead | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(sum_B, count_B): log p of each row's answer tokens, summed, in nats, and how
    many they are. Differentiable.

    input_ids int64 [B, T]; attention_mask as the model takes it, or None for rows
    padded on the right; answer_mask [B, T], true on answer tokens (never on a row's
    first token, which nothing predicts). Only `chunk` positions at a time are projected
    to the vocabulary (None: `AnswerHead` chooses). `head` spares measuring the model's
    tail again.
    """
    wanted_BT = answer_mask[:, 1:].bool()
    row_N, column_N = wanted_BT.nonzero(as_tuple=True)
    inputs = {"input_ids": input_ids} | (
        {} if attention_mask is None else {"attention_mask": attention_mask}
    )
    target_N = input_ids[row_N, column_N + 1]
    head = head or AnswerHead(model, chunk)
    logprob_N = head(model, row_N * input_ids.shape[1] + column_N, target_N, **inputs)
    count_B = wanted_BT.sum(1)
    return pad_sequence(list(logprob_N.split(count_B.tolist())), batch_first=True).sum(
        1
    ), count_B


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
) -> list[tuple[float, int]]:
    """For each row of token ids, prompt and answer: (log p of ids[answer_start:] in
    nats, its length in tokens).

    Rows of like length are scored together, `batch_size` answers at a time; rows with
    one prompt share its computation where the model allows (`share`). The model is left
    in the mode it was in.
    """
    if not ids:
        return []
    device = next(model.parameters()).device
    head = AnswerHead(model, chunk)
    was_training = model.training
    model.eval()
    try:
        groups = _by_prompt(ids, answer_start)
        if share and len(groups) < len(ids):
            share = shares_prompts(head, model, groups[0][0], max(map(len, ids)))
        found: list[tuple[float, int]] = [(0.0, 0)] * len(ids)
        for batch in _batches(groups if share else _singles(groups), batch_size):
            packed = pack([answers for answers, _ in batch], pad_id, shared=share).to(
                device
            )
            places = [place for _, group in batch for place in group]
            for place, total, count in zip(
                places, packed.sums(head, model).tolist(), packed.count_A, strict=True
            ):
                found[place] = (total, count)
    finally:
        model.train(was_training)
    return found


Group = tuple[
    Answers, list[int]
]  # answers to one prompt, and the rows that they came from


def _by_prompt(
    ids: Sequence[Sequence[int]], answer_start: Sequence[int]
) -> list[Group]:
    """Rows with one and the same prompt together; a group that grows too long for one
    row is continued in another.
    """
    groups: dict[tuple[int, ...], list[Group]] = {}
    for place, (row, start) in enumerate(zip(ids, answer_start, strict=True)):
        prompt, answer = tuple(row[:start]), list(row[start:])
        same = groups.setdefault(prompt, [])
        if (
            not same
            or len(prompt) + sum(map(len, same[-1][0].answers)) + len(answer)
            > LONGEST_SHARED
        ):
            same.append((Answers(prompt, []), []))
        answers, places = same[-1]
        same[-1] = (Answers(prompt, [*answers.answers, answer]), [*places, place])
    return [group for same in groups.values() for group in same]


def _singles(groups: Iterable[Group]) -> list[Group]:
    return [
        (Answers(answers.prompt, [answer]), [place])
        for answers, places in groups
        for answer, place in zip(answers.answers, places, strict=True)
    ]


def _batches(groups: Sequence[Group], batch_size: int) -> Iterable[list[Group]]:
    """Groups sorted by length, the longest first, in batches of about `batch_size`
    answers.
    """
    batch: list[Group] = []
    for group in sorted(groups, key=lambda group: -group[0].length):
        if (
            batch
            and sum(len(places) for _, places in batch) + len(group[1]) > batch_size
        ):
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch
