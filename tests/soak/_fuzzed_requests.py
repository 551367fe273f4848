"""Requests that no client should send, and some that one might: bytes for a socket."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 0.5, -0.0, 1e-300, 5e-324, 1e308, 2**31, 2**63),
    *(-(2**63), 10**40, "", "a", "\x00", "\u2028", "nan", "1", "\U0001f600" * 300),
    *([], [[]], {}, {"a": 1}, [None], [1, 2, 3], ["a", "b"], [[1], [2]], [1e999]),
    *({"type": "text"}, {"content": "a"}, [{"role": "user"}], "x" * 5000),
)
FIELDS = (
    *("model", "messages", "prompt", "stream", "stream_options", "temperature"),
    *("top_p", "top_k", "max_tokens", "max_completion_tokens", "stop", "seed", "n"),
    *("echo", "logprobs", "top_logprobs", "tools", "tool_choice", "response_format"),
    *("suffix", "best_of", "logit_bias", "presence_penalty", "min_p", "user"),
    *("continue_final_message", "add_special_tokens", "steering", "equipoise"),
)
TEXTS = (
    *("Hi", "", " ", "\n", "What is 7 + 12?", "\U0001f600\U0001f468\u200d\U0001f469", "\x00\x01"),
    *("<|im_end|><|im_start|>user", "</s>", "{{ messages }}", "{% for x in y %}", "a" * 200),
)
NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-", "0x1", "01", "1" * 400, "1e-999")
PATHS = (
    *("/", "/v1", "/v1/models", "/v1/models/builtin", "/v1/models/..%2f..", "/health"),
    *("/v1/chat/completions/", "/v1/embeddings", "//v1/completions", "/%ff%00"),
    *("/tokenizer_info", "/v1/completions?a=b#c", "/docs", "*"),
)


@dataclass(frozen=True, slots=True)
class Attack:
    """What is sent. `leaves`: the client goes away after so many bytes of the answer."""

    kind: str
    data: bytes
    leaves: int | None = None


class Fuzzer:
    """Attacks, the same for the same seed."""

    def __init__(self, token: str, seed: int = 0) -> None:
        self._token, self._random = token, random.Random(seed)
        self._kinds: dict[Callable[[], Attack], int] = {
            self._odd_fields: 30,
            self._extreme: 20,
            self._broken_json: 15,
            self._no_http: 10,
            self._tokenizer: 6,
            self._elsewhere: 6,
            self._half_sent: 6,
            self._vanishing: 3,
            self._long: 1,
        }

    def next(self) -> Attack:
        """The next attack."""
        kinds, weights = list(self._kinds), list(self._kinds.values())
        return self._random.choices(kinds, weights)[0]()

    def _request(self, path: str, body: bytes, method: str = "POST") -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            "host: soak",
            f"authorization: Bearer {self._token}",
            "content-type: application/json",
            "connection: close",
            f"content-length: {len(body)}",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def _pick(self, *values: Any) -> Any:
        return self._random.choice(values)

    def _body(self, path: str) -> dict[str, Any]:
        """A request that is in order."""
        body = {"model": "builtin", "max_tokens": self._random.randint(1, 8)}
        if path == TEXT:
            return body | {"prompt": self._pick(*TEXTS)}
        return body | {"messages": [{"role": "user", "content": self._pick(*TEXTS)}]}

    def _odd_fields(self) -> Attack:
        """A request in order, but for a few fields."""
        path = self._pick(CHAT, TEXT)
        body = self._body(path)
        for _ in range(self._random.randint(1, 3)):
            body[self._pick(*FIELDS)] = self._pick(*VALUES)
        if self._random.random() < 0.2 and isinstance(body.get("messages"), list):
            body["messages"] = [
                {
                    "role": self._pick("user", "system", "assistant", "tool", *VALUES),
                    "content": self._pick(*TEXTS, *VALUES),
                }
                for _ in range(self._random.randint(1, 4))
            ]
        return Attack("odd fields", self._request(path, _json(body)))

    def _extreme(self) -> Attack:
        """A request that may be answered, at the edges of what may be asked for."""
        path = self._pick(CHAT, TEXT)
        body = self._body(path) | {
            "temperature": self._pick(0, 1e-300, 5e-324, 1e-7, 1e-5, 1e-3, 1.0, 2),
            "top_p": self._pick(0, 5e-324, 1e-300, 0.5, 1),
            "top_k": self._pick(-1, 0, 1, 2, 2**31),
            "seed": self._pick(0, -1, 2**63 - 1, -(2**63)),
            "n": self._pick(1, 1, 1, 4),
            "stop": self._pick(None, [], "", ["\U0001f600", " ", "a"], "x" * 1000),
            "stream": self._pick(True, False),
        }
        if path == TEXT:
            ids = [self._random.randint(0, 599) for _ in range(self._random.randint(1, 60))]
            body["prompt"] = self._pick(*TEXTS, ids, [ids, ids[:1]], list(TEXTS), [-1], [600])
            body |= {
                "max_tokens": self._pick(0, 1, 7),
                "echo": self._pick(True, False),
                "logprobs": self._pick(None, 0, 1, 20),
            }
        else:
            body |= self._pick({}, {"logprobs": True, "top_logprobs": self._pick(0, 20)})
        return Attack("extreme settings", self._request(path, _json(body)))

    def _broken_json(self) -> Attack:
        """A body in order, cut or with a part exchanged."""
        path = self._pick(CHAT, TEXT)
        body = _json(self._body(path) | {"temperature": 1})
        place = self._random.randrange(len(body))
        noise = self._pick(
            b"", b"\xff", b"\x00", b'"', b"{", b"}", b",", b"\\ud800", b"\xed\xa0\x80"
        )
        broken = self._pick(
            body[:place],
            body[:place] + noise + body[place + 1 :],
            body.replace(b"1", self._pick(*NUMBERS).encode()),
            body * 2,
            b"[" * self._pick(10, 5000),
            b'{"a":' * self._pick(10, 5000),
            noise * 50,
        )
        return Attack("broken JSON", self._request(path, broken))

    def _no_http(self) -> Attack:
        """A request whose HTTP is broken."""
        good = self._request(CHAT, _json(self._body(CHAT)))
        place = self._random.randrange(len(good))
        chunked = good.replace(b"content-length: ", b"transfer-encoding: chunked\r\nx: ")
        broken = self._pick(
            self._random.randbytes(self._random.randint(1, 300)) + b"\r\n\r\n",
            good[:place] + self._random.randbytes(3) + good[place:],
            good.replace(b"\r\n", b"\n", 2),
            good.replace(b"content-length: ", b"content-length: -"),
            good.replace(b"content-length: ", b"content-length: 9" + b"9" * 30),
            good.replace(b"HTTP/1.1", self._pick(b"HTTP/9.9", b"HTTP/1.0", b"")),
            chunked,
            good + good[:place] + b"\x00\x00\r\n\r\n",
            b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
            good.replace(b"host: soak", b"a: b\r\n" * 2000 + b"host: soak"),
            good.replace(b"host: soak", b"expect: 100-continue\r\nhost: soak"),
            good.replace(b"host: soak", b"upgrade: websocket\r\nconnection: upgrade"),
        )
        return Attack("broken HTTP", broken)

    def _tokenizer(self) -> Attack:
        path = self._pick("/tokenize", "/detokenize")
        body = {
            "prompt": self._pick(*TEXTS, *VALUES),
            "tokens": self._pick([1, 2, 3], [599], [600], [-1], *VALUES),
            "add_special_tokens": self._pick(True, False, *VALUES),
        }
        return Attack("tokenizer", self._request(path, _json(body)))

    def _elsewhere(self) -> Attack:
        """Another path or method, or a wrong token."""
        method = self._pick("GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "PATCH")
        path = self._pick(*PATHS, CHAT, TEXT)
        data = self._request(path, b"{}" if method == "POST" else b"", method)
        if self._random.random() < 0.3:
            data = data.replace(self._token.encode(), self._pick(b"", b"\xe9", b"x" * 999))
        return Attack("elsewhere", data)

    def _half_sent(self) -> Attack:
        """A request that stops in the middle."""
        good = self._request(CHAT, _json(self._body(CHAT)))
        sent = good[: self._random.randrange(len(good))]
        return Attack("half sent", sent, leaves=0)

    def _vanishing(self) -> Attack:
        """A stream that nobody reads to its end."""
        body = self._body(CHAT) | {"stream": True, "n": 4, "max_tokens": 120}
        leaves = self._pick(0, 1, 200, 900)
        return Attack("vanishing", self._request(CHAT, _json(body)), leaves)

    def _long(self) -> Attack:
        """About as much as a body may hold, or more."""
        most = 950_000
        text = self._pick("a", " ", "word and ", "<|im_end|>", "\U0001f600")
        content = text * (most // len(text.encode()) + 1)
        message = {
            "role": "user",
            "content": content[: most // max(1, len(text.encode()) // len(text))],
        }
        body = self._pick(
            {"messages": [message]},
            {"messages": [{"role": "user", "content": ""}] * (most // 32)},
            {"messages": [1] * (most // 2)},
            {"prompt": [7] * (most // 2)},
            {"prompt": [[7]] * (most // 4)},
            {"prompt": ["a"] * (most // 5)},
            {"prompt": content[: most // 4]},
            {"prompt": "a", "stop": ["x" * 999] * 900},
            {"messages": [message] * 3},
        )
        path = TEXT if "prompt" in body else CHAT
        return Attack("long", self._request(path, _json({"model": "builtin", **body})))


def _json(body: Any) -> bytes:
    """As JSON; what JSON has no form for is written as Python writes it."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
