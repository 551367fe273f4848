"""A player that is a language model in this process: any causal model of transformers,
full weights or LoRA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from equipoise.errors import DataError, ModelError, UserError
from equipoise.models.adapters import (
    Lora,
    holds_adapter,
    resolve,
    resolve_adapter,
)
from equipoise.models.device import choose_device
from equipoise.models.loading import Dtype, load_encoding, load_model
from equipoise.models.resources import Resources
from equipoise.players.base import Player, Precision
from equipoise.players.shared_base import SharedBase
from equipoise.types import Message, Move, View

if TYPE_CHECKING:
    from equipoise.models.encoding import Encoding


class Local(Player):
    """A causal language model by folder or Hugging Face id, sampled here in batches."""

    kind: Literal["local"] = "local"
    model: str = Field(
        "builtin",
        description="a folder, a Hugging Face id, a GGUF file (or {path, gguf_file}), or "
        "a packaged model's name, such as builtin",
    )
    adapter: str | None = Field(
        None,
        description="a LoRA adapter on the model to start from: a folder, or "
        "builtin/NAME for a packaged one",
    )
    lora: Lora | None = Field(
        default_factory=lambda data: (
            Lora.model_validate({}) if data.get("adapter") else None
        ),
        description="generations are adapters on the model; null: each is a whole "
        "model. With `adapter`, its own shape",
    )
    dtype: Dtype = Field(
        "auto",
        description="of the weights; auto: of a player that learns, its learner's; of "
        "others the model's own on an accelerator, float32 on a CPU",
    )
    precision: Literal["fp32", "bf16"] | None = Field(
        None,
        description="bf16: matrix products in bfloat16, whatever the weights; null: "
        "where dtype is auto, as the player's learner computes",
    )
    device: str = Field(
        "auto", description="auto (an accelerator if there is one), cpu, cuda, cuda:1 …"
    )
    attention: str = Field(
        "auto",
        description="kernel, as transformers names it: auto, sdpa, eager, flash_attention_2 …",
    )
    max_length: int | None = Field(
        None,
        ge=2,
        description="tokens of prompt and answer together; null: the model's context, at most 2048",
    )
    template: str | None = Field(
        None,
        description="a Jinja chat template's file, in place of the tokenizer's own",
    )
    template_options: dict[str, Any] = Field(
        default_factory=dict,
        description="passed to the chat template, such as enable_thinking: false for Qwen3",
    )
    temperature: float = Field(
        1.0, ge=0, description="of sampling; 0 takes the most likely token"
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="sample from the fewest tokens that hold this probability",
    )
    top_k: int = Field(
        0, ge=0, description="sample from this many most likely tokens; 0: from all"
    )
    max_new_tokens: int = Field(
        256, ge=1, description="most tokens of an answer, its end token included"
    )
    batch_size: int = Field(
        64, ge=1, description="answers that are sampled or scored at once"
    )

    @field_validator("model", mode="before")
    @classmethod
    def _one_name(cls, model: Any) -> Any:
        if isinstance(model, Mapping) and set(model) == {"path", "gguf_file"}:
            return f"{model['path']}/{model['gguf_file']}"
        return model

    @model_validator(mode="after")
    def _adapter_is_kept(self) -> Local:
        if self.adapter is not None and self.lora is None:
            raise ValueError(
                "lora: null would train whole weights, but the player starts from an adapter"
            )
        return self

    @property
    def base_model(self) -> str:
        """The model as configured, without any adapter."""
        return self.model

    @property
    def start(self) -> Path | None:
        """The adapter's folder. Raises ModelError where there is none."""
        return None if self.adapter is None else resolve_adapter(self.adapter)

    def faults(self) -> Iterator[str]:
        """That the model, its tokenizer, its template, its adapter or its device is not
        there.
        """
        try:
            if self.device not in ("auto", "cpu"):  # asking takes torch
                choose_device(self.device)
            self.encoding()
            _ = self.start
        except UserError as error:
            yield str(error)

    def encoding(self) -> Encoding:
        """How this player's chats become token ids, the same for all its generations.

        Raises ModelError.
        """
        return load_encoding(
            self.model, self.max_length, self.template, self.template_options
        )

    def carrying(self, precision: Precision | None) -> Local:
        """The player in the precision of its learner, unless `dtype` says otherwise.

        Weights are float32, as they were trained, or, where the learner rounds them and
        of a frozen base under an adapter, bfloat16.
        """
        if precision is None or self.dtype != "auto":
            return self
        frozen = precision == "bf16" and self.lora is not None
        short = frozen or precision == "bf16_weights"
        products = self.precision or ("bf16" if precision == "bf16" else None)
        dtype = "bfloat16" if short else "float32"
        return self.model_copy(update={"dtype": dtype, "precision": products})

    def open(self, weights: Path | None, resources: Resources) -> LocalActor:
        """The actor with `weights`.

        Adapters of one model share it through `resources`. Raises ModelError.
        """
        encoding = self.shared_encoding(resources)
        base, adapter = self.base(weights, resources)
        name = None if adapter is None else base.adapter(adapter)
        return LocalActor(self, encoding, lambda: base.lend(name))

    def shared_encoding(self, resources: Resources) -> Encoding:
        """The encoding that all players with this tokenizer, template and length share.

        Raises ModelError.
        """
        options = repr(sorted(self.template_options.items()))
        return resources.get(
            ("encoding", resolve(self.model), self.max_length, self.template, options),
            self.encoding,
        )

    def base(
        self, weights: Path | None, resources: Resources
    ) -> tuple[SharedBase, Path | None]:
        """The model in memory that `weights` need, shared through `resources`, and the
        folder of the adapter on it.

        None for the adapter: the weights are the model's own. Raises ModelError.
        """
        on_cpu = choose_device(self.device).type == "cpu"
        dtype = "float32" if self.dtype == "auto" and on_cpu else self.dtype
        loading = (resolve(self.model), dtype, self.device, self.attention)
        if weights is None or holds_adapter(weights, self.lora):
            base = resources.get(
                ("base", *loading), lambda: SharedBase(self.model, self._load(None))
            )
            return base, weights
        whole = resources.get(
            ("whole", str(weights.resolve()), *loading),
            lambda: SharedBase(str(weights), self._load(weights)),
        )
        return whole, None

    def _load(self, weights: Path | None) -> Any:
        return load_model(
            self.model,
            weights,
            dtype=self.dtype,
            device=self.device,
            attention=self.attention,
        )


class LocalActor:
    """A local player that is ready to move and to score."""

    def __init__(
        self,
        player: Local,
        encoding: Encoding,
        lend: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        """`lend` gives the model for as long as its context is open."""
        self.player = player
        self._encoding = encoding
        self._lend: Callable[[], AbstractContextManager[Any]] | None = lend

    @property
    def encoding(self) -> str:
        """Fingerprint of tokenizer, template and truncation."""
        return self._encoding.fingerprint

    def act(self, views: Sequence[View], seeds: Sequence[int]) -> list[Move]:
        """One sampled answer per view.

        A chat that the template refuses or that leaves no room gives an error move.
        """
        moves: dict[int, Move] = {}
        prompts: dict[int, list[int]] = {}
        known: dict[tuple[Message, ...], list[int]] = {}
        for row, view in enumerate(views):
            try:
                if view.messages not in known:
                    known[view.messages] = self._encoding.prompt_ids(view.messages)
                prompts[row] = known[view.messages]
            except DataError as error:
                moves[row] = Move("", "error", error=str(error))
        if prompts:
            moves.update(self._sampled(prompts, [seeds[row] for row in prompts]))
        return [moves[row] for row in range(len(views))]

    def _sampled(
        self, prompts: dict[int, list[int]], seeds: Sequence[int]
    ) -> Iterator[tuple[int, Move]]:
        from equipoise.models.sampling import sample
        from equipoise.models.token_choice import SamplingSettings

        player, encoding = self.player, self._encoding
        rows = list(prompts.values())
        limits = [
            min(player.max_new_tokens, encoding.max_length - len(ids)) for ids in rows
        ]
        settings = SamplingSettings(player.temperature, player.top_k, player.top_p)
        with self._model() as model:
            samples = sample(
                model,
                rows,
                seeds,
                limits,
                settings,
                stop_ids=encoding.stop_ids,
                pad_id=encoding.pad_id,
                batch_size=player.batch_size,
            )
        for (row, ids), answer in zip(prompts.items(), samples, strict=True):
            move = Move(
                encoding.decode(answer.token_ids),
                "stop" if answer.ended else "length",
                tuple(answer.token_ids),
                tuple(answer.logprobs),
                len(ids),
                uncut=tuple(answer.uncut) if settings.cuts else (),
            )
            yield row, move

    def logprobs(
        self,
        chats: Sequence[tuple[Message, ...]],
        texts: Sequence[str],
        *,
        whole: bool = False,
        cut: Sequence[bool] = (),
    ) -> list[tuple[float, int]]:
        """For each (chat, answer): the sum of the answer's token log-probabilities, and
        their count, the end included unless the answer was `cut`.

        Under softmax(logits), whatever the player samples with. Raises DataError for a
        chat that cannot be encoded and, with `whole`, for an answer that does not fit.
        """
        from equipoise.models.logprobs import answer_logprobs

        ended = [not row for row in cut] or [True] * len(texts)
        joined = [
            self._encoding.join(chat, text, end)
            for chat, text, end in zip(chats, texts, ended, strict=True)
        ]
        if whole:
            self._refuse_partial(joined, texts, ended)
        ids = [ids for ids, _ in joined]
        starts = [start for _, start in joined]
        with self._model() as model:
            return answer_logprobs(
                model,
                ids,
                starts,
                self._encoding.pad_id,
                batch_size=self.player.batch_size,
            )

    def token_sums(
        self, prompts: Sequence[list[int]], answers: Sequence[list[int]]
    ) -> list[float]:
        """log p(answer | prompt), in nats, of each answer's token ids, uncut."""
        from equipoise.models.logprobs import answer_logprobs

        pairs = zip(prompts, answers, strict=True)
        with self._model() as model:
            scores = answer_logprobs(
                model,
                [[*prompt, *answer] for prompt, answer in pairs],
                list(map(len, prompts)),
                self._encoding.pad_id,
                batch_size=self.player.batch_size,
            )
        return [total for total, _ in scores]

    def retraced(
        self, prompts: Sequence[list[int]], answers: Sequence[list[int]]
    ) -> list[list[float]]:
        """What sampling gives each token id of these answers, in nats, at the player's
        temperature, uncut.
        """
        from equipoise.models.sampling import retraced

        with self._model() as model:
            return retraced(
                model,
                prompts,
                answers,
                self.player.temperature or 1.0,
                self._encoding.pad_id,
            )

    def _products(self, model: Any) -> AbstractContextManager[Any]:
        """The precision of matrix products."""
        import torch

        if self.player.precision is None:
            return nullcontext()
        short = self.player.precision == "bf16"
        return torch.autocast(model.device.type, torch.bfloat16, enabled=short)

    def _refuse_partial(
        self,
        joined: Sequence[tuple[list[int], int]],
        texts: Sequence[str],
        ended: Sequence[bool],
    ) -> None:
        for (ids, start), text, end in zip(joined, texts, ended, strict=True):
            needed = start + len(self._encoding.answer_ids(text, end))
            if needed > len(ids):
                raise DataError(
                    f"model '{self.player.model}' needs {needed} tokens for a prompt and "
                    f"answer, but its max_length is {self._encoding.max_length}; raise it, "
                    "for a part of an answer cannot be compared"
                )

    def close(self) -> None:
        """Let go of the model; it leaves memory with its last user."""
        self._lend = None

    @contextmanager
    def _model(self) -> Iterator[Any]:
        import torch

        assert self._lend is not None, "the actor is closed"
        try:
            with self._lend() as model, self._products(model):
                yield model
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"model '{self.player.model}' ran out of memory with batch_size = "
                f"{self.player.batch_size} and up to {self._encoding.max_length} tokens a "
                f"row; lower one of them ({str(error).splitlines()[0]})"
            ) from error
