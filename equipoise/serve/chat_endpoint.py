"""/v1/chat/completions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from equipoise.serve.answers import answers
from equipoise.serve.chat_request import ChatRequest, read_request
from equipoise.serve.completion import ChatCompletion
from equipoise.serve.endpoint import ModelEndpoint
from equipoise.serve.engine import Piece
from equipoise.serve.protocol import Reply


class ChatEndpoint(ModelEndpoint):
    """Answers chats."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        request = read_request(body, self._limits)
        seed = request.seed_or_fresh()
        async with self._gate.place(request.answers):
            served = await self._catalogue.find(request.model, seed, request.wishes)
            requests = request.engine_requests(seed, served.defaults, self._limits.max_tokens)
            first = requests[0]
            completion = ChatCompletion(
                served.name,
                len(requests),
                await served.engine.count(first.messages, first.prefix),
                request.counts_in_stream,
                scored=first.logprobs is not None,
            )
            async with aclosing(answers(served.engine, requests)) as pieces:
                if request.stream:
                    await _stream(completion, pieces, reply, request)
                    return
                async for number, piece in pieces:
                    completion.add(number, piece)
            await reply.json(completion.body())


async def _stream(
    completion: ChatCompletion,
    pieces: AsyncIterator[tuple[int, Piece]],
    reply: Reply,
    request: ChatRequest,
) -> None:
    opened: set[int] = set()
    async for number, piece in pieces:
        completion.add(number, piece)
        if number not in opened:
            opened.add(number)
            await reply.event(completion.opening(number))
        if piece.text or piece.finish or piece.fields or piece.scores:
            await reply.event(completion.event(number, piece))
    if request.counts_in_stream:
        await reply.event(completion.closing())
    await reply.done()
