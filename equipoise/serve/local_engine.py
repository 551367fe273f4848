"""A local player as an engine.

What is served is what the player would have answered at this seed, and an answer that
is already begun goes on as it would have.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import DataError
from equipoise.models.encoding import NoRoom
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.serve.engine import BRIEF, EngineRequest, Piece, Refused, brief
from equipoise.serve.model_thread import ModelThread
from equipoise.serve.pending_answer import PendingAnswer
from equipoise.serve.token_texts import TokenTexts
from equipoise.types import Message

T = TypeVar("T")
REMEMBERED = 256  # brief chats whose token ids are kept, so that counting costs nothing
REMEMBERED_LONG = 8


class LocalEngine:
    """A local player that answers chats and goes on with texts, many at once."""

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
        self._texts = resources.get(
            ("texts", id(self._encoding)),
            lambda: TokenTexts(copy.deepcopy(self._encoding.tokenizer)),
        )
        self._thread = resources.get(
            ("thread", id(base)), lambda: ModelThread(base, player.batch_size)
        )
        self._thread.enter()
        self._vocabulary: int = base.model.get_input_embeddings().weight.shape[0]
        # No text of more characters fits: a token has so many at most.
        longest = max(map(len, self._encoding.tokenizer.get_vocab()))
        self._most_characters = self._encoding.max_length * longest
        self._ids = lru_cache(REMEMBERED)(self._encoded)
        self._long_ids = lru_cache(REMEMBERED_LONG)(self._encoded)

    async def count(self, messages: Sequence[Message], prefix: str = "") -> int:
        """How many tokens the prompt has, `prefix` included. Raises Refused."""
        prompt_ids, begun_ids = await self._chat_ids(tuple(messages), prefix)
        return len(prompt_ids) + len(begun_ids)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer in pieces.

        Raises Refused for a chat that the template refuses, for a prompt that leaves no
        room, and for token ids that the model does not have.
        """
        if request.prompt_ids is None:
            prompt_ids, begun_ids = await self._chat_ids(
                request.messages, request.prefix
            )
        else:
            prompt_ids, begun_ids = self._text_ids(request), []
        if request.echo and request.logprobs is None:
            yield Piece(self._texts.whole(prompt_ids))
        if not request.max_tokens and not (
            request.echo and request.logprobs is not None
        ):
            yield Piece(finish="length")
            return
        answer = PendingAnswer(
            request, prompt_ids, begun_ids, self._adapter, self._encoding, self._texts
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

    @property
    def tokenizer_facts(self) -> dict[str, Any]:
        """What a client needs in order to prepare prompts itself: the tokenizer's
        control tokens, the chat template, the longest context.
        """
        tokenizer = self._encoding.tokenizer
        return {
            "tokenizer_class": type(tokenizer).__name__,
            "bos_token": tokenizer.bos_token,
            "eos_token": tokenizer.eos_token,
            "pad_token": tokenizer.pad_token,
            "unk_token": tokenizer.unk_token,
            "chat_template": self._encoding.template,
            "model_max_length": self._encoding.max_length,
        }

    async def tokenize(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The tokens of a text, its control tokens as such. Raises Refused for one too long."""
        self._check_length(len(text), "prompt")

        def encode() -> list[int]:
            return self._encoding.tokenizer.encode(
                text, add_special_tokens=add_special_tokens, verbose=False
            )

        return await self._with_tokenizer(encode, len(text) < BRIEF)

    async def detokenize(self, ids: Sequence[int]) -> str:
        """The text of tokens, control tokens shown. Raises Refused for an unknown one."""
        self._check_ids(ids, "tokens")
        return await asyncio.to_thread(self._texts.whole, ids)

    async def close(self) -> None:
        """End all work. The thread ends with the last engine that shares it."""
        if self._thread.leave():
            await asyncio.to_thread(self._thread.close)

    async def _chat_ids(
        self, messages: tuple[Message, ...], prefix: str
    ) -> tuple[list[int], list[int]]:
        """Ids of the prompt and of what the answer begins with.

        What cannot fit is refused before it is tokenised.
        """
        characters = sum(len(message.content) for message in messages) + len(prefix)
        self._check_length(characters, "messages")
        if len(messages) > self._encoding.max_length:
            raise self._too_long(f"{len(messages)} messages", "messages")
        short = brief(messages, prefix)
        ids = self._ids if short else self._long_ids
        return await self._with_tokenizer(lambda: ids(messages, prefix), short)

    async def _with_tokenizer(self, work: Callable[[], T], short: bool) -> T:
        """`work` while no other encodes. The event loop never waits for that: what is
        not short, or would have to wait, is done in another thread.
        """

        def locked() -> T:
            with self._lock:
                return work()

        if not short or not self._lock.acquire(blocking=False):
            return await asyncio.to_thread(locked)
        try:
            return work()
        finally:
            self._lock.release()

    def _encoded(
        self, messages: tuple[Message, ...], prefix: str
    ) -> tuple[list[int], list[int]]:
        try:
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

    def _text_ids(self, request: EngineRequest) -> list[int]:
        """The tokens of a text, checked."""
        ids = list(request.prompt_ids or ())
        if not ids:
            raise Refused("the prompt has no tokens", param="prompt")
        self._check_ids(ids, "prompt")
        if len(ids) + min(request.max_tokens, 1) > self._encoding.max_length:
            raise self._too_long(f"{len(ids)} tokens", "prompt")
        return ids

    def _check_length(self, characters: int, field: str) -> None:
        if characters > self._most_characters:
            raise self._too_long(f"{characters} characters", field)

    def _check_ids(self, ids: Sequence[int], field: str) -> None:
        unknown = next((i for i in ids if not 0 <= i < self._vocabulary), None)
        if unknown is not None:
            raise Refused(
                f"{unknown} is no token of this model: they are 0 to "
                f"{self._vocabulary - 1}",
                param=field,
            )

    def _too_long(self, size: str, field: str) -> Refused:
        return Refused(
            f"a prompt of {size} leaves no room for an answer within max_length = "
            f"{self._encoding.max_length}",
            "context_length_exceeded",
            field,
        )
