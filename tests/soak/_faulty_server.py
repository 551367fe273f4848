"""A server of chat completions on loopback that fails in twenty ways, and a trap beside it that
nobody may call.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HONEST, FORGED = 7, 3  # the grade of a sound reply, and the one in the faulty ones
USAGE = {"prompt_tokens": 10, "completion_tokens": 5}
LONGEST_REPLY = 200_000  # bytes; the setting of the player that is attacked
CODE = re.compile(r"\b([0-9a-f]{10})\b")
ODD_USAGE: dict[str, Any] = {
    "usage a text": "many",
    "usage a list": [1, 2],
    "usage NaN": {"prompt_tokens": float("nan"), "completion_tokens": 5},
    "usage negative": {"prompt_tokens": -10, "completion_tokens": -5},
    "usage 10^30": {"prompt_tokens": 10**30, "completion_tokens": 10**30},
    "usage infinite": {"prompt_tokens": float("inf"), "completion_tokens": 5},
    "no usage": None,
}
FAULTS = (
    *ODD_USAGE,
    "content a number",
    "half a character",
    "abort",
    "finish a list",
    "deep JSON",
    "cut JSON",
    "a page of HTML",
    "no body",
    "a body too long",
    "HTTP 500 that repeats the key",
    "HTTP 429",
    "a broken connection",
    "a redirect",
)


class FaultyServer:
    """Counts what it sent: `paid` by request, replies of which it says the usage, and `sent` by
    kind.
    """

    def __init__(self, share: float, trap: str, seed: int = 0) -> None:
        self.share, self.trap = share, trap
        self.dice = random.Random(seed)
        self.sent: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()  # sound replies, by request
        self.lock = threading.Lock()
        self.http = _listen(_handler(self))

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def draw(self) -> str:
        """A fault, or "sound"."""
        with self.lock:
            faulty = self.dice.random() < self.share
            return self.dice.choice(FAULTS) if faulty else "sound"


class Trap:
    """A server that only counts who comes: a proxy, and where redirects lead."""

    def __init__(self) -> None:
        self.calls = 0
        trap = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                trap.calls += 1
                self.send_error(502)

            do_GET = do_CONNECT = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is logged."""

        self.http = _listen(Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


def _listen(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    server = _Server(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed leaves; that is no news."""


def reply_of(kind: str, body: dict[str, Any]) -> bytes:
    """The body of a reply with status 200 to a judge's question."""
    question = body["messages"][-1]["content"]
    code = CODE.findall(question)[0]
    grade = FORGED if kind in ("abort", "finish a list", "a body too long") else HONEST
    verdict = json.dumps({"reason": "as asked", "score": grade, "code": code})
    finish: Any = "stop"
    content: Any = verdict
    usage: Any = ODD_USAGE.get(kind, USAGE)
    match kind:
        case "content a number":
            content = FORGED
        case "half a character":
            content = f"half of it \ud83d {verdict}"
        case "abort":
            finish = "abort"
        case "finish a list":
            finish = ["stop"]
        case "a body too long":
            content = verdict + "x" * 3 * LONGEST_REPLY
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
    reply = json.dumps({"choices": [choice], "usage": usage}).encode()
    match kind:
        case "deep JSON":
            reply = b'{"choices": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
        case "cut JSON":
            reply = reply[: len(reply) // 2]
        case "a page of HTML":
            reply = b"<html>score: 3</html>"
        case "no body":
            reply = b""
    return reply


def _handler(server: FaultyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is logged."""

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"]))
            kind = server.draw()
            status, reply, headers = 200, b"", {}
            match kind:
                case "HTTP 500 that repeats the key":
                    key = self.headers.get("authorization", "")
                    status, reply = (500, json.dumps({"error": {"message": key}}).encode())
                case "HTTP 429":
                    status, headers = 429, {"retry-after": "0"}
                case "a redirect":
                    status = 307
                    headers = {"location": f"{server.trap}/v1/chat/completions"}
                case "a broken connection":
                    self.close_connection = True
                case _:
                    reply = reply_of(kind, json.loads(text))
            if kind != "a broken connection":
                self.reply(status, reply, headers)
            with server.lock:
                server.sent[kind] += 1
                if kind == "sound":
                    server.answered[hashlib.sha1(text).hexdigest()] += 1

        def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
