"""/tokenizer_info, /tokenize and /detokenize, as vLLM has them: what a client needs that prepares
prompts itself, such as a harness.
"""

from __future__ import annotations

from pydantic import Field

from equipoise.serve.endpoint import ModelEndpoint
from equipoise.serve.engine import TextEngine
from equipoise.serve.protocol import Reply
from equipoise.serve.request_body import Body, read_object, validated


class TokenizeRequest(Body):
    """A text, whose tokens are wanted; of what model (None: the newest)."""

    model: str | None = None
    prompt: str
    add_special_tokens: bool | None = None


class DetokenizeRequest(Body):
    """Token ids, whose text is wanted; of what model (None: the newest)."""

    model: str | None = None
    tokens: list[int] = Field(fail_fast=True)


class TokenizerEndpoint(ModelEndpoint):
    """An endpoint that needs a model's tokenizer alone."""

    async def _engine(self, model: str | None) -> TextEngine:
        served = await self._catalogue.find_text(model or self._catalogue.default, 0)
        return served.text_engine


class TokenizerInfo(TokenizerEndpoint):
    """Control tokens, chat template and context of the newest model."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        engine = await self._engine(None)
        await reply.json(engine.tokenizer_facts)


class Tokenize(TokenizerEndpoint):
    """The tokens of a text, its control tokens as such."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        request = validated(TokenizeRequest, read_object(body))
        engine = await self._engine(request.model)
        special = request.add_special_tokens is not False
        tokens = await engine.tokenize(request.prompt, add_special_tokens=special)
        longest = engine.tokenizer_facts["model_max_length"]
        await reply.json({"tokens": tokens, "count": len(tokens), "max_model_len": longest})


class Detokenize(TokenizerEndpoint):
    """The text of tokens, control tokens shown."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        request = validated(DetokenizeRequest, read_object(body))
        engine = await self._engine(request.model)
        await reply.json({"prompt": await engine.detokenize(request.tokens)})
