"""The HTTP server: its token, its address, its process, the bounds of a connection."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from equipoise.errors import ConfigError
from equipoise.serve.app import create
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.protocol import Problem
from equipoise.system.addresses import is_loopback
from equipoise.system.interrupts import end

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

PAGE_LIMITS = Limits.model_validate({})
PAGE_GRACE = 5  # seconds to finish what is under way when a page is stopped
BACKLOG = 2048  # connections that wait to be accepted


def choose_token(variable: str, none: bool, host: str) -> str | None:
    """The clients' token: an environment variable's or fresh; None where `none` is wished.

    Raises ConfigError for an unset variable, or no token at an address that others can reach.
    """
    if variable and none:
        raise ConfigError("--token-env and --no-token exclude each other")
    if none:
        if not is_loopback(host):
            raise ConfigError(
                f"--no-token: {host} can be reached from other machines; use a token there"
            )
        return None
    if not variable:
        return secrets.token_urlsafe(24)
    token = os.environ.get(variable, "").strip()
    if not token:
        raise ConfigError(f"--token-env {variable}: this variable is not set")
    return token


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0: any that is free. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error}; choose another --host or --port"
        ) from error


def url(host: str, listening: socket.socket) -> str:
    """The base URL that clients are given."""
    return f"{address(host, listening)}/v1"


def page_url(host: str, listening: socket.socket, token: str | None) -> str:
    """The address of a page, with the token where it is not sent along: after a #."""
    return f"{address(host, listening)}/{f'#{token}' if token else ''}"


def address(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


def model_server_config(
    catalogue: Catalogue, limits: Limits, token: str | None, grace: int
) -> uvicorn.Config:
    """The HTTP server's settings; arguments as of `serve`."""
    return server_config(create(catalogue, limits, token), limits, grace)


def server_config(app: Starlette, limits: Limits, grace: int) -> uvicorn.Config:
    """The HTTP server's settings for an application of ours."""
    connection: Any = partial(BoundedConnection, limits)
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_config=None,  # uvicorn's own closes every handler that the process has
        log_level="warning",
        access_log=False,
        server_header=False,
        # As long as for a first request's headers: a busy loop closes an idle connection late, just
        # as its client sends the next request, which is lost.
        timeout_keep_alive=math.ceil(limits.header_seconds),
        timeout_graceful_shutdown=grace,
    )


def serve(
    catalogue: Catalogue, limits: Limits, token: str | None, listening: socket.socket, grace: int
) -> None:
    """Serve until Ctrl-C or SIGTERM; what is under way then has `grace` seconds."""
    run(model_server_config(catalogue, limits, token, grace), listening)


def run(config: uvicorn.Config, listening: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    try:
        Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        # uvicorn has finished what was under way, and passes on the signal.
        return


class Server(uvicorn.Server):
    """uvicorn's, which a second signal ends at once."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            end(sig, frame)
        super().handle_exit(sig, frame)


def serve_page(
    app: Starlette, host: str, port: int, token: str | None, announce: Callable[[str], None]
) -> None:
    """Serve a page until Ctrl-C or SIGTERM; `announce` gets its address. ConfigError if taken."""
    listening = listen(host, port)
    announce(page_url(host, listening, token))
    run(server_config(app, PAGE_LIMITS, PAGE_GRACE), listening)


class BoundedConnection(H11Protocol):
    """uvicorn's connection, bounded.

    One that is late with its headers is closed, as is one whose client does not read its answer.
    Where there are too many, the one idle longest makes room; where none is, the newcomer gets 503.
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
            message = "too many connections; come again later"
            self._answer(Problem(503, message, "overloaded", None, {"retry-after": "1"}))
            self._close()

    def _wait_for_headers(self) -> None:
        if self._waiting is None:
            seconds = self._limits.header_seconds
            self._since = time.perf_counter()  # the loop's own clock is coarser
            self._waiting = self.loop.call_later(seconds, self._close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

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
