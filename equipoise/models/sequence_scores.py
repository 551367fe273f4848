"""Numbers that models give to rows of token ids, in batches of like length, equal rows once.

    value_BK = model(ids_BT, attention_mask=mask_BT).logits          K numbers for each text
    logprob_BK[b, k] = log softmax(logits at the last token of row b)[token_K[k]]

Decoder models with a classification head read the K numbers at a row's last token that is not
padding by its id. That of a text's end would move the reading, so a model without a padding id gets
one that ends no text. Of next tokens, rows are padded on the right, and only the positions that are
read are projected to the vocabulary, where the model allows.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.nn.utils.rnn import pad_sequence

from equipoise.errors import ModelError
from equipoise.models.progress import report_progress

T = TypeVar("T")


def read_once(
    rows: Sequence[Sequence[int]],
    batch_size: int,
    read: Callable[[list[tuple[int, ...]]], Sequence[T]],
    model_name: str,
    remedy: str,
) -> list[T]:
    """`read` of each row, in order, `batch_size` rows of like length at a time, equal ones once.

    Raises ModelError when memory does not suffice, with `remedy` as the settings to lower.
    """
    longest_first = sorted(dict.fromkeys(map(tuple, rows)), key=len, reverse=True)
    results: dict[tuple[int, ...], T] = {}
    for start in range(0, len(longest_first), batch_size):
        batch = longest_first[start : start + batch_size]
        try:
            results.update(zip(batch, read(batch), strict=True))
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"{model_name} ran out of memory on {len(batch)} texts of up to "
                f"{len(batch[0])} tokens; lower {remedy} ({str(error).splitlines()[0]})"
            ) from error
        report_progress(len(batch))
    return [results[tuple(row)] for row in rows]


class SequenceScores:
    """A sequence classification model in memory."""

    def __init__(self, name: str, model: Any) -> None:
        """`name` is its folder or hub id; `model` has a classification head."""
        self.name = name
        self.model = model

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the model's numbers; None where its configuration only counts them."""
        labels = sorted(self.model.config.id2label.items())
        names = tuple(str(name) for _, name in labels)
        counted = any(name.startswith("LABEL_") for name in names)
        return None if counted else names

    def values(
        self, rows: Sequence[Sequence[int]], batch_size: int, field: str = "logits"
    ) -> list[list[float]]:
        """The K numbers of each row, from the output `field`, [B] or [B, K]. Raises ModelError."""
        return read_once(
            rows,
            batch_size,
            lambda batch: self._read(batch, field),
            f"model '{self.name}'",
            "batch_size or max_length",
        )

    @torch.inference_mode()
    def _read(self, rows: Sequence[Sequence[int]], field: str) -> list[list[float]]:
        ids = [torch.tensor(row) for row in rows]
        with self._padding([row[-1] for row in rows]) as pad_id:
            ids_BT = pad_sequence(ids, batch_first=True, padding_value=pad_id)
            mask_BT = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
            output = self.model(
                input_ids=ids_BT.to(self.model.device), attention_mask=mask_BT.to(self.model.device)
            )
        value = output.get(field)
        if not isinstance(value, torch.Tensor):
            tensors = [name for name, tensor in output.items() if isinstance(tensor, torch.Tensor)]
            raise ModelError(
                f"model '{self.name}' has no output '{field}'; its outputs are {', '.join(tensors)}"
            )
        if value.ndim not in (1, 2) or len(value) != len(rows):
            shape = list(value.shape)
            raise ModelError(
                f"model '{self.name}' has the output '{field}' of shape {shape} for "
                f"{len(rows)} texts; it must be [B, K]"
            )
        return value.float().reshape(len(rows), -1).tolist()

    @contextmanager
    def _padding(self, last_B: Sequence[int]) -> Iterator[int]:
        """The id of padding, set in the model's configuration while the context is open."""
        config = self.model.config.get_text_config()
        if config.pad_token_id is not None:
            yield config.pad_token_id
            return
        config.pad_token_id = min({*range(len(last_B) + 1)} - {*last_B})
        try:
            yield config.pad_token_id
        finally:
            config.pad_token_id = None


@dataclass(frozen=True, slots=True)
class NextToken:
    """Log-probabilities in nats of the given tokens and of `likeliest`; NaN where logits are.

    `several` is that of a text of several tokens, where one was read too.
    """

    logprobs: tuple[float, ...]
    likeliest: int
    highest: float
    several: float = math.nan

    @property
    def known(self) -> bool:
        """True if the logits were numbers."""
        return not math.isnan(self.highest)


def next_tokens(
    model: Any,
    rows: Sequence[Sequence[int]],
    tokens: Sequence[int],
    pad_id: int,
    batch_size: int,
    several: Sequence[int] = (),
) -> list[NextToken]:
    """The log-probabilities of `tokens` after each row, and of `several` in the same reading.

    Raises as `read_once`.
    """
    return read_once(
        rows,
        batch_size,
        lambda batch: read_next(model, batch, tokens, pad_id, several),
        "the guard",
        "batch_size, longest or max_length",
    )


@torch.inference_mode()
def read_next(
    model: Any,
    rows: Sequence[Sequence[int]],
    tokens: Sequence[int],
    pad_id: int,
    several: Sequence[int] = (),
) -> list[NextToken]:
    """`next_tokens` of one batch. Those of `several` but the last stand behind each row, where no
    earlier position sees them.
    """
    longer = [torch.tensor([*row, *several[:-1]]) for row in rows]
    ids_BT = pad_sequence(longer, batch_first=True, padding_value=pad_id)
    last_B = torch.tensor([len(row) - 1 for row in rows])
    place_BS = last_B[:, None] + torch.arange(max(1, len(several)))
    kept, index_BS = place_BS.unique(return_inverse=True)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        inputs = {"logits_to_keep": kept.to(model.device)}
    else:
        inputs = {}
        index_BS = place_BS
    ids_BT = ids_BT.to(model.device)
    # [B, U, V]: U of the T positions, those at which some row ends.
    logits_BUV = model(input_ids=ids_BT, use_cache=False, **inputs).logits
    device = logits_BUV.device
    row_B = torch.arange(len(rows), device=device)
    index_BS = index_BS.to(device)
    logprob_BV = torch.log_softmax(logits_BUV[row_B, index_BS[:, 0]].float(), -1)
    highest_B, likeliest_B = logprob_BV.max(-1)  # NaN in a row makes all of it NaN
    logprob_BK = logprob_BV[:, list(tokens)]
    several_B = (
        torch.zeros(len(rows), device=device) if several else torch.full_like(highest_B, math.nan)
    )
    for place, token in enumerate(several):
        at_place_BV = logits_BUV[row_B, index_BS[:, place]].float()
        several_B = several_B + torch.log_softmax(at_place_BV, -1)[:, token]
    columns = (logprob_BK, likeliest_B, highest_B, several_B)
    return [
        NextToken(tuple(logprobs), likeliest, highest, of_several)
        for logprobs, likeliest, highest, of_several in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
