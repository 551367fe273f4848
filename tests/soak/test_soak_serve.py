"""The soak of the server, small: fuzzed requests on real sockets, beside a client whose answers are
known.
"""

import asyncio
import logging
from urllib.parse import urlsplit

import pytest

from tests.soak._fuzzed_requests import Fuzzer
from tests.soak.serve import Watch, send, soak

ATTACKS = 150
QUESTION = {"model": "builtin", "messages": [{"role": "user", "content": "How are you?"}]}


@pytest.mark.long
def test_fuzzed_requests_break_nothing(serving, fake_engine, fake_catalogue, until, caplog):
    fuzzer, watch, engine = Fuzzer("secret", seed=1), Watch(), fake_engine()
    with serving(fake_catalogue({"builtin": engine})) as address:
        logging.getLogger("uvicorn").addHandler(caplog.handler)
        place = (str(urlsplit(address.url).hostname), urlsplit(address.url).port or 0)
        attacks = [fuzzer.next() for _ in range(ATTACKS)]

        async def attack() -> list:
            sent = [asyncio.create_task(send(place, each, watch)) for each in attacks]
            asked = [asyncio.to_thread(address.post, QUESTION) for _ in range(4)]
            replies = await asyncio.gather(*asked)
            await asyncio.gather(*sent)
            return replies

        replies = asyncio.run(attack())
        until(lambda: engine.under_way == 0)
        logging.getLogger("uvicorn").removeHandler(caplog.handler)
    texts = [reply.json()["choices"][0]["message"]["content"] for reply in replies]
    assert texts == ["one two three"] * 4
    assert not watch.failures
    assert watch.replies["200"]
    assert watch.replies["400"]
    errors = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert not errors


@pytest.mark.slow
def test_the_soak_holds_at_a_small_size():
    """A server of its own process, slow headers and vanishing streams: half a minute."""
    pytest.importorskip("psutil")
    outcome = soak(400)
    timed = ("health took", "memory grew")  # of a machine that is busy otherwise
    assert not [text for text in outcome.failures if not text.startswith(timed)]
