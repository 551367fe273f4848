"""OpenAI's protocol, the server's side: replies, streams of events and errors, each in
the protocol's own shape.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.types import Send

from equipoise.errors import EquipoiseError
from equipoise.serve.engine import Piece

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
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
            self.status,
            "invalid_request_error" if self.status < 500 else "server_error",
        )
        return {
            "error": {
                "message": str(self),
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
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
            status,
            {"content-length": str(len(body)), **(headers or {})},
            "application/json",
        )
        await self._send({"type": "http.response.body", "body": body})

    async def event(self, content: Any) -> None:
        """An event of a stream, which begins with its first."""
        if not self.begun:
            await self._start(
                200,
                {"cache-control": "no-cache", "x-accel-buffering": "no"},
                "text/event-stream",
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

    async def _start(
        self, status: int, headers: Mapping[str, str], content_type: str
    ) -> None:
        self.begun = True
        pairs = [
            (name.encode(), value.encode("latin-1")) for name, value in headers.items()
        ]
        pairs.append((b"content-type", content_type.encode()))
        await self._send(
            {"type": "http.response.start", "status": status, "headers": pairs}
        )

    async def _part(self, data: bytes) -> None:
        await self._send(
            {
                "type": "http.response.body",
                "body": b"data: " + data + b"\n\n",
                "more_body": True,
            }
        )


class CompletionBuilder:
    """The answers to one request, put together from their pieces, as a body or as events."""

    def __init__(
        self, model: str, answers: int, prompt_tokens: int | None, count_in_stream: bool
    ) -> None:
        """`prompt_tokens` None: not known, so no usage is stated."""
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        self._prompt_tokens, self._count_in_stream = prompt_tokens, count_in_stream
        self._texts: list[list[str]] = [[] for _ in range(answers)]
        self._finishes: list[str | None] = [None] * answers
        self._fields: list[dict[str, Any]] = [{} for _ in range(answers)]
        self._tokens = 0

    def add(self, number: int, piece: Piece) -> None:
        """Take in a piece of an answer."""
        self._texts[number].append(piece.text)
        self._finishes[number] = piece.finish
        self._fields[number].update(piece.fields)
        self._tokens += piece.tokens

    def body(self) -> dict[str, Any]:
        """All answers at once."""
        choices = [
            {
                "index": n,
                "message": {
                    "role": "assistant",
                    "content": "".join(text),
                    "refusal": None,
                    **fields,
                },
                "logprobs": None,
                "finish_reason": finish,
            }
            for n, (text, fields, finish) in enumerate(
                zip(self._texts, self._fields, self._finishes, strict=True)
            )
        ]
        return {
            **self._head,
            "object": "chat.completion",
            "choices": choices,
            "usage": self._usage(),
        }

    def opening(self, number: int) -> dict[str, Any]:
        """The event with which an answer begins."""
        return self._event(number, {"role": "assistant", "content": ""}, None)

    def event(self, number: int, piece: Piece) -> dict[str, Any]:
        """The event of a piece."""
        delta = {**({"content": piece.text} if piece.text else {}), **piece.fields}
        return self._event(number, delta, piece.finish)

    def closing(self) -> dict[str, Any]:
        """The event that states the usage of all answers."""
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [],
            "usage": self._usage(),
        }

    def _event(
        self, number: int, delta: dict[str, Any], finish: str | None
    ) -> dict[str, Any]:
        choice = {
            "index": number,
            "delta": delta,
            "logprobs": None,
            "finish_reason": finish,
        }
        usage = {"usage": None} if self._count_in_stream else {}
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [choice],
            **usage,
        }

    def _usage(self) -> dict[str, int] | None:
        if self._prompt_tokens is None:
            return None
        total = self._prompt_tokens + self._tokens
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._tokens,
            "total_tokens": total,
        }
