"""Vectors of texts by a transformers encoder: read in batches, each text as if it were alone.

    v = 1/T Σ_t hidden_t over the T tokens of a text without padding,   v / |v|

Source: mean pooling of Reimers and Gurevych 2019, Sentence-BERT, arXiv 1908.10084, §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from equipoise.errors import ModelError
from equipoise.models.loading import Dtype, load_encoder, load_tokenizer, row_length


class TextEncoder:
    """An encoder in memory."""

    def __init__(self, name: str, model: Any, tokenizer: Any, max_length: int) -> None:
        """`name` is the model's folder or hub id; a text beyond `max_length` tokens is cut.

        Raises ModelError.
        """
        known = model.get_input_embeddings().num_embeddings
        if len(tokenizer) > known:
            raise ModelError(
                f"model '{name}' knows {known} tokens, but its tokenizer has {len(tokenizer)}"
            )
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length

    @classmethod
    def load(
        cls,
        name: str,
        *,
        max_length: int | None = None,
        dtype: Dtype = "auto",
        device: str = "auto",
        trust_remote_code: bool = False,
    ) -> Self:
        """The encoder of a folder or hub id. Raises ModelError."""
        tokenizer = load_tokenizer(name, trust_remote_code)
        # A tokenizer's limit may be below the model's positions: RoBERTa has 514 of them for 512
        # tokens.
        longest = row_length(name, max_length, trust_remote_code)
        longest = min(longest, tokenizer.model_max_length)
        model = load_encoder(name, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
        return cls(name, model, tokenizer, longest)

    def embed(self, texts: Sequence[str], batch_size: int = 64, prefix: str = "") -> np.ndarray:
        """Unit vectors [B, D], float64, of the texts with `prefix` before each; a text without
        tokens has zeros.

        Equal texts are read once. Raises ModelError.
        """
        distinct = list(dict.fromkeys(texts))
        row_of = {text: row for row, text in enumerate(distinct)}
        ids = self._ids([prefix + text for text in distinct])
        width = self.model.config.get_text_config().hidden_size
        vector_BD = np.zeros((len(distinct), width))
        with_tokens = [row for row in range(len(ids)) if ids[row]]
        longest_first = sorted(with_tokens, key=lambda row: -len(ids[row]))
        for start in range(0, len(longest_first), batch_size):
            rows = longest_first[start : start + batch_size]
            try:
                vector_BD[rows] = self._read([ids[row] for row in rows])
            except torch.OutOfMemoryError as error:
                raise ModelError(
                    f"model '{self.name}' ran out of memory on {len(rows)} texts of up to "
                    f"{len(ids[rows[0]])} tokens; lower batch_size or max_length "
                    f"({str(error).splitlines()[0]})"
                ) from error
        norm_B = np.linalg.norm(vector_BD, axis=1, keepdims=True)
        vector_BD = np.divide(vector_BD, norm_B, out=vector_BD, where=norm_B > 0)
        return vector_BD[[row_of[text] for text in texts]]

    def _ids(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        encoded = self.tokenizer(texts, truncation=True, max_length=self.max_length)
        return encoded["input_ids"]

    @torch.inference_mode()
    def _read(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """The mean hidden state of each row of token ids [B, D]."""
        ids = [torch.tensor(row) for row in rows]
        # The mask marks padding; its id only has to be a token's.
        pad_id = self.tokenizer.pad_token_id or 0
        ids_BT = pad_sequence(ids, batch_first=True, padding_value=pad_id)
        mask_BT = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
        ids_BT, mask_BT = ids_BT.to(self.model.device), mask_BT.to(self.model.device)
        output = self.model(input_ids=ids_BT, attention_mask=mask_BT)
        hidden_BTD = output.get("last_hidden_state")
        if hidden_BTD is None:
            raise ModelError(
                f"model '{self.name}' has no output last_hidden_state; name a text encoder"
            )
        sum_BD = (hidden_BTD.float() * mask_BT[..., None]).sum(1)
        return (sum_BD / mask_BT.sum(1, keepdim=True)).double().cpu().numpy()
