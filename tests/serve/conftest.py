"""A real server on loopback, in a thread of the tests' own process, in front of whatever engine a test gives it."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from equipoise.players.local import Local
from equipoise.serve.catalogue import Catalogue, Offer
from equipoise.serve.engine import Asked, Piece


@dataclass
class Talker:
    """An engine of tests: says `words` one by one, each after `pause` seconds, and knows who went away."""

    words: tuple[str, ...] = ("one ", "two ", "three")
    pause: float = 0.0
    error: Exception | None = None
    asked: list[Asked] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    left: list[int] = field(default_factory=list)  # seeds of answers that were given up

    async def generate(self, asked: Asked):
        self.asked.append(asked)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        finished = False
        try:
            if self.error is not None:
                raise self.error
            for word in self.words:
                await asyncio.sleep(self.pause)
                yield Piece(word, tokens=1)
            finished = True
            yield Piece(finish="stop", tokens=1)
        finally:
            self.under_way -= 1
            if not finished:
                self.left.append(asked.seed)

    def count(self, messages, prefix: str = "") -> int:
        return sum(len(message.content.split()) for message in messages)

    async def close(self) -> None:
        self.asked.append(Asked((), seed=-1))


class Shop(Catalogue):
    """A catalogue whose engines are a test's."""

    def __init__(self, engines: dict[str, Any], **more: Any) -> None:
        super().__init__({name: Offer(Local(max_new_tokens=50)) for name in engines}, **more)
        self._open = dict(engines)


@dataclass(frozen=True)
class Address:
    """Where a server answers."""

    url: str
    token: str | None
    server: Any

    def post(self, body: Any = None, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        url = self.url + more.pop("path", "/chat/completions")
        return httpx.post(url, **({"json": body} if body is not None else {}), headers=headers, timeout=30, **more)


@pytest.fixture
def serving() -> Callable[..., Any]:
    """`with serving(catalogue, token=…, **limits) as address:` a server in a thread, stopped gracefully at the end."""
    import uvicorn

    from equipoise.serve.app import create
    from equipoise.serve.gate import Limits

    @contextmanager
    def start(catalogue: Catalogue, token: str | None = "secret", grace: int = 5, **limits: Any) -> Iterator[Address]:
        listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        config = uvicorn.Config(
            create(catalogue, Limits(**limits), token), http="h11", ws="none", log_level="warning",
            timeout_graceful_shutdown=grace,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Address(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", token, server)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()

    return start


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """until(condition): wait for it, 20 s at most."""

    def wait(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, "it did not come to pass"
            time.sleep(0.005)

    return wait


@pytest.fixture
def talker() -> type[Talker]:
    """An engine of tests."""
    return Talker


@pytest.fixture
def shop() -> type[Shop]:
    """A catalogue of tests: shop({"name": engine})."""
    return Shop
