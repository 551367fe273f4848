"""/v1/completions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from equipoise.serve.answers import answers
from equipoise.serve.completion import TextCompletion
from equipoise.serve.completion_request import CompletionRequest, read_completion_request
from equipoise.serve.endpoint import ModelEndpoint
from equipoise.serve.engine import Piece
from equipoise.serve.protocol import Reply


class CompletionEndpoint(ModelEndpoint):
    """Goes on with texts, or says how likely they are."""

    async def _reply(self, body: bytes, reply: Reply) -> None:
        request = read_completion_request(body, self._limits)
        seed = request.seed_or_fresh()
        count = len(request.prompts) * (request.n or 1)
        async with self._gate.place(count):
            served = await self._catalogue.find_text(request.model, seed)
            requests = await request.engine_requests(seed, served.defaults, served.text_engine)
            prompts = requests[:: request.n or 1]
            completion = TextCompletion(
                served.name,
                len(requests),
                sum(len(prompt.prompt_ids or ()) for prompt in prompts),
                request.counts_in_stream,
                scored=request.logprobs is not None,
            )
            async with aclosing(answers(served.engine, requests)) as pieces:
                if request.stream:
                    await _stream(completion, pieces, reply, request)
                    return
                async for number, piece in pieces:
                    completion.add(number, piece)
            await reply.json(completion.body())


async def _stream(
    completion: TextCompletion,
    pieces: AsyncIterator[tuple[int, Piece]],
    reply: Reply,
    request: CompletionRequest,
) -> None:
    async for number, piece in pieces:
        if piece.text or piece.finish or piece.scores:
            await reply.event(completion.event(number, piece))
        completion.add(number, piece)
    if request.counts_in_stream:
        await reply.event(completion.closing())
    await reply.done()
