"""A local player as an engine.

What is served is what the player would have answered at this seed, and an answer that
is already begun goes on as it would have.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache
from pathlib import Path

from equipoise.errors import DataError
from equipoise.models.encoding import NoRoom
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.serve.engine import EngineRequest, Piece, Refused, brief
from equipoise.serve.model_thread import ModelThread
from equipoise.serve.pending_answer import PendingAnswer
from equipoise.types import Message

REMEMBERED = 256  # chats whose token ids are kept, so that counting costs nothing


class LocalEngine:
    """A local player that answers chats, many at once."""

    def __init__(
        self,
        player: Local,
        weights: Path | None = None,
        resources: Resources | None = None,
    ) -> None:
        """Loads the model, unless it is among the resources. Raises ModelError."""
        resources = resources or Resources()
        self._encoding = player.shared_encoding(resources)
        base, self._adapter = player.base(weights, resources)
        # Encoding changes a tokenizer's state for a moment: one at a time, and never on
        # the tokenizer that decodes.
        self._lock = resources.get(("lock", id(self._encoding)), threading.Lock)
        self._decoding = resources.get(
            ("decoding", id(self._encoding)),
            lambda: copy.deepcopy(self._encoding.tokenizer),
        )
        self._thread = resources.get(
            ("thread", id(base)), lambda: ModelThread(base, player.batch_size)
        )
        self._thread.enter()
        self._ids = lru_cache(REMEMBERED)(self._encoded)

    def count(self, messages: Sequence[Message], prefix: str = "") -> int:
        """How many tokens the prompt has, `prefix` included. Raises Refused."""
        prompt_ids, begun_ids = self._ids(tuple(messages), prefix)
        return len(prompt_ids) + len(begun_ids)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer in pieces.

        Raises Refused for a chat that the template refuses or that leaves no room.
        """
        chat = (request.messages, request.prefix)
        if brief(*chat):  # another thread would take longer than that
            prompt_ids, begun_ids = self._ids(*chat)
        else:
            prompt_ids, begun_ids = await asyncio.to_thread(self._ids, *chat)
        answer = PendingAnswer(
            request,
            prompt_ids,
            begun_ids,
            self._adapter,
            self._encoding,
            self._decoding,
        )
        self._thread.add(answer)
        try:
            while True:
                piece = await answer.pieces.get()
                yield piece
                if piece.finish:
                    return
        finally:
            answer.cancelled = True

    async def close(self) -> None:
        """End all work. The thread ends with the last engine that shares it."""
        if self._thread.leave():
            await asyncio.to_thread(self._thread.close)

    def _encoded(
        self, messages: tuple[Message, ...], prefix: str
    ) -> tuple[list[int], list[int]]:
        """Ids of the prompt and of what the answer begins with."""
        try:
            with self._lock:
                prompt_ids = self._encoding.prompt_ids(messages)
                begun_ids = self._encoding.text_ids(prefix) if prefix else []
        except NoRoom as error:
            raise Refused(str(error), "context_length_exceeded") from error
        except DataError as error:
            raise Refused(str(error)) from error
        longest = self._encoding.max_length
        if len(prompt_ids) + len(begun_ids) >= longest:
            raise Refused(
                f"a prompt of {len(prompt_ids)} tokens and {len(begun_ids)} of the "
                f"answer's beginning leave no room within max_length = {longest}",
                "context_length_exceeded",
            )
        return prompt_ids, begun_ids
