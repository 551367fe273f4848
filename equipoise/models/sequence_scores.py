"""Numbers that a sequence classification model gives to texts: read in batches, each text as if it
were alone.

    value_BK = model(ids_BT, attention_mask=mask_BT).logits        K numbers for each text

Decoder models read them at a row's last token that is not padding, and recognise padding by its id.
A padding id that also ends a text would move the reading, so where the model's configuration has no
padding id, an id that ends no text is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from equipoise.errors import ModelError
from equipoise.models.batches import read_once


class SequenceScores:
    """A sequence classification model in memory."""

    def __init__(self, name: str, model: Any) -> None:
        """`name` is the model's folder or hub id; `model` a transformers model with a
        classification head.
        """
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
        """The K numbers of each row of token ids, in order; `field` is the output that holds them,
        [B] or [B, K].

        Equal rows are read once, so their numbers are equal to the last digit. Raises ModelError.
        """
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
        """The id of padding, which the model's configuration has while the context is open."""
        config = self.model.config.get_text_config()
        if config.pad_token_id is not None:
            yield config.pad_token_id
            return
        config.pad_token_id = min({*range(len(last_B) + 1)} - {*last_B})
        try:
            yield config.pad_token_id
        finally:
            config.pad_token_id = None
