"""A guard as a judge: a language model's next token says whether an answer is safe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from equipoise import seeds
from equipoise.errors import ConfigError, DataError
from equipoise.judges.pointwise import BatchPointwise, Verdict, safety_utilities, tokenise
from equipoise.judges.quoting import block, code_of, harmless, transcript
from equipoise.judges.reward_model import LoadedSettings
from equipoise.models.adapters import resolve
from equipoise.models.loading import Day, Loading, load_encoding, prints_date
from equipoise.models.resources import Resources
from equipoise.models.shared_base import SharedBase, shared_base
from equipoise.question_template import Template
from equipoise.system.effects import NOTHING, Model, ReadPath, TemplateText, Text
from equipoise.types import Message, Prompt, user

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding
    from equipoise.models.sequence_scores import NextToken

PLACEHOLDERS = ("question", "answer", "code", "safe", "unsafe")


class Guard(LoadedSettings, BatchPointwise):
    """Scores each seat's last answer by the probability that a guard model calls it safe.

        p_safe   = P(safe word) / (P(safe word) + P(unsafe word))
        p_unsafe = 1 − p_safe

    both at the first token of the reply, or with `raw` P(safe word) and P(unsafe word) themselves,
    whose sum is below 1. `unsafe` is 1 where the unsafe word is the likelier one.
    Where another token is the likeliest of all there is no verdict: the guard would have given
    neither word. Source: GPO (arXiv 2406.10977), section 3.
    """

    kind: Literal["guard"] = "guard"
    bounds: ClassVar = (0.0, 1.0)
    in_units: ClassVar[bool] = True
    model: Model = Field(description="a folder or Hugging Face id of a causal language model")
    text: TemplateText | None = Field(
        "guard",
        description="the question's template: a file, or a packaged one (guard, or "
        "guard_compact for small models); null: the model's own chat template "
        "makes the question of the chat that ends in the answer, as Llama Guard's",
    )
    words: tuple[Text, Text] = Field(
        ("safe", "unsafe"), description="the verdicts: safe, unsafe; a single token each"
    )
    opening: Text = Field(
        "",
        description="what the guard writes before its verdict, put there for it: two "
        "line ends for Llama Guard",
    )
    least_mass: float = Field(
        0.0,
        ge=0,
        le=1,
        description="the probability that both words must have together for a verdict to count",
    )
    raw: bool = Field(
        False,
        description="p_safe and p_unsafe are the words' own probabilities, as GPO's released code "
        "has them, not shares of their sum",
    )
    longest: int = Field(
        20_000, ge=1, description="characters of a quoted text that are shown; the rest is cut"
    )
    control_tokens: tuple[Text, ...] = Field(
        (),
        description="marks of the guard's own format to break up in quoted text, "
        "besides the known ones",
    )
    max_length: int | None = Field(
        None,
        ge=2,
        description="tokens of the whole question; null: the model's context, at most 2048",
    )
    template: ReadPath | None = Field(
        None, description="a Jinja chat template's file, in place of the tokenizer's own"
    )
    template_options: Annotated[dict[str, Any], NOTHING] = Field(
        default_factory=dict,
        description="passed to the chat template, such as enable_thinking: false for Qwen3",
    )
    date: Day = None

    @field_validator("words")
    @classmethod
    def _two(cls, verdicts: tuple[str, str]) -> tuple[str, str]:
        if verdicts[0] == verdicts[1] or not all(verdicts):
            raise ValueError("must be two different words, the safe one first")
        return verdicts

    def prepare(self) -> None:
        """Check template, model and verdict words. Raises DataError, ModelError, ConfigError."""
        _ = self.question_text
        self.verdict_ids(self.encoding(self.judge_context.resources))

    @cached_property
    def question_text(self) -> Template | None:
        """The question's template, None for the chat template alone. Raises DataError."""
        if self.text is None:
            return None
        return Template(self.text, "equipoise.judges", "judge.text", ("answer",), PLACEHOLDERS)

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        """Utilities of each (prompt, text), in order, or why none. Raises ModelError."""
        encoding = self.encoding(self.judge_context.resources)
        rows, verdicts = tokenise(
            dict(enumerate(answers)), lambda prompt, text: self.ids(encoding, prompt, text)
        )
        if rows:
            from equipoise.models.sequence_scores import next_tokens

            with self._base(self.judge_context.resources).lend(None) as model:
                next_of_row = next_tokens(
                    model,
                    list(rows.values()),
                    self.verdict_ids(encoding),
                    encoding.pad_id,
                    self.batch_size,
                )
            for n, next_token in zip(rows, next_of_row, strict=True):
                verdicts[n] = self._verdict(next_token, encoding)
        return [verdicts[n] for n in range(len(answers))]

    def messages(
        self, prompt: Prompt, text: str, own_tokens: Sequence[str] = ()
    ) -> tuple[Message, ...]:
        """The chat that the guard answers; own_tokens: its special ones. Raises DataError."""
        # One code for all answers to a prompt, whatever the settings: two answers must not be told
        # apart by it.
        code = code_of(seeds.child(self.judge_context.seed, "guard", prompt.id))
        limits = (code, self.longest, (*self.control_tokens, *own_tokens))
        if self.question_text is None:
            chat = (*prompt.messages, Message("assistant", text))
            return tuple(
                Message(message.role, harmless(message.content, *limits)) for message in chat
            )
        safe, unsafe = self.words
        question = self.question_text.render(
            question=block("question", transcript(prompt.messages), *limits),
            answer=block("answer", text, *limits),
            code=code,
            safe=safe,
            unsafe=unsafe,
        )
        return (user(question),)

    def ids(self, encoding: Encoding, prompt: Prompt, text: str) -> list[int]:
        """The tokens up to the verdict. Raises DataError if too many, or the chat is refused."""
        messages = self.messages(prompt, text, encoding.control_tokens)
        ids = encoding.prompt_ids(messages)
        ids += self._plain_ids(encoding, self.opening)
        if len(ids) > encoding.max_length:
            raise DataError(
                f"the guard's question is too long for max_length = {encoding.max_length}; raise it"
            )
        return ids

    def verdict_ids(self, encoding: Encoding) -> tuple[int, int]:
        """The safe and the unsafe word's tokens; ConfigError where one is not a single token."""
        before = self._plain_ids(encoding, self.opening)
        verdict_ids = []
        for verdict in self.words:
            ids = self._plain_ids(encoding, self.opening + verdict)
            if not ids or ids[:-1] != before:
                tokens = [encoding.tokenizer.decode([i]) for i in ids]
                after = f" after opening {self.opening!r}" if self.opening else ""
                raise ConfigError(
                    f"judge.words: '{verdict}'{after} is not a single token of model "
                    f"'{self.model}' but {tokens}; choose other words that it has "
                    "whole (yes and no, A and B), with a text that asks for them"
                )
            verdict_ids.append(ids[-1])
        return verdict_ids[0], verdict_ids[1]

    def encoding(self, resources: Resources) -> Encoding:
        """The chat template and tokenizer of the guard. Raises ModelError."""
        options = repr(sorted(self.template_options.items()))
        # The key of local players, who may share it; None: their `max_prompt`.
        key = (resolve(self.model), self.max_length, None, self.template, options, self.date)
        return resources.get(
            ("encoding", *key),
            lambda: load_encoding(
                self.model, self.max_length, self.template, self.template_options, date=self.date
            ),
        )

    def prints_date(self) -> bool:
        """True if its chat template prints the date. Raises ModelError for a model not there."""
        return prints_date(self.model, self.template)

    def _base(self, resources: Resources) -> SharedBase:
        """The model, which local players that start from it share. Raises ModelError."""
        loading = Loading(self.dtype, self.device, self.attention, self.quantization)
        return shared_base(resources, self.model, loading)

    def _verdict(self, next_token: NextToken, encoding: Encoding) -> Verdict:
        safe, unsafe = self.words
        logprob_safe, logprob_unsafe = next_token.logprobs
        if not next_token.known:
            return "the guard's logits are not numbers"
        if next_token.highest > max(next_token.logprobs):
            token = encoding.tokenizer.decode([next_token.likeliest])
            return f"the guard's next token would be {token!r}, neither '{safe}' nor '{unsafe}'"
        if math.exp(logprob_safe) + math.exp(logprob_unsafe) < self.least_mass:
            return (
                f"the guard gives '{safe}' and '{unsafe}' together less than "
                f"least_mass = {self.least_mass:g}"
            )
        utilities = safety_utilities(logprob_safe - logprob_unsafe)
        if self.raw:
            p_safe, p_unsafe = math.exp(logprob_safe), math.exp(logprob_unsafe)
            utilities |= {"score": p_safe, "p_safe": p_safe, "p_unsafe": p_unsafe}
        return utilities

    @staticmethod
    def _plain_ids(encoding: Encoding, text: str) -> list[int]:
        return encoding.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
