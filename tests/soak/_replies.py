"""A server that answers every chat completion with a verdict that depends on the request alone, so
that two runs that ask the same get the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CODE = re.compile(r'"code": "([^"]+)"')  # which a verdict has to repeat


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        text = json.dumps([asked["messages"], asked.get("seed")])
        number = int(hashlib.blake2b(text.encode(), digest_size=4).hexdigest(), 16)
        code = CODE.findall(asked["messages"][-1]["content"])
        verdict = {"reason": "none", "score": 1 + number % 10, "code": code[-1]}
        answer = {
            "choices": [
                {
                    "message": {"role": "assistant", "content": json.dumps(verdict)},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 10, "completion_tokens": 1},
        }
        reply = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving() -> Iterator[str]:
    """The address of the server, in a process of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    child = os.fork()
    if child == 0:
        server.serve_forever()
        os._exit(0)
    port = server.server_address[1]
    server.server_close()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
