"""Endpoints within limits: they wait for a place, read a body, take a bounded time.

Work ends for a client that goes away; every error has the protocol's shape.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import Field
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from equipoise.component import Settings
from equipoise.errors import EquipoiseError
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.engine import EngineError, Refused
from equipoise.serve.protocol import Problem, Reply

T = TypeVar("T")
log = logging.getLogger(__name__)


class Limits(Settings):
    """The load that one server takes on."""

    body_bytes: int = Field(1_000_000, ge=1, description="bytes of a request's body")
    concurrency: int = Field(64, ge=1, description="answers that are made at once")
    queue: int = Field(
        256, ge=0, description="requests that wait for a place; further ones are refused for now"
    )
    seconds: float = Field(
        300.0, gt=0, description="seconds that a request may take, its waiting included"
    )
    max_tokens: int = Field(4096, ge=1, description="tokens of an answer")
    connections: int = Field(
        512, ge=1, description="connections; of more, idle ones are closed first"
    )
    header_seconds: float = Field(
        20.0, gt=0, description="seconds in which a request's headers must come"
    )
    body_seconds: float = Field(
        60.0, gt=0, description="seconds in which a request's body must come"
    )
    unread_seconds: float = Field(
        60.0, gt=0, description="seconds for which a client may leave an answer unread"
    )
    answers: int = Field(16, ge=1, description="answers to one request (its n)")

    @property
    def answers_at_once(self) -> int:
        """Answers to one prompt."""
        return min(self.answers, self.concurrency)


class Gate:
    """Lets requests in, in the order in which they came."""

    def __init__(self, places: int, queue: int) -> None:
        self._free = places
        self._queue = queue
        self._places = places
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def running(self) -> int:
        """Answers that are being made."""
        return self._places - self._free

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def place(self, answers: int) -> AsyncIterator[None]:
        """Places for so many answers in the context. Raises Problem (429) if too many wait."""
        await self._enter(answers)
        try:
            yield
        finally:
            self._free += answers
            self._admit()

    async def _enter(self, answers: int) -> None:
        if not self._waiting and self._free >= answers:
            self._free -= answers
            return
        if len(self._waiting) >= self._queue:
            raise Problem(
                429,
                "too many requests are waiting; come again later",
                "rate_limit_exceeded",
                None,
                {"retry-after": "1"},
            )
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((answers, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self._free += answers  # it was let in just as it left
            self._admit()
            raise

    def _admit(self) -> None:
        """Let in those who wait, in their order, as places allow; forget those who have gone."""
        here = [waiter for waiter in self._waiting if not waiter[1].cancelled()]
        self._waiting = deque(here)
        while self._waiting and self._waiting[0][0] <= self._free:
            answers, admitted = self._waiting.popleft()
            self._free -= answers
            admitted.set_result(None)


class Endpoint(ABC):
    """An ASGI application that answers requests to one path."""

    def __init__(self, limits: Limits, gate: Gate) -> None:
        self._limits = limits
        self._gate = gate

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
                await unless_gone(receive, self._reply(body, reply))
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
        received = 0
        parts = []
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


async def unless_gone(receive: Receive, work: Awaitable[T]) -> None:
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
