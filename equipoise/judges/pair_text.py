"""A chat and two answers to it as one row of tokens, for a model that compares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jinja2

from equipoise.errors import ConfigError, DataError
from equipoise.types import Message

# They stand for the two answers while the template is tried out.
_FIRST, _SECOND = "Xyzzy", "Plugh"


class PairText:
    """A tokenizer and a template over `messages`, `first` and `second`.

    Control tokens that the template writes are control tokens; those in messages or answers are
    ordinary text. What the tokenizer puts around any text (a first and a last token) is put around
    this one.
    """

    def __init__(self, tokenizer: Any, template: str, max_length: int) -> None:
        """`max_length` is in tokens.

        Raises ConfigError for a template that does not show both answers.
        """
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
        """The row's tokens, whatever their number.

        Raises DataError when the template refuses the chat.
        """
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
