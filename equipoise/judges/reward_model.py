"""A reward model as a judge: a language model with a head that scores an answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from equipoise.component import Settings
from equipoise.errors import ConfigError, DataError, ModelError
from equipoise.judges.base import JudgeContext
from equipoise.judges.pointwise import BatchPointwise, Verdict, tokenise
from equipoise.models.adapters import resolve
from equipoise.models.loading import (
    Day,
    Dtype,
    load_classifier,
    load_config,
    load_encoding,
    prints_date,
)
from equipoise.models.quantization import Quantization
from equipoise.models.resources import Resources
from equipoise.system.effects import MODEL_CODE, NOTHING, Attention, Model, ReadPath, Text
from equipoise.types import Message, Prompt

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding
    from equipoise.models.sequence_scores import SequenceScores


class LoadedSettings(Settings):
    """The settings by which a judging model is loaded."""

    dtype: Dtype = Field(
        "auto",
        description="of the weights; auto: the model's own on an accelerator, "
        "float32 on a CPU. In bfloat16 rewards that are close become equal",
    )
    device: Text = Field(
        "auto", description="auto (an accelerator if there is one), cpu, cuda, cuda:1 …"
    )
    attention: Attention = Field(
        "auto",
        description="kernel: auto, sdpa, eager, flash_attention_2 …, as transformers names it",
    )
    quantization: Quantization = None
    batch_size: int = Field(16, ge=1, description="texts that are read at once")


class ClassifierSettings(LoadedSettings):
    """A sequence classification model: where it is, and how it is read."""

    model: Model = Field(
        description="a folder or Hugging Face id of a sequence classification model"
    )
    head: Text | None = Field(
        None,
        description="what its weights call the last layer, where that is not the "
        "architecture's name (v_head)",
    )
    max_length: int | None = Field(
        None, ge=2, description="tokens of the whole text; null: the model's context, at most 2048"
    )
    trust_remote_code: Annotated[bool, MODEL_CODE] = Field(
        False, description="let Python code of the model's own folder run here"
    )

    def scorer(self, resources: Resources) -> SequenceScores:
        """The model, shared through `resources` and gone with them. Raises ModelError."""
        from equipoise.models.sequence_scores import SequenceScores

        loading = {
            "dtype": self.dtype,
            "device": self.device,
            "attention": self.attention,
            "quantization": self.quantization,
            "head": self.head,
            "trust_remote_code": self.trust_remote_code,
        }
        key = ("classifier", resolve(self.model), *loading.values())
        return resources.get(
            key, lambda: SequenceScores(self.model, load_classifier(self.model, **loading))
        )


class RewardModel(ClassifierSettings, BatchPointwise):
    """Scores each seat's last answer by a sequence classification model.

    The text is the model's own chat template over prompt and answer. Of several rewards by name
    `score_of` makes the score, and the others are utilities. An answer that is too long, or whose
    reward is not finite, is not judged.
    """

    kind: Literal["reward_model"] = "reward_model"
    bounds: ClassVar = (-math.inf, math.inf)  # rewards have no scale
    in_units: ClassVar[bool] = True
    template: ReadPath | None = Field(
        None, description="a Jinja chat template's file, in place of the tokenizer's own"
    )
    template_options: Annotated[dict[str, Any], NOTHING] = Field(
        default_factory=dict, description="passed to the chat template"
    )
    date: Day = None
    ending: Text = Field(
        "",
        description="special tokens that are put behind the text, where the model "
        "reads its number at one",
    )
    truncate: bool = Field(
        False,
        description="cut a text that is too long at its end; false: such an answer is not judged",
    )
    score_field: Text = Field(
        "logits", description="the model's output that holds the rewards; ArmoRM's is called score"
    )
    rewards: tuple[Text, ...] | None = Field(
        None,
        min_length=1,
        description="names of the rewards in order; null: the model's own, else reward_0 …",
    )
    score_of: Text | dict[Text, float] | None = Field(
        None,
        description="which reward is the score, or weights by name; null: the only "
        "one, or that named score",
    )

    def faults(self, judge_context: JudgeContext) -> Iterator[str]:
        yield from super().faults(judge_context)
        try:
            kinds = " ".join(load_config(self.model, self.trust_remote_code).architectures or ())
        except ModelError as error:
            kinds = ""
            yield str(error)
        if self.head is None and "ForCausalLM" in kinds:
            grades = f"{{kind: rubric, model: {{kind: local, model: {self.model}}}}}"
            yield f"model '{self.model}' ({kinds}) is without a head that scores; {grades} grades"

    def prepare(self) -> None:
        self.ending_ids(self.encoding(self.judge_context.resources))

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        """Rewards of each (prompt, text), in order, or why none. Raises ModelError, ConfigError."""
        encoding = self.encoding(self.judge_context.resources)

        def ids(prompt: Prompt, text: str) -> list[int]:
            return self.ids(encoding, (*prompt.messages, Message("assistant", text)))

        rows, verdicts = tokenise(dict(enumerate(answers)), ids)
        if rows:
            scorer = self.scorer(self.judge_context.resources)
            values_of_row = scorer.values(list(rows.values()), self.batch_size, self.score_field)
            names = self._names(len(values_of_row[0]), scorer.labels)
            weights = self._weights(names)
            for n, values in zip(rows, values_of_row, strict=True):
                rewards = dict(zip(names, values, strict=True))
                verdicts[n] = self._verdict(rewards, weights)
        return [verdicts[n] for n in range(len(answers))]

    def _names(self, count: int, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        if self.rewards is not None:
            if len(self.rewards) != count:
                raise ConfigError(
                    f"judge: model '{self.model}' gives {count} rewards, but "
                    f"judge.rewards names {len(self.rewards)}"
                )
            return self.rewards
        if labels is not None and len(labels) == count and len(set(labels)) == count:
            return labels
        return ("score",) if count == 1 else tuple(f"reward_{k}" for k in range(count))

    def _weights(self, names: tuple[str, ...]) -> dict[str, float]:
        """Each reward's weight in the score; ConfigError if not set, or for an unknown name."""
        chosen = self.score_of
        if "score" in names and chosen not in (None, "score"):
            raise ConfigError(
                "judge: a reward is called score, so that is what score_of must be; "
                "name judge.rewards anew"
            )
        if chosen is None:
            if len(names) > 1 and "score" not in names:
                raise ConfigError(
                    f"judge: model '{self.model}' gives the rewards {', '.join(names)}; set "
                    "judge.score_of to one of them or to weights"
                )
            (chosen,) = names if len(names) == 1 else ("score",)
        weights = {chosen: 1.0} if isinstance(chosen, str) else chosen
        unknown = sorted(set(weights) - set(names))
        if unknown or not weights:
            raise ConfigError(
                f"judge: score_of names {', '.join(unknown) or 'nothing'}; known: "
                f"{', '.join(names)}"
            )
        return weights

    def _verdict(self, rewards: dict[str, float], weights: dict[str, float]) -> Verdict:
        not_finite = [
            f"{name} is {value}" for name, value in rewards.items() if not math.isfinite(value)
        ]
        if not_finite:
            return f"the reward model's {', '.join(not_finite)}"
        score = sum(weight * rewards[name] for name, weight in weights.items())
        return rewards | {"score": score}

    def encoding(self, resources: Resources) -> Encoding:
        """The model's tokenizer and chat template. Raises ModelError where it has none."""
        options = repr(sorted(self.template_options.items()))
        key = (resolve(self.model), self.max_length, self.template, options, self.trust_remote_code)
        return resources.get(("classifier's encoding", *key, self.date), self._encoding)

    def prints_date(self) -> bool:
        """True if its chat template prints the date. Raises ModelError for a model not there."""
        return prints_date(self.model, self.template, self.trust_remote_code)

    def ids(self, encoding: Encoding, messages: Sequence[Message]) -> list[int]:
        """The tokens of a finished chat. Raises DataError if too long, or refused."""
        ending = self.ending_ids(encoding)
        ids, room = encoding.chat_ids(messages), encoding.max_length - len(ending)
        if len(ids) > room and not self.truncate:
            raise DataError(
                f"prompt and answer are too long: {len(ids)} tokens, more than the "
                f"{room} that max_length = {encoding.max_length} leaves them; raise "
                "max_length or set truncate: true"
            )
        return ids[:room] + ending

    def ending_ids(self, encoding: Encoding) -> list[int]:
        """The tokens of `ending`. Raises ConfigError unless all are special tokens."""
        ids = encoding.tokenizer.encode(self.ending, add_special_tokens=False)
        special = encoding.tokenizer.added_tokens_decoder
        if not special.keys() >= set(ids):
            raise ConfigError(
                f"judge: ending = '{self.ending}' is not made of special tokens of '{self.model}'"
            )
        return ids

    def _encoding(self) -> Encoding:
        encoding = load_encoding(
            self.model,
            self.max_length,
            self.template,
            self.template_options,
            self.trust_remote_code,
            date=self.date,
        )
        if self.template is None and not encoding.tokenizer.chat_template:
            raise ModelError(
                f"model '{self.model}' has no chat template, and its numbers mean little for texts "
                "in another form than it was trained on; name a file in judge.template"
            )
        return encoding
