"""A local player as an engine.

What is served is what the player would have answered at this seed, and an answer that is already
begun goes on as it would have.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.serve.engine import EngineRequest, Piece, Refused
from equipoise.serve.model_thread import ModelThread
from equipoise.serve.pending_answer import PendingAnswer
from equipoise.serve.prompt_encoder import PromptEncoder
from equipoise.serve.token_texts import TokenTexts
from equipoise.types import Message


class LocalEngine:
    """A local player that answers chats and goes on with texts, many at once."""

    def __init__(
        self, player: Local, weights: Path | None = None, resources: Resources | None = None
    ) -> None:
        """Loads the model, unless it is among the resources. Raises ModelError."""
        resources = resources or Resources()
        self._encoding = player.shared_encoding(resources)
        base, self._adapter = player.base(weights, resources)
        self._prompts = resources.get(
            ("prompts", id(self._encoding)), lambda: PromptEncoder(self._encoding)
        )
        self._texts = resources.get(
            ("texts", id(self._encoding)),
            lambda: TokenTexts(copy.deepcopy(self._encoding.tokenizer)),
        )
        self._thread = resources.get(
            ("thread", id(base)), lambda: ModelThread(base, player.batch_size)
        )
        self._thread.enter()
        self._vocabulary: int = base.model.get_input_embeddings().weight.shape[0]

    async def count(self, messages: Sequence[Message], prefix: str = "") -> int:
        """How many tokens the prompt has, `prefix` included. Raises Refused."""
        prompt_ids, begun_ids = await self._prompts.chat_ids(tuple(messages), prefix)
        return len(prompt_ids) + len(begun_ids)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer in pieces.

        Raises Refused for a chat that the template refuses, for a prompt that leaves no room, and
        for token ids that the model does not have.
        """
        if request.prompt_ids is None:
            prompt_ids, begun_ids = await self._prompts.chat_ids(request.messages, request.prefix)
        else:
            prompt_ids, begun_ids = self._text_ids(request), []
        if request.echo and request.logprobs is None:
            yield Piece(self._texts.whole(prompt_ids))
        if not request.max_tokens and not (request.echo and request.logprobs is not None):
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
        """What a client needs in order to prepare prompts itself: the tokenizer's control tokens,
        the chat template, the longest context.
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
        return await self._prompts.text_ids(text, add_special_tokens)

    async def detokenize(self, ids: Sequence[int]) -> str:
        """The text of tokens, control tokens shown.

        Raises Refused for an unknown one, and for more than a prompt may have.
        """
        if len(ids) > self._encoding.max_length:
            raise self._prompts.too_long(f"{len(ids)} tokens", "tokens")
        self._check_ids(ids, "tokens")
        return await asyncio.to_thread(self._texts.whole, ids)

    async def close(self) -> None:
        """End all work. The thread ends with the last engine that shares it."""
        if self._thread.leave():
            await asyncio.to_thread(self._thread.close)

    def _text_ids(self, request: EngineRequest) -> list[int]:
        """The tokens of a text, checked."""
        ids = list(request.prompt_ids or ())
        if not ids:
            raise Refused("the prompt has no tokens", param="prompt")
        self._check_ids(ids, "prompt")
        if len(ids) + min(request.max_tokens, 1) > self._encoding.max_length:
            raise self._prompts.too_long(f"{len(ids)} tokens", "prompt")
        return ids

    def _check_ids(self, ids: Sequence[int], field: str) -> None:
        unknown = next((i for i in ids if not 0 <= i < self._vocabulary), None)
        if unknown is not None:
            raise Refused(
                f"{unknown} is no token of this model: they are 0 to {self._vocabulary - 1}",
                param=field,
            )
