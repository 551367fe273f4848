"""Connections are bounded: slow, idle, broken and vanishing clients hold nothing up and leave no
traceback.
"""

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection

import httpx
import pytest

ASK = {"model": "talker", "messages": [{"role": "user", "content": "How are you?"}]}
HEAD = "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n"


def connect(address) -> socket.socket:
    port = int(address.url.split(":")[2][:-3])
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def request(**change) -> bytes:
    body = json.dumps(ASK | change).encode()
    return f"{HEAD}content-length: {len(body)}\r\n\r\n".encode() + body


def received(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.fixture
def errors(caplog):
    """`with errors():` no error is logged meanwhile, by uvicorn, asyncio or us."""

    @contextmanager
    def none_logged() -> Iterator[None]:
        yield
        raised = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
        assert not raised

    return none_logged


class Kept(logging.Handler):
    closed = False

    def close(self):
        self.closed = True
        super().close()


def test_a_server_leaves_the_log_of_its_process_open(serving, fake_engine, fake_catalogue):
    handler = Kept()
    with serving(fake_catalogue({"talker": fake_engine()})):
        assert not handler.closed
    assert logging.getLogger("uvicorn.error").getEffectiveLevel() == logging.WARNING


@pytest.mark.long
def test_headers_must_come_in_time(serving, fake_engine, fake_catalogue, errors):
    engine = fake_engine()
    with (
        serving(fake_catalogue({"talker": engine}), header_seconds=0.2) as address,
        errors(),
        connect(address) as silent,
        connect(address) as slow,
        connect(address) as second,
    ):
        slow.sendall(HEAD.encode())
        second.sendall(request() + HEAD.encode())
        assert received(silent) == received(slow) == b""
        assert received(second).startswith(b"HTTP/1.1 200")
        assert address.post(ASK).status_code == 200


@pytest.mark.long
def test_an_answered_connection_waits_as_long_as_a_new_one(serving, fake_engine, fake_catalogue):
    """uvicorn's own bound, five seconds, does not come first."""
    with serving(fake_catalogue({"talker": fake_engine()})) as address:
        host = address.url.removeprefix("http://").removesuffix("/v1")
        with closing(HTTPConnection(host, timeout=20)) as client:
            for idle in (5.5, 0):
                client.request("GET", "/health")
                response = client.getresponse()
                assert response.status == 200
                assert response.read()
                time.sleep(idle)


@pytest.mark.long
def test_idle_connections_make_room(serving, fake_engine, fake_catalogue, until):
    engine = fake_engine(words=("a ",) * 1000, pause=0.05)
    with serving(fake_catalogue({"talker": engine}), connections=3) as address:
        idle = [connect(address) for _ in range(3)]
        assert httpx.get(address.url.replace("/v1", "/health")).status_code == 200
        assert received(idle[0]) == b"", "the one that waited longest is closed"
        busy = [connect(address) for _ in range(3)]
        for client in busy:
            client.sendall(request(stream=True))
        until(lambda: engine.under_way == 3)
        late = httpx.get(address.url.replace("/v1", "/health"))
        assert late.status_code == 503
        assert late.headers["retry-after"] == "1"
        assert late.json()["error"]["code"] == "overloaded"
        for client in (*idle, *busy):
            client.close()
        until(lambda: engine.under_way == 0)


@pytest.mark.long
def test_an_answer_that_is_not_read_is_given_up(
    serving, fake_engine, fake_catalogue, until, errors
):
    engine = fake_engine(words=("word " * 200_000,) * 10_000, pause=0.01)
    with (
        serving(fake_catalogue({"talker": engine}), unread_seconds=0.3) as address,
        errors(),
        connect(address) as client,
    ):
        client.sendall(request(stream=True, seed=7))
        until(lambda: engine.left == [7])
        assert address.post(ASK, path="/models").status_code == 405


@pytest.mark.long
def test_bodies_must_come_in_time(serving, fake_engine, fake_catalogue):
    with (
        serving(fake_catalogue({"talker": fake_engine()}), body_seconds=0.2) as address,
        connect(address) as slow,
    ):
        slow.sendall(f"{HEAD}content-length: 100\r\nconnection: close\r\n\r\n".encode())
        reply = slow.recv(65536)
        assert reply.startswith(b"HTTP/1.1 408")
        assert b"the body took longer" in reply


BROKEN = {
    "no HTTP": b"\x16\x03\x01 hello\r\n\r\n",
    "a line too long": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "no number": f"{HEAD}content-length: x\r\n\r\n".encode(),
    "a broken chunk": f"{HEAD}transfer-encoding: chunked\r\n\r\nzz\r\n".encode(),
    "two requests and rubbish": request() + request() + b"\x00\x00\r\n\r\n",
    "rubbish under way": request(stream=True) + b"\x00\x00\r\n\r\n",
    "half a body": request()[:-20],
    "headers alone": HEAD.encode(),
    "too long a body, broken": f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode()
    + b"2000\r\n"
    + b" " * 0x2000
    + b"\r\nzz\r\n",
}


def test_broken_and_vanishing_clients_leave_no_traceback(
    serving, fake_engine, fake_catalogue, until, errors
):
    engine = fake_engine(pause=0.02)
    with serving(fake_catalogue({"talker": engine}), body_bytes=5000) as address, errors():
        for sent in BROKEN.values():
            for closes_at_once in (True, False):
                with connect(address) as client:
                    client.sendall(sent)
                    if closes_at_once:
                        linger = (1).to_bytes(4, "little") + bytes(4)
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    else:
                        with suppress(OSError):  # the server closed first
                            client.shutdown(socket.SHUT_WR)
                        received(client)
        with connect(address) as client:
            client.sendall(BROKEN["no HTTP"])
            reply = received(client)
            assert reply.startswith(b"HTTP/1.1 400")
            assert b"invalid_http" in reply
        until(lambda: engine.under_way == 0)
        assert address.post(ASK).status_code == 200
