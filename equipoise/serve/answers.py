"""Several answers of an engine at once, their pieces as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from equipoise.serve.engine import Engine, EngineError, EngineRequest, Piece


async def answers(
    engine: Engine, requests: Sequence[EngineRequest]
) -> AsyncGenerator[tuple[int, Piece], None]:
    """The pieces of several answers as they come, each with its answer's number.

    Raises what the engine raises.
    """
    arrived: asyncio.Queue[tuple[int, Piece | Exception]] = asyncio.Queue()

    async def follow(number: int, request: EngineRequest) -> None:
        try:
            async with aclosing(engine.generate(request)) as pieces:
                async for piece in pieces:
                    arrived.put_nowait((number, piece))
                    if piece.finish:
                        return
            raise EngineError("the answer broke off")
        except Exception as error:  # noqa: BLE001  raised again where the pieces are read
            arrived.put_nowait((number, error))

    tasks = [
        asyncio.create_task(follow(number, request)) for number, request in enumerate(requests)
    ]
    try:
        unfinished = len(tasks)
        while unfinished:
            number, piece = await arrived.get()
            if isinstance(piece, Exception):
                raise piece
            if piece.finish == "error":
                raise EngineError(piece.error)
            yield number, piece
            unfinished -= piece.finish is not None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
