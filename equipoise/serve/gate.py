"""How much the server takes on at once: places for answers, and a bounded queue before them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import Field

from equipoise.component import Settings
from equipoise.serve.protocol import Problem


class Limits(Settings):
    """What one server takes on."""

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


class Gate:
    """Lets requests in, in the order in which they came."""

    def __init__(self, places: int, queue: int) -> None:
        """`places` for answers; at most `queue` requests wait for theirs."""
        self._free, self._queue, self._places = places, queue, places
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
        """Places for so many answers, held while the context is open.

        Raises Problem (429) where too many wait.
        """
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
        """Let in those who wait, in their order, as far as there are places; forget those who have
        gone, of whom some do not know it yet.
        """
        here = [waiter for waiter in self._waiting if not waiter[1].cancelled()]
        self._waiting = deque(here)
        while self._waiting and self._waiting[0][0] <= self._free:
            answers, admitted = self._waiting.popleft()
            self._free -= answers
            admitted.set_result(None)
