"""What the server's endpoints have in common: they read a body, take a bounded time, end the work
for a client that goes away, and answer every error in the protocol's shape.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from equipoise.errors import EquipoiseError
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.engine import EngineError, Refused
from equipoise.serve.gate import Gate, Limits
from equipoise.serve.protocol import Problem, Reply

T = TypeVar("T")
log = logging.getLogger(__name__)


class Endpoint(ABC):
    """An ASGI application that answers requests to one path."""

    def __init__(self, limits: Limits, gate: Gate) -> None:
        self._limits, self._gate = limits, gate

    @abstractmethod
    async def _reply(self, body: bytes, reply: Reply) -> None:
        """Answer the request with this body. Raises EquipoiseError."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. A client that goes away ends the work on it."""
        reply = Reply(send)
        clock = asyncio.timeout(self._limits.seconds)
        try:
            async with clock:
                body = await self._body_in_time(Request(scope, receive))
                await _unless_gone(receive, self._reply(body, reply))
        except ClientDisconnect:
            return
        except TimeoutError:
            if not clock.expired():
                raise
            message = f"the answer took longer than {self._limits.seconds:g} s"
            await reply.fail(_timed_out(message))
        except EquipoiseError as error:
            await reply.fail(_as_problem(error))

    async def _body_in_time(self, request: Request) -> bytes:
        clock = asyncio.timeout(self._limits.body_seconds)
        try:
            async with clock:
                return await self._body(request)
        except TimeoutError as error:
            if not clock.expired():
                raise
            message = f"the body took longer than {self._limits.body_seconds:g} s"
            raise _timed_out(message) from error

    async def _body(self, request: Request) -> bytes:
        """The request's body; of one that is too long, no more than the limit is held."""
        most = self._limits.body_bytes
        length = request.headers.get("content-length", "0")
        received, parts = 0, []
        if length.isdecimal() and int(length) <= most:
            async for part in request.stream():
                received += len(part)
                if received > most:
                    break
                parts.append(part)
            else:
                return b"".join(parts)
        raise Problem(413, f"a request has at most {most} bytes here", "request_too_large")


class ModelEndpoint(Endpoint):
    """An endpoint that asks a model."""

    def __init__(self, catalogue: Catalogue, limits: Limits, gate: Gate) -> None:
        super().__init__(limits, gate)
        self._catalogue = catalogue


def _timed_out(message: str) -> Problem:
    return Problem(408, message, "timeout", None, {"x-should-retry": "false"})


def _as_problem(error: EquipoiseError) -> Problem:
    """How the protocol answers an error of ours."""
    match error:
        case Problem():
            return error
        case Refused():
            return Problem(400, str(error), error.code, error.param)
        case EngineError():
            return Problem(500, str(error), "engine_error")
    log.error("%s", error)
    message = "the model cannot be used; the server's log says why"
    return Problem(500, message, "engine_error")


async def _unless_gone(receive: Receive, work: Awaitable[T]) -> None:
    """Do the work, unless the client goes away first; then it is cancelled."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        finished = working.done()
        working.cancel()
        results = await asyncio.gather(working, leaving, return_exceptions=True)
    if finished and isinstance(results[0], Exception):
        raise results[0]
