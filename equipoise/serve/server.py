"""The HTTP server: its token, its address, and the process that answers until it is stopped."""

from __future__ import annotations

import math
import os
import secrets
import socket
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette

from equipoise.errors import ConfigError
from equipoise.serve.app import create, is_loopback
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.connection import BoundedConnection
from equipoise.serve.gate import Limits

BACKLOG = 2048  # connections that wait to be accepted


def choose_token(variable: str, none: bool, host: str) -> str | None:
    """The token that clients must send: from an environment variable, or a fresh one; None where
    `none` is wished.

    Raises ConfigError for a variable that is not set, or no token at an address that other machines
    can reach.
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
    return f"{_address(host, listening)}/v1"


def page_url(host: str, listening: socket.socket, token: str | None) -> str:
    """The address of a page, with the token where it is not sent along: after a #."""
    return f"{_address(host, listening)}/{f'#{token}' if token else ''}"


def _address(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


def configured(
    catalogue: Catalogue, limits: Limits, token: str | None, grace: int
) -> uvicorn.Config:
    """The HTTP server's settings; arguments as of `serve`."""
    return bounded(create(catalogue, limits, token), limits, grace)


def bounded(app: Starlette, limits: Limits, grace: int) -> uvicorn.Config:
    """The HTTP server's settings for an application of ours."""
    connection: Any = partial(BoundedConnection, limits)
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
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
    run(configured(catalogue, limits, token, grace), listening)


def run(config: uvicorn.Config, listening: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        # uvicorn has finished what was under way, and passes on the signal.
        return
