"""A preference model as a judge: a classifier that reads two answers at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from equipoise.errors import ConfigError, DataError, ModelError
from equipoise.judges.pairwise import Comparing, Comparison
from equipoise.judges.question import Reading
from equipoise.judges.reward_model import ClassifierSettings
from equipoise.models.adapters import resolve
from equipoise.models.loading import load_tokenizer, row_length
from equipoise.system.effects import ReadPath, Text
from equipoise.types import Message

# They stand for the two answers while the template is tried out.
_FIRST, _SECOND = "Xyzzy", "Plugh"


class PreferenceModel(ClassifierSettings, Comparing):
    """Scores each seat by its mean probability of beating the other seats.

        P(first beats second) = sigmoid(z) with one number
                                softmax(z)[label of the first] with two

    where z is what a sequence classification model gives for the text that the template makes of
    the chat and both answers. A pair that is too long is not compared.
    """

    kind: Literal["preference_model"] = "preference_model"
    in_units: ClassVar[bool] = True
    flip: Literal["missing", "tie", "mean"] = Field(
        default="mean",
        description="when the two orders contradict each other: no comparison, a tie "
        "(½), or the mean of both",
    )
    template: ReadPath | None = Field(
        None,
        description="a Jinja file over `messages`, `first` and `second` that makes "
        "the text to be read; null: the packaged texts/preference_pair.txt",
    )
    first_label: int | Text = Field(
        0,
        description="the label, by number or the model's own name, that says the "
        "first answer is better; with one number 0 (it is large where the first "
        "is better) or 1 (where the second is)",
    )

    def prepare(self) -> None:
        self._text()

    def answer(self, questions: Sequence[Comparison]) -> list[Reading]:
        """P(first beats second), or None and why, of each. Raises ModelError, ConfigError."""
        text = self._text()
        rows: dict[int, list[int]] = {}
        readings: dict[int, Reading] = {}
        for n, question in enumerate(questions):
            try:
                ids = text.ids(question.messages, question.first, question.second)
            except DataError as error:
                readings[n] = Reading(None, str(error))
                continue
            if len(ids) <= text.max_length:
                rows[n] = ids
                continue
            reason = (
                f"the pair is too long: {len(ids)} tokens, more than max_length = "
                f"{text.max_length}; raise max_length"
            )
            readings[n] = Reading(None, reason)
        if rows:
            scorer = self.scorer(self.judge_context.resources)
            values_of_row = scorer.values(list(rows.values()), self.batch_size)
            sign = self._sign(len(values_of_row[0]), scorer.labels)
            for (n, row), values in zip(rows.items(), values_of_row, strict=True):
                readings[n] = _reading(values, sign, len(row))
        return [readings[n] for n in range(len(questions))]

    def _text(self) -> PairText:
        def load() -> PairText:
            packaged = files("equipoise.judges") / "texts" / "preference_pair.txt"
            place = packaged if self.template is None else Path(self.template)
            try:
                template = place.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"judge: template {self.template} cannot be read: {error}"
                ) from error
            length = row_length(self.model, self.max_length, self.trust_remote_code)
            return PairText(load_tokenizer(self.model, self.trust_remote_code), template, length)

        key = (resolve(self.model), self.template, self.max_length, self.trust_remote_code)
        return self.judge_context.resources.get(("pair text", *key), load)

    def _sign(self, count: int, labels: tuple[str, ...] | None) -> int:
        """1 where P(first) grows with the last number less the one before, else −1."""
        if count > 2:
            raise ModelError(
                f"model '{self.model}' gives {count} numbers a pair; a preference "
                "model gives one or two"
            )
        label = self.first_label
        if isinstance(label, str):
            known = labels or ()
            if label not in known:
                names = ", ".join(known) or "it names none"
                raise ConfigError(
                    f"judge: first_label '{label}' is no label of model '{self.model}' ({names})"
                )
            label = known.index(label)
        if label not in (0, 1):
            raise ConfigError(f"judge: first_label = {label}; it is 0 or 1")
        return 1 if label == (count - 1) else -1


def _reading(values: Sequence[float], sign: int, tokens: int) -> Reading:
    """P(first beats second) by the model's number, or its two numbers."""
    other = values[0] if len(values) == 2 else 0.0
    lead = sign * (values[-1] - other)
    if not math.isfinite(lead):
        numbers = "numbers are" if len(values) > 1 else "number is"
        shown = ", ".join(map(str, values))
        return Reading(None, f"the preference model's {numbers} {shown}", tokens)
    if lead > 0:
        return Reading(1 / (1 + math.exp(-lead)), "", tokens)
    return Reading(math.exp(lead) / (1 + math.exp(lead)), "", tokens)


class PairText:
    """A tokenizer and a template over `messages`, `first` and `second`.

    Control tokens of the template are control tokens; those in texts are ordinary text. The
    tokenizer's first and last tokens stand around it all.
    """

    def __init__(self, tokenizer: Any, template: str, max_length: int) -> None:
        """`max_length` is in tokens. Raises ConfigError for a template without both answers."""
        self.tokenizer = tokenizer
        self.template = template.strip()
        self.max_length = max_length
        plain = tokenizer.encode("a", add_special_tokens=False)
        whole = tokenizer.encode("a")
        start = whole.index(plain[0])
        self._before, self._after = whole[:start], whole[start + len(plain) :]
        try:
            shown = tokenizer.decode(self.ids([Message("user", "a")], _FIRST, _SECOND))
        except DataError as error:
            raise ConfigError(f"judge: {error}") from error
        if _FIRST not in shown or _SECOND not in shown:
            raise ConfigError(
                "judge: the template must show both answers: {{ first }} and {{ second }}"
            )

    def ids(self, messages: Sequence[Message], first: str, second: str) -> list[int]:
        """The row's tokens, of any number. Raises DataError when the template refuses."""
        import jinja2

        chat = [{"role": message.role, "content": message.content} for message in messages]
        try:
            ids = self.tokenizer.apply_chat_template(
                chat,
                chat_template=self.template,
                sanitize_control_tokens=True,
                return_dict=False,
                tokenizer_kwargs={"verbose": False},  # the caller checks the length
                first=first,
                second=second,
            )
        except jinja2.TemplateError as error:
            raise DataError(f"the template of the pair cannot be filled: {error}") from error
        return [*self._before, *ids, *self._after]
