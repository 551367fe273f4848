"""Prompts become token ids while the event loop goes on: what cannot fit is refused before it is
tokenised, and what is long is tokenised in a thread of its own.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from equipoise.errors import DataError
from equipoise.models.encoding import Encoding, NoRoom
from equipoise.serve.engine import BRIEF, Refused, brief
from equipoise.types import Message

T = TypeVar("T")
ChatIds = tuple[list[int], list[int]]
REMEMBERED = 256  # brief chats whose token ids are kept, so that counting costs nothing
REMEMBERED_LONG = 8


class PromptEncoder:
    """An encoding for many requests at once.

    Encoding changes a tokenizer's state for a moment, so no two threads may use one at the same
    time: long prompts have a copy of their own, and none waits for them.
    """

    def __init__(self, encoding: Encoding) -> None:
        self._encoding, self._long_encoding = encoding, copy.deepcopy(encoding)
        self._lock = threading.Lock()  # of the first
        self._thread = ThreadPoolExecutor(1, "equipoise-tokenizer")
        self._ids = lru_cache(REMEMBERED)(_encoder(self._encoding))
        self._long_ids = lru_cache(REMEMBERED_LONG)(_encoder(self._long_encoding))
        # No text of more characters fits: a token has so many at most.
        longest_token = max(map(len, encoding.tokenizer.get_vocab()))
        self._most_characters = encoding.max_length * longest_token

    async def chat_ids(
        self, messages: tuple[Message, ...], prefix: str
    ) -> tuple[list[int], list[int]]:
        """Ids of the prompt and of what the answer begins with. Raises Refused."""
        characters = sum(len(message.content) for message in messages) + len(prefix)
        self._check_length(characters, "messages")
        if len(messages) > self._encoding.max_length:
            raise self.too_long(f"{len(messages)} messages", "messages")
        if brief(messages, prefix):
            return await self._at_once(lambda: self._ids(messages, prefix))
        return await self._in_thread(lambda: self._long_ids(messages, prefix))

    async def text_ids(self, text: str, add_special_tokens: bool) -> list[int]:
        """The tokens of a text, its control tokens as such. Raises Refused."""
        self._check_length(len(text), "prompt")

        def encoded(encoding: Encoding) -> list[int]:
            return encoding.tokenizer.encode(
                text, add_special_tokens=add_special_tokens, verbose=False
            )

        if len(text) < BRIEF:
            return await self._at_once(lambda: encoded(self._encoding))
        return await self._in_thread(lambda: encoded(self._long_encoding))

    def too_long(self, size: str, field: str) -> Refused:
        """The refusal of a prompt of this size."""
        return Refused(
            f"a prompt of {size} leaves no room for an answer within max_length = "
            f"{self._encoding.max_length}",
            "context_length_exceeded",
            field,
        )

    async def _at_once(self, work: Callable[[], T]) -> T:
        """`work` here and now, which is faster than in a thread; in a thread where another event
        loop is at it, so that this one does not wait.
        """

        def when_free() -> T:
            with self._lock:
                return work()

        if not self._lock.acquire(blocking=False):
            return await asyncio.to_thread(when_free)
        try:
            return work()
        finally:
            self._lock.release()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _check_length(self, characters: int, field: str) -> None:
        if characters > self._most_characters:
            raise self.too_long(f"{characters} characters", field)


def _encoder(encoding: Encoding) -> Callable[[tuple[Message, ...], str], ChatIds]:
    """(messages, prefix) -> ids of the prompt and of what the answer begins with."""

    def encoded(messages: tuple[Message, ...], prefix: str) -> ChatIds:
        try:
            prompt_ids = encoding.prompt_ids(messages)
            begun_ids = encoding.text_ids(prefix) if prefix else []
        except NoRoom as error:
            raise Refused(str(error), "context_length_exceeded") from error
        except DataError as error:
            raise Refused(str(error)) from error
        longest = encoding.max_length
        if len(prompt_ids) + len(begun_ids) >= longest:
            raise Refused(
                f"a prompt of {len(prompt_ids)} tokens and {len(begun_ids)} of the "
                f"answer's beginning leave no room within max_length = {longest}",
                "context_length_exceeded",
            )
        return prompt_ids, begun_ids

    return encoded
