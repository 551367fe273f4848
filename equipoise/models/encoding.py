"""How chats become token ids, written once for sampling, scoring and training.

    ids = template(messages) with the opening of the answer's turn  ++  tokens of the answer  ++  the turn's end

Prompt and answer are tokenised apart, so the ids of an answer that is scored or trained
on stand exactly where they stood when it was sampled. Control tokens that occur in
messages or answers are encoded as ordinary text: a text can neither end its own turn
nor open another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2

from equipoise.errors import DataError, ModelError
from equipoise.types import Message

PLAIN = (
    "{% for message in messages %}"
    "{{ message['role'] | capitalize + ':\\n' + message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' else '' }}{{ '\\n\\n' }}"
    "{% endfor %}"
    "{{ 'Assistant:\\n' if add_generation_prompt else '' }}"
)
_WORD = "Xyzzy"  # stands for a message's text while the template is being asked about its habits


class NoRoom(DataError):  # noqa: N818
    """A prompt that leaves no room for an answer."""


class Encoding:
    """A tokenizer with a chat template and a limit on length; equal fingerprints mean
    equal token ids.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        template: str | Path | None = None,
        template_options: Mapping[str, Any] | None = None,
        stop_ids: Iterable[int] = (),
    ) -> None:
        """`tokenizer` is a transformers tokenizer; `max_length` bounds prompt and
        answer together, in tokens.

        `template` is the path of a Jinja chat template that replaces the tokenizer's
        own; where there is neither, a plain one is used. `template_options` go to the
        template (`enable_thinking: false` for Qwen3). `stop_ids` are further tokens
        that end an answer, such as the generation configuration's. Raises ModelError.
        """
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.options = dict(template_options or {})
        self.template = _template(tokenizer, template)
        self._system, self._repeats = self._habits()
        self._end_ids = self._turn_end()
        stops = {self._end_ids[-1], *stop_ids}
        self.stop_ids: tuple[int, ...] = tuple(
            sorted(stops | {tokenizer.eos_token_id} - {None})
        )
        pad = tokenizer.pad_token_id
        self.pad_id: int = self.stop_ids[0] if pad is None else pad

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """The chat, ready for the answer. Raises DataError when the template refuses
        it, NoRoom when it is too long.
        """
        ids = self._chat_ids(messages, True)
        if len(ids) >= self.max_length:
            raise NoRoom(
                f"a prompt of {len(ids)} tokens leaves no room for an answer within max_length = {self.max_length} "
                f"(it begins {messages[0].content[:60]!r}); shorten it or raise max_length"
            )
        return ids

    def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """A chat that is over, as the template writes it, whatever its length. Raises
        DataError when it refuses it.
        """
        return self._chat_ids(messages, False)

    def answer_ids(self, text: str) -> list[int]:
        """The answer's tokens and the end of its turn."""
        return [*self.text_ids(text), *self._end_ids]

    def text_ids(self, text: str) -> list[int]:
        """The tokens of an answer that is not over."""
        return self.tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )

    def join(self, messages: Sequence[Message], text: str) -> tuple[list[int], int]:
        """(prompt and answer, where the answer starts). An answer too long is cut at
        its end; a prompt never is.
        """
        prompt = self.prompt_ids(messages)
        return (prompt + self.answer_ids(text))[: self.max_length], len(prompt)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of an answer's tokens, without the end of its turn and without
        control tokens.
        """
        end = len(ids)
        while end and ids[end - 1] in self.stop_ids:
            end -= 1
        return self.tokenizer.decode(
            list(ids[:end]),
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that decides token ids: vocabulary and rules, template,
        options, end of turn, truncation.
        """
        if self.tokenizer.is_fast:
            rules = json.loads(self.tokenizer.backend_tokenizer.to_str())
            words = {
                key: value
                for key, value in rules.items()
                if key not in ("padding", "truncation")
            }
        else:
            words = {
                "class": type(self.tokenizer).__name__,
                "vocab": self.tokenizer.get_vocab(),
            }
        made_of = [
            words,
            self.tokenizer.special_tokens_map,
            self.template,
            self.options,
            self._end_ids,
            self.max_length,
        ]
        return hashlib.blake2b(
            json.dumps(made_of, sort_keys=True, default=str).encode(), digest_size=16
        ).hexdigest()

    def _chat_ids(self, messages: Sequence[Message], opening: bool) -> list[int]:
        """The template's ids, ending in the opening of an answer's turn or in the
        chat's own end.
        """
        if not messages:
            raise DataError("a prompt without messages cannot be answered")
        chat = self._fitting(
            [{"role": message.role, "content": message.content} for message in messages]
        )
        try:
            ids = self.tokenizer.apply_chat_template(
                chat,
                chat_template=self.template,
                add_generation_prompt=opening,
                sanitize_control_tokens=True,
                return_dict=False,
                tokenizer_kwargs={
                    "verbose": False
                },  # whoever asks judges the length, with a message that says more
                **self.options,
            )
        except jinja2.TemplateError as error:
            roles = ", ".join(message.role for message in messages)
            raise DataError(
                f"the model's chat template refuses a chat of the roles {roles}: {error}"
            ) from error
        return list(ids)

    def _render(self, *messages: tuple[str, str]) -> str:
        """The template's text for (role, content) messages, without the opening of a
        next turn.
        """
        chat = [{"role": role, "content": content} for role, content in messages]
        return self.tokenizer.apply_chat_template(
            chat, chat_template=self.template, tokenize=False, **self.options
        )

    def _habits(self) -> tuple[bool, bool]:
        """(is a system message shown?, may one role speak twice in a row?). Raises
        ModelError if it is unusable.
        """
        try:
            self._render(("user", "a"))
        except (jinja2.TemplateError, TypeError) as error:
            raise ModelError(
                f"the chat template cannot render a user's message: {error}"
            ) from error
        return self._accepts(("system", _WORD), ("user", "a")), self._accepts(
            ("user", "a"), ("user", _WORD)
        )

    def _accepts(self, *messages: tuple[str, str]) -> bool:
        try:
            return _WORD in self._render(*messages)
        except jinja2.TemplateError:
            return False

    def _fitting(self, chat: list[dict[str, str]]) -> list[dict[str, str]]:
        """The chat in the form that the template takes.

        Where it knows no system role, that text opens the user's first message; where
        roles must alternate, neighbours of one role become one message.
        """
        if not self._system and chat[0]["role"] == "system":
            if len(chat) > 1 and chat[1]["role"] == "user":
                first = {
                    "role": "user",
                    "content": f"{chat[0]['content']}\n\n{chat[1]['content']}",
                }
                chat = [first, *chat[2:]]
            else:
                chat = [{"role": "user", "content": chat[0]["content"]}, *chat[1:]]
        if self._repeats:
            return chat
        merged: list[dict[str, str]] = []
        for message in chat:
            if merged and merged[-1]["role"] == message["role"]:
                merged[-1] = {
                    **message,
                    "content": f"{merged[-1]['content']}\n\n{message['content']}",
                }
            else:
                merged.append(message)
        return merged

    def _turn_end(self) -> list[int]:
        """The ids that close an assistant's turn: what the template writes after it, up
        to the first control token.
        """
        try:
            text = self._render(("user", "a"), ("assistant", _WORD))
        except jinja2.TemplateError as error:
            raise ModelError(
                f"the chat template cannot render an assistant's message: {error}"
            ) from error
        ids = self.tokenizer.encode(text.rpartition(_WORD)[2], add_special_tokens=False)
        control = {
            i
            for i, token in self.tokenizer.added_tokens_decoder.items()
            if not token.content.isspace()
        }
        for n, token in enumerate(ids, 1):
            if token in control:
                return ids[:n]
        if self.tokenizer.eos_token_id is None:
            raise ModelError(
                "neither the chat template nor the tokenizer (eos_token) says how an answer ends"
            )
        return [self.tokenizer.eos_token_id]


def _template(tokenizer: Any, path: str | Path | None) -> str:
    """The template's text: the file's, else the tokenizer's own, else the plain one."""
    if path is not None:
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(
                f"cannot read the chat template {path}: {error}"
            ) from error
    if tokenizer.chat_template:
        return tokenizer.get_chat_template()
    begins = tokenizer.encode("a")[:1] == [tokenizer.bos_token_id]
    return ("{{ bos_token }}" if begins else "") + PLAIN
