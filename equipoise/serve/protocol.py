"""OpenAI's protocol, the server's side: errors, and replies as one body or as a stream of
events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.types import Send

from equipoise.errors import EquipoiseError

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class Problem(EquipoiseError):  # noqa: N818
    """An error as the protocol answers it.

    `param` is the field that is to blame, `code` the protocol's error code.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """`{"error": {message, type, param, code}}`."""
        kind = TYPES.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        return {
            "error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        }


class Reply:
    """One answer on its way to the client: either one body, or a stream of events."""

    def __init__(self, send: Send) -> None:
        self._send, self.begun = send, False

    async def json(
        self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """The whole answer."""
        body = msgspec.json.encode(content)
        await self._start(
            status, {"content-length": str(len(body)), **(headers or {})}, "application/json"
        )
        await self._send({"type": "http.response.body", "body": body})

    async def event(self, content: Any) -> None:
        """An event of a stream, which begins with its first."""
        if not self.begun:
            await self._start(
                200, {"cache-control": "no-cache", "x-accel-buffering": "no"}, "text/event-stream"
            )
        await self._part(msgspec.json.encode(content))

    async def done(self) -> None:
        """The end of a stream."""
        await self._part(b"[DONE]")
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, problem: Problem) -> None:
        """An error: a whole answer, or where a stream has begun, its last event."""
        if not self.begun:
            await self.json(problem.body(), problem.status, problem.headers)
        else:
            await self._part(msgspec.json.encode(problem.body()))
            await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, headers: Mapping[str, str], content_type: str) -> None:
        self.begun = True
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        pairs.append((b"content-type", content_type.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _part(self, data: bytes) -> None:
        await self._send(
            {"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True}
        )
