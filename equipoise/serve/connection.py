"""A client's connection, with bounds on what it may hold up: how long a request's headers and an
unread answer may take, and how many connections there are.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from equipoise.serve.gate import Limits
from equipoise.serve.protocol import Problem

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState


class BoundedConnection(H11Protocol):
    """uvicorn's connection, bounded.

    One that has not sent the headers of its next request in time is closed, as is one whose client
    does not read its answer. Where there are too many, the one that has waited longest without a
    request makes room; where all of them are being answered, the newcomer is refused with 503.
    """

    def __init__(
        self,
        limits: Limits,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._waiting: asyncio.TimerHandle | None = None  # for headers
        self._since = 0.0  # it has waited
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take in a connection, unless there are too many."""
        super().connection_made(transport)
        self._wait_for_headers()
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what has come; after the end of a connection, nothing."""
        if self.transport.is_closing() or self.conn.our_state is h11.ERROR:
            return
        super().data_received(data)

    def handle_events(self) -> None:
        """Read events; while a request's headers are not whole, its time runs."""
        super().handle_events()
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait_for_headers()
        else:
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless an answer is already begun, and close."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._answer(Problem(400, "this is no HTTP request", "invalid_http"))
        self._close()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered; give it some time."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.unread_seconds, self._abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _make_room(self) -> None:
        """Close the connection that has waited longest for a request, or this one."""
        waiting = {
            other: other._since
            for other in self.connections
            if isinstance(other, BoundedConnection) and other._waiting is not None
        }
        del waiting[self]
        if waiting:
            min(waiting, key=waiting.__getitem__)._close()
        else:
            self._refuse()

    def _wait_for_headers(self) -> None:
        if self._waiting is None:
            seconds = self._limits.header_seconds
            self._since = time.perf_counter()  # the loop's own clock is coarser
            self._waiting = self.loop.call_later(seconds, self._close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _refuse(self) -> None:
        message = "too many connections; come again later"
        self._answer(Problem(503, message, "overloaded", None, {"retry-after": "1"}))
        self._close()

    def _answer(self, problem: Problem) -> None:
        """An error, whole, as the last thing that is sent."""
        body = msgspec.json.encode(problem.body())
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **problem.headers,
        }
        response = h11.Response(
            status_code=problem.status,
            headers=[(key.encode(), value.encode()) for key, value in headers.items()],
        )
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")

    def _close(self) -> None:
        """Close once what was written is sent."""
        self._stop_waiting()
        self._unset_keepalive_if_required()
        self.transport.close()

    def _abort(self) -> None:
        """Close at once; what the client has not read is lost."""
        self.transport.abort()
