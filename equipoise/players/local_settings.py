"""The settings of a language model in this process, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from equipoise.errors import DataError, UserError
from equipoise.models.adapters import Lora, resolve_adapter
from equipoise.models.chat_encoding import at_most_tokens
from equipoise.models.device import DeviceName, choose_device
from equipoise.models.loading import (
    Day,
    Dtype,
    Loading,
    check_files,
    describe,
    load_encoding,
    missing_kernel,
    prints_date,
)
from equipoise.models.progress import quiet
from equipoise.models.quantization import Quantization, missing_package
from equipoise.models.thought_marks import SWITCHES
from equipoise.players.base import Player, Precision
from equipoise.sampling.engines.base import Sampler
from equipoise.sampling.engines.remote_engine import sampler_faults
from equipoise.system.effects import NOTHING, Adapter, Attention, Model, ReadPath
from equipoise.types import Prompt

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding


LONGEST_TEXTS = 32  # prompts whose tokens are counted before a run


class LocalSettings(Player):
    """The model, its loading and its sampling."""

    kind: Literal["local"] = "local"
    model: Model = Field(
        "builtin",
        max_length=1000,
        description="a folder, a Hugging Face id, a GGUF file (or {path, gguf_file}), or a "
        "packaged model, such as builtin",
    )
    adapter: Adapter | None = Field(
        None, description="a LoRA adapter to start from: a folder, or builtin/NAME"
    )
    lora: Lora | None = Field(
        default_factory=lambda data: Lora.model_validate({}) if data.get("adapter") else None,
        description="generations are adapters (with `adapter` of its shape); null: whole models",
    )
    dtype: Dtype = Field(
        "auto",
        description="of the weights; auto: its learner's, else the model's own, on a CPU float32",
    )
    precision: Literal["fp32", "bf16"] | None = Field(
        None, description="bf16: products in bfloat16; null: as its learner, if dtype is auto"
    )
    device: DeviceName = "auto"
    attention: Attention = Field(
        "auto", description="kernel, as transformers names it: auto, sdpa, eager …"
    )
    quantization: Quantization = None
    liger: bool = Field(
        False,
        description="Liger's Triton kernels in the layers (pip install liger-kernel), on GPUs",
    )
    max_length: int | None = Field(
        None,
        ge=2,
        description="tokens of prompt and answer; null: the model's context, at most 2048",
    )
    max_prompt: int | None = Field(
        None,
        ge=1,
        description="tokens of a prompt that are read, its last ones; null: all, or with "
        "`too_long: cut_prompt` what leaves room for an answer",
    )
    template: ReadPath | None = Field(
        None, description="a Jinja chat template's file, in place of the tokenizer's"
    )
    template_options: Annotated[dict[str, Any], NOTHING] = Field(
        default_factory=dict,
        description="further variables of the chat template, such as reasoning_effort: low",
    )
    enable_thinking: bool | None = Field(
        None,
        description="let the model think before it answers, by its chat template's switch; null: "
        "as the template has it",
    )
    thinking_tokens: int | None = Field(
        None,
        ge=1,
        description="most tokens of its thoughts, beside max_new_tokens for the answer: longer "
        "thoughts are closed by the template's mark, which is not learned; null: both share "
        "max_new_tokens",
    )
    date: Day = None
    temperature: float = Field(1.0, ge=0, description="of sampling; 0 takes the most likely token")
    top_p: float = Field(
        1.0, gt=0, le=1, description="sample from the fewest tokens that hold this probability"
    )
    top_k: int = Field(0, ge=0, description="sample from this many most likely tokens; 0: from all")
    min_p: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="sample from tokens at least this many times as likely as the likeliest",
    )
    repetition_penalty: float = Field(
        1.0,
        ge=1,
        description="divides the logits of tokens that the answer has already, multiplies negative "
        "ones; in this process alone. Learning leaves it out",
    )
    presence_penalty: float = Field(
        0.0,
        ge=-2,
        le=2,
        description="lowers the logits of tokens that the answer has already. Learning leaves it "
        "out",
    )
    frequency_penalty: float = Field(
        0.0, ge=-2, le=2, description="the same, for each time that it has them"
    )
    max_new_tokens: int = Field(256, ge=1, description="most tokens of an answer, its end included")
    batch_size: int = Field(64, ge=1, description="answers that are sampled or scored at once")
    sampler: Sampler = Field(
        default="local",  # type: ignore[assignment]
        description="this process, or an engine in another (vllm); weights and learning stay here",
    )

    @field_validator("model", mode="before")
    @classmethod
    def _one_name(cls, model: Any) -> Any:
        if isinstance(model, Mapping) and set(model) == {"path", "gguf_file"}:
            return f"{model['path']}/{model['gguf_file']}"
        return model

    @field_validator("lora", mode="before")
    @classmethod
    def _lora_or_not(cls, lora: Any) -> Any:
        """`true` is an adapter of the default settings, `false` none."""
        if isinstance(lora, bool):
            return {} if lora else None
        if isinstance(lora, int | str):
            raise ValueError(f"give true, null or settings, e.g. {{r: 16}}, not {lora!r}")
        return lora

    @model_validator(mode="after")
    def _adapter_is_kept(self) -> Self:
        if self.adapter is not None and self.lora is None:
            raise ValueError(
                "lora: null would train whole weights, but the player starts from an adapter"
            )
        return self

    @model_validator(mode="after")
    def _room_is_left(self) -> Self:
        if self.max_prompt and self.max_length and self.max_prompt >= self.max_length:
            raise ValueError(
                f"max_prompt: {self.max_prompt} tokens leave no room for an answer within "
                f"max_length: {self.max_length}; set fewer"
            )
        return self

    @model_validator(mode="after")
    def _short_weights_are_frozen(self) -> Self:
        if self.quantization is not None and self.learns and self.lora is None:
            raise ValueError(
                f"quantization: {self.quantization} is for weights that are not trained, and this "
                "player learns whole weights; set lora: true, which trains an adapter on them"
            )
        return self

    @model_validator(mode="after")
    def _thinks_or_not(self) -> Self:
        if self.thinking_tokens is not None and self.enable_thinking is False:
            raise ValueError("thinking_tokens: enable_thinking is false, so there are no thoughts")
        for switch in SWITCHES:
            given = self.template_options.get(switch)
            if self.enable_thinking is not None and given not in (None, self.enable_thinking):
                raise ValueError(
                    f"enable_thinking is {self.enable_thinking}, but template_options says "
                    f"{switch}: {given}; leave one of them out"
                )
        return self

    @model_validator(mode="after")
    def _sampler_has_the_weights(self) -> Self:
        if not self.sampler.is_remote:
            return self
        if self.quantization is not None:
            raise ValueError(
                f"quantization: {self.quantization} is of weights in this process, and sampler "
                f"{self.sampler.kind} has weights of its own; set null, or sampler: local"
            )
        if self.repetition_penalty != 1:
            raise ValueError(
                f"repetition_penalty: sampler {self.sampler.kind} counts the prompt's tokens, too; "
                "set 1, or sampler: local"
            )
        if self.learns and any(self.penalties[1:]):
            raise ValueError(
                "presence_penalty, frequency_penalty: a learner takes its log-probabilities from "
                f"before them, which sampler {self.sampler.kind} does not give; set 0, or sampler: "
                "local"
            )
        if self.learns and self.lora is None:
            raise ValueError(
                f"sampler: {self.sampler.kind} gets each generation as an adapter, but "
                "this player learns whole weights; set lora, or sampler: local"
            )
        if not self.sampler.takes_adapters and (self.learns or self.adapter):
            raise ValueError(
                f"sampler: {self.sampler.kind} takes no adapter while it runs, so its "
                "player neither learns nor starts from one; take vllm, or sampler: local"
            )
        return self

    @property
    def chat_options(self) -> dict[str, Any]:
        """The variables of the chat template."""
        if self.enable_thinking is None:
            return self.template_options
        return dict.fromkeys(SWITCHES, self.enable_thinking) | self.template_options

    @property
    def most_tokens(self) -> int:
        """The most tokens that a move may sample, thoughts and answer."""
        return self.max_new_tokens + (self.thinking_tokens or 0)

    @property
    def penalties(self) -> tuple[float, float, float]:
        """The penalties of repetition, presence and frequency."""
        return self.repetition_penalty, self.presence_penalty, self.frequency_penalty

    @property
    def loading(self) -> Loading:
        """The way in which its weights are loaded."""
        return Loading(self.dtype, self.device, self.attention, self.quantization, self.liger)

    @property
    def has_exact_products(self) -> bool:
        """True if its matrix products are of float32 for certain: on a CPU, without bfloat16."""
        on_cpu = choose_device(self.device).type == "cpu"
        return on_cpu and self.precision != "bf16" and self.dtype in ("float32", "auto")

    @property
    def base_model(self) -> str:
        return self.model

    @property
    def start(self) -> Path | None:
        """The adapter's folder. Raises ModelError where there is none."""
        return None if self.adapter is None else resolve_adapter(self.adapter)

    def faults(self) -> Iterator[str]:
        """Messages about a model, tokenizer, template, adapter, device or sampler that fails."""
        try:
            if self.device not in ("auto", "cpu"):  # asking takes torch
                choose_device(self.device)
            yield from self._thinking_faults(self.encoding())
            check_files(self.model)
            _ = self.start
            missing = missing_package(self.quantization)
            if missing:
                yield missing
            kernel = missing_kernel(self.attention, self.device)
            if kernel:
                yield kernel
            if self.liger and find_spec("liger_kernel") is None:
                yield "liger: is not installed; pip install liger-kernel, or set false"
            elif self.liger and choose_device(self.device).type not in ("cuda", "xpu"):
                yield f"liger: its kernels are for GPUs, and device is {self.device}; set false"
            if self.learns and self.lora is not None:
                describe(self.model, self.lora)  # builds the adapter, without weights
        except UserError as error:
            yield str(error)
        yield from sampler_faults(self.sampler)

    def _thinking_faults(self, encoding: Encoding) -> Iterator[str]:
        """Settings of thoughts that the chat template does not know."""
        if self.enable_thinking is not None and not encoding.reads(SWITCHES):
            yield (
                f"enable_thinking: the chat template of '{self.model}' has no switch for thoughts "
                f"({' or '.join(SWITCHES)}); leave it out, or name another template"
            )
        if self.thinking_tokens is not None and encoding.marks is None:
            yield (
                f"thinking_tokens: the chat template of '{self.model}' has no marks of thoughts, "
                "so none can be closed; set max_new_tokens for both"
            )

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        """A message where some leave no room for an answer; the longest texts are looked at."""
        encoding = self.encoding()
        long = [p for p in prompts if at_most_tokens(p.messages) > encoding.max_length]
        long.sort(key=lambda prompt: -at_most_tokens(prompt.messages))
        faults = []
        with quiet():
            for prompt in long[:LONGEST_TEXTS]:
                try:
                    encoding.prompt_ids(prompt.messages)
                except DataError as error:
                    faults.append(str(error))
        if faults:
            others = len(faults) - 1
            yield faults[0] + (f" (so do {others} more)" if others else "")

    def too_long(self, prompts: Sequence[Prompt]) -> set[int]:
        encoding = self.encoding()
        most = encoding.max_length - 1 if self.max_prompt is None else self.max_prompt
        places: set[int] = set()
        with quiet():
            for place, prompt in enumerate(prompts):
                if at_most_tokens(prompt.messages) <= most:
                    continue
                if encoding.most_prompt_tokens(prompt.messages) <= most:
                    continue
                with suppress(DataError):  # a chat that the template refuses is no long one
                    if len(encoding.whole_prompt_ids(prompt.messages)) > most:
                        places.add(place)
        return places

    def encoding(self) -> Encoding:
        """The encoding of chats, the same for all its generations. Raises ModelError."""
        return load_encoding(
            self.model,
            self.max_length,
            self.template,
            self.chat_options,
            max_prompt=self.max_prompt,
            date=self.date,
        )

    def lacks_template(self) -> bool:
        """True if chats are written plainly, for want of a chat template. Raises ModelError."""
        return self.template is None and not self.encoding().tokenizer.chat_template

    def prints_date(self) -> bool:
        """True if its chat template prints the date. Raises ModelError for a model not there."""
        return prints_date(self.model, self.template)

    def carrying(self, precision: Precision | None) -> Self:
        """The player in its learner's precision, unless `dtype` is set.

        float32, but bfloat16 where the learner rounds its weights, and for a frozen base under an
        adapter.
        """
        if precision is None or self.dtype != "auto":
            return self
        frozen = precision == "bf16" and self.lora is not None
        short = frozen or precision == "bf16_weights"
        products = self.precision or ("bf16" if precision == "bf16" else None)
        dtype = "bfloat16" if short else "float32"
        return self.model_copy(update={"dtype": dtype, "precision": products})
