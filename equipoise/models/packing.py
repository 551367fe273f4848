"""Batches of answers to be scored or trained on, in which answers can share their prompt's row:

    prompt, answer 1, answer 2, …      position ids   0 … P−1, P … , P … ,

An attention mask lets each token see the prompt and its own answer only. That holds for attention
with positions given as ids; `shares_prompts` checks the kind of model and, on an example, the
numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask
from torch.nn.utils.rnn import pad_sequence

from equipoise.models.loading import MASKED
from equipoise.models.output_head import AnswerHead

# Tokens in a shared row; beyond it the wasted half of a masked [T, T] attention costs more than it
# saves.
LONGEST_SHARED = 2048
KINDS_OF_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


@dataclass(frozen=True, slots=True)
class PromptAnswers:
    """A prompt's token ids and those of the answers that follow it.

    `learned`: for each answer which of its tokens count; None for all of them. Those of users and
    tools between an answer's turns do not.
    """

    prompt: Sequence[int]
    answers: Sequence[Sequence[int]]
    learned: Sequence[Sequence[bool] | None] = ()

    def mask(self, k: int) -> Sequence[bool] | None:
        """A mark for each token of the k-th answer that counts; None: all do."""
        return self.learned[k] if self.learned else None

    def counts(self) -> list[int]:
        """The number of tokens of each answer that count."""
        counts = []
        for k, answer in enumerate(self.answers):
            mask = self.mask(k)
            counts.append(len(answer) if mask is None else sum(mask))
        return counts

    @property
    def length(self) -> int:
        """Tokens of all answers with the prompt before each."""
        return sum(len(self.prompt) + len(answer) for answer in self.answers)


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A batch: B rows of T tokens that hold A answers, whose N tokens are to be scored.

    input_ids and position_ids int64 [B, T]; attention_mask bool [B, 1, T, T], or None where rows
    are plainly causal; source_N the flattened positions that predict the N tokens target_N; count_A
    the tokens of each answer.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor | None
    attention_mask: torch.Tensor | None
    source_N: torch.Tensor
    target_N: torch.Tensor
    count_A: tuple[int, ...]

    def to(self, device: torch.device) -> PackedBatch:
        """The batch on `device`."""
        moved = {}
        for name in ("input_ids", "position_ids", "attention_mask", "source_N", "target_N"):
            tensor = getattr(self, name)
            if tensor is not None:
                moved[name] = tensor.to(device, non_blocking=True)
        return replace(self, **moved)

    def sums(self, head: AnswerHead, model: nn.Module) -> torch.Tensor:
        """log p(answer | prompt) [A] in nats, differentiable where gradients are on."""
        return self.by_answer(self.tokens(head, model)).sum(1)

    def by_answer(self, value_N: torch.Tensor) -> torch.Tensor:
        """Numbers of the N tokens as [A, T], each answer's from the left, then zeros."""
        return pad_sequence(list(value_N.split(self.count_A)), batch_first=True)

    def tokens(self, head: AnswerHead, model: nn.Module) -> torch.Tensor:
        """log p of each answer token [N] in nats, differentiable where gradients are on."""
        return head(model, self.source_N, self.target_N, **self.inputs(model))

    def inputs(self, model: nn.Module) -> dict[str, Any]:
        """The arguments of `model`'s forward."""
        inputs: dict[str, Any] = {"input_ids": self.input_ids}
        if self.attention_mask is not None:
            inputs["position_ids"] = self.position_ids
            inputs["attention_mask"] = mask_for(model, self.attention_mask)
        return inputs


def pack(batch: Sequence[PromptAnswers], pad_id: int, *, shared: bool) -> PackedBatch:
    """A row a prompt (`shared`) or an answer, whichever needs fewer tokens, padded on the right."""
    together = max(len(item.prompt) + sum(map(len, item.answers)) for item in batch)
    alone = max(len(item.prompt) + max(map(len, item.answers)) for item in batch)
    answers = sum(len(item.answers) for item in batch)
    saves = len(batch) * together < answers * alone
    if shared and saves and together <= LONGEST_SHARED:
        return replace(_rows(batch, together, pad_id), **_branches(batch, together))
    single = []
    for item in batch:
        for k, answer in enumerate(item.answers):
            single.append(PromptAnswers(item.prompt, [answer], [item.mask(k)]))
    return _rows(single, alone, pad_id)


def _rows(batch: Sequence[PromptAnswers], width: int, pad_id: int) -> PackedBatch:
    ids_BT = torch.full((len(batch), width), pad_id, dtype=torch.long)
    source: list[int] = []
    target: list[int] = []
    counts: list[int] = []
    for b, item in enumerate(batch):
        assert item.prompt, "an answer's first token needs a token before it"
        ids = list(item.prompt)
        # Positions in the flattened batch: the prompt's last token, which predicts every answer's
        # first, and the answer's first.
        last = b * width + len(item.prompt) - 1
        start = last + 1
        for k, answer in enumerate(item.answers):
            before = [last, *range(start, start + len(answer) - 1)] if answer else []
            mask = item.mask(k)
            ids += answer
            if mask is None:
                source += before
                target += answer
                counts.append(len(answer))
            else:
                source += compress(before, mask)
                target += compress(answer, mask)
                counts.append(sum(mask))
            start += len(answer)
        ids_BT[b, : len(ids)] = torch.tensor(ids)
    return PackedBatch(
        input_ids=ids_BT,
        position_ids=None,
        attention_mask=None,
        source_N=torch.tensor(source, dtype=torch.long),
        target_N=torch.tensor(target, dtype=torch.long),
        count_A=tuple(counts),
    )


def _branches(batch: Sequence[PromptAnswers], width: int) -> dict[str, torch.Tensor]:
    """Position ids and attention mask under which each answer sees the prompt and itself."""
    position_BT = torch.zeros((len(batch), width), dtype=torch.long)
    # 0 the prompt, k its k-th answer, −1 padding.
    branch_BT = torch.full_like(position_BT, -1)
    for b, item in enumerate(batch):
        lengths = [len(item.prompt), *map(len, item.answers)]
        ends = list(accumulate(lengths))
        for k, (length, end) in enumerate(zip(lengths, ends, strict=True)):
            first = 0 if k == 0 else len(item.prompt)
            branch_BT[b, end - length : end] = k
            position_BT[b, end - length : end] = torch.arange(first, first + length)
    causal_TT = torch.ones(width, width, dtype=torch.bool).tril()
    prompt_B1T = branch_BT[:, None, :] == 0
    same_BTT = branch_BT[:, None, :] == branch_BT[:, :, None]
    mask_BTT = causal_TT & (prompt_B1T | same_BTT)
    return {"position_ids": position_BT, "attention_mask": mask_BTT[:, None]}


def mask_for(model: nn.Module, mask: torch.Tensor) -> Any:
    """The mask as the attention takes it: boolean for `sdpa`, blocks for `flex_attention`, numbers
    to add for eager.
    """
    inner: Any = extract_model_from_parallel(model)
    attention = inner.config.get_text_config()._attn_implementation
    if attention == "flex_attention":

        def sees(row: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
            return mask[row, 0, query, key]

        rows, _, queries, keys = mask.shape
        return create_block_mask(sees, rows, None, queries, keys, device=str(mask.device))
    if attention != "eager":
        return mask
    dtype = inner.dtype
    open_mask = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return open_mask.masked_fill_(~mask, torch.finfo(dtype).min)


@torch.no_grad()
def shares_prompts(
    head: AnswerHead, model: nn.Module, example: PromptAnswers, longest: int
) -> bool:
    """True if `model` gives answers in their prompt's row the numbers that it gives them alone.

    Tried on a few tokens of `example`. `longest`: the most tokens of a prompt and one answer:
    attention that slides over fewer would see too much. False for models without position ids
    (ALiBi, recurrence) and for attention kernels that take no mask.
    """
    inner: Any = extract_model_from_parallel(model)
    base = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    if not _can_mask(base, longest):
        return False
    ids = list(example.prompt)[:8]
    trial = [PromptAnswers(ids, [ids[::-1], ids[1:] + ids[:1]])]
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


def _can_mask(base: Any, longest: int) -> bool:
    """True if attention takes position ids and a mask of our own, and spans `longest` tokens."""
    config = base.config.get_text_config()
    settings = config.to_dict()
    if config._attn_implementation not in MASKED or base._is_stateful or settings.get("alibi"):
        return False
    if set(settings.get("layer_types") or ()) - KINDS_OF_ATTENTION:
        return False
    if "position_ids" not in inspect.signature(base.forward).parameters:
        return False
    windows = (settings.get("sliding_window"), settings.get("attention_chunk_size"))
    return all(not window or longest <= window for window in windows)
