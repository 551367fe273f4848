"""A real HTTP server on loopback that speaks /v1/chat/completions, and misbehaves on request.

    def test_it(openai_server):
        openai_server.script(Fail(429, retry_after="0"), Say("hello"), Drop())   # in this order, then `answer` again
        openai_server.answer = lambda body: body["messages"][-1]["content"].upper()
        ... Endpoint(base_url=openai_server.url, model="tiny") ...
        assert openai_server.requests[0].body["temperature"] == 1

A script may also hold plain strings (the answer's text) and functions body -> text or step, as
`answer` is one.
"""

import json
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Say:
    """An answer. `usage` None: the server does not say what it took."""

    text: str | None = "fine"
    finish: str = "stop"
    usage: tuple[int, int] | None = (10, 5)
    message: dict[str, Any] = field(
        default_factory=dict
    )  # further fields, such as reasoning_content
    logprobs: tuple[float, ...] | None = None
    after: float = 0.0  # seconds before it comes


@dataclass(frozen=True)
class Fail:
    """An HTTP error in OpenAI's form."""

    status: int
    words: str = "no"
    retry_after: str | None = None
    code: str | None = None
    param: str | None = None
    location: str | None = None


@dataclass(frozen=True)
class Raw:
    """Any body with status 200."""

    body: bytes = b'{"choices": [{"mess'
    content_type: str = "application/json"


@dataclass(frozen=True)
class Stream:
    """An answer in pieces, for a request with `stream`; `breaks`: the connection breaks after them,
    with no end.
    """

    pieces: tuple[str, ...]
    finish: str | None = "stop"
    usage: tuple[int, int] | None = (10, 5)
    gap: float = 0.0  # seconds between the pieces
    breaks: bool = False
    error: str | None = None  # said in place of an end


@dataclass(frozen=True)
class Drop:
    """The connection breaks before an answer; `reset`: as when the server is killed."""

    reset: bool = False


@dataclass(frozen=True)
class Cut:
    """The answer breaks off in the middle of its body."""


Step = Say | Stream | Fail | Raw | Drop | Cut


@dataclass(frozen=True)
class Seen:
    """A request as it came in. `headers` have small letters; `time` is a monotonic clock's, in
    seconds.
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    time: float


class QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that leave early; of all else, what is usual."""

    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class OpenAIServer:
    """What a test holds: the address, what came in, and what is answered."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.most_at_once = 0
        self.left = threading.Event()  # a client went away in the middle of a stream
        self.answer: Callable[[dict[str, Any]], str | Step] = lambda body: Say()
        self.key: str | None = None  # asked for when set
        self.models: set[str] | None = None  # the only ones there, when set
        self.refuses: dict[
            str, Fail
        ] = {}  # a field, or a type of response_format -> what is said to it
        self._script: deque[Any] = deque()
        self._lock = threading.Lock()
        self._now = 0
        self._http = QuietServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads, self._http.block_on_close = True, False
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def script(self, *steps: str | Step | Callable[[dict[str, Any]], str | Step]) -> None:
        """Answer the next requests with these, one each, before `answer` is asked again."""
        self._script.extend(steps)

    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of all requests."""
        return [request.body for request in self.requests]

    def close(self) -> None:
        """Stop listening: further connections are refused."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def step(self, seen: Seen) -> Step:
        """What to do about a request."""
        if not seen.path.endswith(("/v1/chat/completions", "/v1/embeddings")):
            return Fail(404, "Not Found")
        if self.key is not None and seen.headers.get("authorization") != f"Bearer {self.key}":
            return Fail(
                401,
                f"Incorrect API key provided: {seen.headers.get('authorization')}",
                code="invalid_api_key",
            )
        if self.models is not None and seen.body["model"] not in self.models:
            return Fail(
                404, f"The model `{seen.body['model']}` does not exist.", code="model_not_found"
            )
        asked = [*seen.body, seen.body.get("response_format", {}).get("type")]
        for name in asked:
            if name in self.refuses:
                return self.refuses[name]
        with self._lock:
            step = self._script.popleft() if self._script else self.answer
        step = step(seen.body) if callable(step) else step
        return Say(step) if isinstance(step, str) else step

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (`self` is the handler's)
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = (
                True  # head and body go out apart; the body must not wait for 40 ms
            )

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                """The list of models, where there are some."""
                bearer = self.headers.get("authorization")
                if not self.path.endswith("/v1/models") or server.models is None:
                    self.act_on(Fail(501), {})
                elif server.key is not None and bearer != f"Bearer {server.key}":
                    self.act_on(Fail(401), {})
                else:
                    cards = [{"id": name, "object": "model"} for name in sorted(server.models)]
                    self.send(200, json.dumps({"object": "list", "data": cards}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                seen = Seen(
                    self.path,
                    {k.lower(): v for k, v in self.headers.items()},
                    body,
                    time.monotonic(),
                )
                with server._lock:
                    server.requests.append(seen)
                    server._now += 1
                    server.most_at_once = max(server.most_at_once, server._now)
                try:
                    step = server.step(seen)
                    time.sleep(step.after if isinstance(step, Say) else 0)
                finally:
                    with server._lock:
                        server._now -= 1
                try:
                    self.act_on(step, seen.body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client has given up

            def act_on(self, step: Step, body: dict[str, Any]) -> None:
                match step:
                    case Drop(reset=True):
                        self.reset()
                    case Drop():
                        self.close_connection = True
                        self.connection.shutdown(socket.SHUT_RDWR)
                    case Cut():
                        whole = json.dumps(completion(Say(), body)).encode()
                        self.send(200, whole[:20], {"content-length": str(len(whole))})
                        self.close_connection = True
                    case Raw():
                        self.send(200, step.body, {"content-type": step.content_type})
                    case Fail():
                        error = {
                            "message": step.words,
                            "type": "error",
                            "code": step.code,
                            "param": step.param,
                        }
                        headers = {"retry-after": step.retry_after, "location": step.location}
                        self.send(step.status, json.dumps({"error": error}).encode(), headers)
                    case Say() if body.get("stream"):
                        self.stream(Stream((step.text or "",), step.finish, step.usage), body)
                    case Stream():
                        self.stream(step, body)
                    case Say():
                        self.send(200, json.dumps(completion(step, body)).encode())

            def stream(self, step: Stream, body: dict[str, Any]) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    for event in events(step, body):
                        self.wfile.write(b"data: " + event + b"\n\n")
                        time.sleep(step.gap)
                except (BrokenPipeError, ConnectionResetError):
                    server.left.set()
                    raise
                if step.breaks:
                    self.reset()

            def reset(self) -> None:
                self.close_connection = True
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.connection.close()

            def send(
                self, status: int, body: bytes, headers: Mapping[str, str | None] = {}
            ) -> None:
                self.send_response(status)
                usual = {"content-type": "application/json", "content-length": str(len(body))}
                for name, value in (usual | dict(headers)).items():
                    if value is not None:
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        return Handler


def completion(step: Say, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an answer."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": step.text, **step.message},
        "finish_reason": step.finish,
    }
    if step.logprobs is not None and body.get("logprobs"):
        choice["logprobs"] = {
            "content": [{"token": "x", "logprob": p, "top_logprobs": []} for p in step.logprobs]
        }
    reply = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [choice],
    }
    if step.usage is not None:
        asked, answered = step.usage
        reply["usage"] = {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
        }
    return reply


def events(step: Stream, body: dict[str, Any]) -> Iterator[bytes]:
    """The data of a stream's events."""

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
        return json.dumps(chunk | {"choices": choices} | more).encode()

    yield event(
        [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    )
    for piece in step.pieces:
        yield event([{"index": 0, "delta": {"content": piece}, "finish_reason": None}])
    if step.error is not None:
        yield json.dumps({"error": {"message": step.error}}).encode()
    if step.breaks or step.error is not None:
        return
    yield event([{"index": 0, "delta": {}, "finish_reason": step.finish}])
    if step.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        yield event(
            [], usage=dict(zip(("prompt_tokens", "completion_tokens"), step.usage, strict=True))
        )
    yield b"[DONE]"


@pytest.fixture
def openai_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A server of its own for the test. Clients pause only as long as it asks them to."""
    monkeypatch.setattr("equipoise.system.http_bounds.FIRST_PAUSE", 0.01)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = OpenAIServer()
    yield server
    server.close()
