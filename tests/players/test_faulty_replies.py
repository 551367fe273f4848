"""Replies that are not what they should be, from a real server on loopback."""

import asyncio
import json
import math
import ssl
from typing import Any

import httpx2
import pytest
from openai_server import Fail, OpenAIServer, Raw, Say, completion

from equipoise.errors import BudgetSpent, ConfigError, ModelError
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.server_reply import (
    LARGEST_COUNT,
    UnusableReplyError,
    Usage,
    decode,
    read_reply,
    read_usage,
)
from equipoise.system.addresses import machine
from equipoise.system.http_client import BoundedClient, ReplyTooLongError
from equipoise.types import View, user

HUGE = 10**30
COUNTS = ("7", [7], {}, None, True, math.nan, math.inf, -1, HUGE, 10**400, 2.5)


def views(*texts):
    return [View((user(text),)) for text in texts]


def echo(body):
    return body["messages"][-1]["content"]


def reply(text: Any = "fine", *, choice=None, usage=None, **message):
    """The JSON of a reply, as a server's handler would write it."""
    first = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    counts = {"prompt_tokens": 10, "completion_tokens": 5}
    return {"choices": [first | (choice or {})], "usage": counts if usage is None else usage}


def raw(value) -> Raw:
    return Raw(json.dumps(value).encode())


@pytest.fixture
def opened(openai_server):
    actors = []

    def make(resources=None, **settings):
        player = Endpoint.model_validate(
            {"base_url": openai_server.url, "model": "tiny", "retries": 1, **settings}
        )
        actors.append(player.open(None, resources or Resources()))
        return actors[-1]

    yield make
    for actor in actors:
        actor.close()


# -- field by field


def test_counts_that_cannot_be_are_not_stated():
    for usage in ("many", 7, [], math.nan, None, {"prompt_tokens": {}}):
        assert read_usage(usage) == Usage(), usage
    for count in COUNTS:
        assert read_usage({"prompt_tokens": count, "completion_tokens": 3}) == Usage(None, 3), count
    assert read_usage({"prompt_tokens": 10.0, "completion_tokens": 0}) == Usage(10, 0)
    assert read_usage({"prompt_tokens": LARGEST_COUNT}).prompt_tokens == LARGEST_COUNT


def test_the_reasons_for_an_end():
    for given, finish in (
        ("stop", "stop"),
        ("EOS", "stop"),
        (None, "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
    ):
        assert read_reply(reply(choice={"finish_reason": given})).finish == finish
    for given in ("abort", "error", "cancelled", "?", 3, ["stop"], {}):
        with pytest.raises(UnusableReplyError, match="ended the answer by") as caught:
            read_reply(reply(choice={"finish_reason": given}))
        assert caught.value.usage == Usage(10, 5)


def test_contents():
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert read_reply(reply(parts)).text == "ab"
    assert read_reply(reply("half \ud83d of it")).text == "half \ufffd of it"
    assert read_reply(decode(rb'{"choices":[{"message":{"content":"\ud83d\ude00"}}]}'))
    for content in (7, True, {"a": 1}, ["a"], [{"type": "text"}], [{"text": 1}, 2]):
        with pytest.raises(UnusableReplyError, match=r"the message's content"):
            read_reply(reply(content))


@pytest.mark.parametrize(
    "value", [3, "x", None, [], {}, {"choices": 3}, {"choices": [3]}, {"choices": [{}]}], ids=repr
)
def test_no_choice(value):
    with pytest.raises(UnusableReplyError, match="no choice with a message"):
        read_reply(value)


def test_log_probabilities_count_only_where_they_are_wanted():
    def with_tokens(*values):
        tokens = [{"logprob": value} for value in values]
        return reply(choice={"logprobs": {"content": tokens}})

    assert read_reply(with_tokens(-1, -0.5, 1e-6), logprobs=True).logprobs == (-1, -0.5, 0)
    assert read_reply(reply(choice={"logprobs": None}), logprobs=True).logprobs == ()
    for value in (None, "-1", True, math.nan, -math.inf, -HUGE, 2.0, 10**400, [1]):
        faulty = with_tokens(-1, value)
        assert read_reply(faulty).logprobs == ()
        with pytest.raises(UnusableReplyError, match="log-probabilit"):
            read_reply(faulty, logprobs=True)
    for tokens in (3, "x", [3], {"content": 3}, {"content": {}}):
        with pytest.raises(UnusableReplyError, match="log-probabilit"):
            read_reply(reply(choice={"logprobs": tokens}), logprobs=True)


def test_json_that_is_too_deep_or_none():
    deep = b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(UnusableReplyError, match="nested too deeply"):
        decode(deep)
    for depth in range(800, 1000, 7):  # as deep as can be read, but not shown
        error = b"[" * depth + b"]" * depth
        with pytest.raises(UnusableReplyError):
            read_reply(decode(b'{"error": ' + error + b"}"))
    for body in (b"", b"\xff\xfe", b"<html>", b"1" * 10_000):
        with pytest.raises(UnusableReplyError):
            read_reply(decode(body))


# -- what a row comes to


FAULTS = {
    "content a number": reply(7),
    "content an object": reply({"a": 1}),
    "abort": reply("half an ans", choice={"finish_reason": "abort"}),
    "finish a list": reply(choice={"finish_reason": ["stop"]}),
    "no choices": {"choices": [], "usage": {"prompt_tokens": 10}},
    "an error": {"error": {"message": [[["odd"]]]}},
    "a list": [1, 2],
}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_faulty_row_is_an_error_move_and_spares_the_others(openai_server, opened, fault):
    openai_server.answer = lambda body: (
        raw(FAULTS[fault]) if echo(body) == "bad" else Say(echo(body))
    )
    bad, good = opened().act(views("bad", "good"), [1, 2])
    assert (bad.text, bad.finish, good.text) == ("", "error", "good")
    assert "not a chat completion" in bad.error
    assert [echo(body) for body in openai_server.bodies()].count("bad") == 2


def test_odd_counts_neither_fail_a_row_nor_stop_the_account(openai_server, opened, tmp_path):
    openai_server.answer = lambda body: raw(
        reply(
            echo(body),
            usage={
                "prompt_tokens": COUNTS[int(echo(body))],
                "completion_tokens": COUNTS[-1 - int(echo(body))],
            },
        )
    )
    texts = [str(i) for i in range(len(COUNTS))]
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        moves = opened(Resources(ledger)).act(views(*texts), range(len(COUNTS)))
        assert [move.text for move in moves] == texts
        assert all(move.prompt_tokens == 0 for move in moves)
        assert ledger.spent("tiny").calls == len(COUNTS)
        assert ledger.spent("tiny").tokens == 0


def test_tokens_that_a_server_forgets_to_count_are_charged_at_their_most(openai_server, opened):
    openai_server.script(Say("a"), Say("b", usage=None))
    prices = {"input": 1e6, "output": 1e6}
    actor = opened(prices=prices, max_new_tokens=7, concurrency=1)
    first, second = actor.act(views("x", "y"), [1, 2])
    assert first.cost == 15
    assert (second.text, second.completion_tokens) == ("b", 0)
    assert second.cost == 1 + 16 + 7  # a token a byte, the template's, the answer's
    openai_server.script(Say(usage=None))
    with pytest.raises(ModelError, match="does not say how many tokens"):
        opened(prices=prices).act(views("z"), [3])


def test_a_reply_that_broke_off_is_paid_and_asked_for_again_within_the_budget(
    openai_server, opened, tmp_path
):
    aborted = raw(reply("half", choice={"finish_reason": "abort"}))
    openai_server.script(aborted, aborted, "whole")
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        resources = Resources(ledger)
        with pytest.raises(BudgetSpent):
            opened(resources, budget={"calls": 2}, retries=5).act(views("a"), [1])
        assert ledger.spent("tiny").calls == len(openai_server.requests) == 2
        (move,) = opened(resources, retries=5).act(views("a"), [1])
        assert (move.text, move.finish) == ("whole", "stop")
        assert (ledger.spent("tiny").calls, ledger.spent("tiny").tokens) == (3, 45)


def test_a_reply_is_read_no_further_than_its_longest(openai_server, opened):
    openai_server.answer = lambda body: (
        Say("x" * 300_000) if echo(body) == "long" else Fail(400, "y" * 300_000)
    )
    long, refused = opened(longest_reply=100_000).act(views("long", "b"), [1, 2])
    assert long.error == "tiny: the reply is longer than 100000 bytes"
    assert refused.error.startswith("tiny: HTTP 400: ")
    assert len(refused.error) < 400
    assert len(openai_server.requests) == 2
    assert len(opened(longest_reply=10**6).act(views("long"), [1])[0].text) == 300_000


def test_halves_of_characters_reach_neither_the_ledger_nor_the_server(
    openai_server, opened, tmp_path
):
    openai_server.script(raw(reply("half \ud83d", choice={"index": 0})))
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        (move,) = opened(Resources(ledger)).act(views("ask \udc00"), [1])
    assert move.text == "half \ufffd"
    assert echo(openai_server.bodies()[0]) == "ask \ufffd"


# -- where the key goes


@pytest.fixture
def elsewhere():
    """A second server, that nobody named as an endpoint."""
    server = OpenAIServer()
    yield server
    server.close()


@pytest.mark.long
def test_a_proxy_of_the_environment_is_used_only_where_it_is_wanted(
    openai_server, elsewhere, opened, monkeypatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, elsewhere.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    opened().act(views("a"), [1])
    assert (len(openai_server.requests), len(elsewhere.requests)) == (1, 0)
    with machine(proxy="environment"):
        opened().act(views("a"), [1])
    with machine(proxy=elsewhere.url.removesuffix("/v1")):
        opened().act(views("a"), [1])
    assert (len(openai_server.requests), len(elsewhere.requests)) == (1, 2)
    assert elsewhere.requests[0].path.startswith(openai_server.url)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_carries_the_key_nowhere(openai_server, elsewhere, opened, monkeypatch, status):
    monkeypatch.setenv("EQUIPOISE_TEST_KEY", "s3cret-key")
    there = f"{elsewhere.url}/chat/completions"
    openai_server.answer = lambda body: Fail(status, "there", location=there)
    (move,) = opened(api_key_env="EQUIPOISE_TEST_KEY").act(views("a"), [1])
    assert move.error == f"tiny: HTTP {status}: there"
    assert elsewhere.requests == []


def test_an_answer_that_repeats_the_key_is_kept_without_it(openai_server, opened, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_TEST_KEY", "s3cret-key-of-many-letters")
    openai_server.answer = lambda body: "it is s3cret-key-of-many-letters!"
    (move,) = opened(api_key_env="EQUIPOISE_TEST_KEY").act(views("a"), [1])
    assert move.text == "it is [key]!"


@pytest.mark.parametrize(
    "form",
    [
        lambda key: key[::-1],
        lambda key: key.upper(),
        lambda key: f"{key[:9]}\n{key[9:]}",
        lambda key: "\u200b".join(key),
        lambda key: " ".join(key),
        lambda key: "-".join(reversed(key)),
        lambda key: f"{key[:9]}' + '{key[9:]}",
    ],
)
def test_nor_is_a_key_kept_in_pieces_or_backwards(openai_server, opened, monkeypatch, form):
    key = "s3cret-key-of-many-letters"
    monkeypatch.setenv("EQUIPOISE_TEST_KEY", key)
    openai_server.answer = lambda body: f"it is {form(key)}!"
    (move,) = opened(api_key_env="EQUIPOISE_TEST_KEY").act(views("a"), [1])
    assert move.text == "it is [key]!"
    openai_server.answer = lambda body: Fail(400, f"{form(key)} is odd")
    (move,) = opened(api_key_env="EQUIPOISE_TEST_KEY").act(views("a"), [1])
    assert move.error == "tiny: HTTP 400: [key] is odd"


def test_a_servers_refusal_is_shown_to_python_without_what_a_terminal_obeys(openai_server, opened):
    words = "bad \x1b[31mkey\x1b[0m \u202eyek\u202c \u200f\x07"
    openai_server.answer = lambda body: Fail(401, words)
    with pytest.raises(ModelError) as refused:
        opened().act(views("a"), [1])
    assert "HTTP 401: bad ␛[31mkey␛[0m �yek� ␇" in str(refused.value)
    openai_server.answer = lambda body: Fail(400, words)
    (move,) = opened().act(views("a"), [1])
    assert move.error == "tiny: HTTP 400: bad ␛[31mkey␛[0m �yek� ␇"


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", "a\x00b"])
def test_what_can_be_no_key_is_refused_and_not_repeated(opened, monkeypatch, key):
    monkeypatch.setattr("os.environ", {"EQUIPOISE_TEST_KEY": key})
    with pytest.raises(ConfigError, match="character that no key has") as caught:
        opened(api_key_env="EQUIPOISE_TEST_KEY")
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prices": {"input": math.inf, "output": 1}}, "finite"),
        ({"temperature": math.nan}, "finite|greater"),
        ({"extra_body": {"min_p": math.nan}}, "not JSON compliant"),
    ],
)
def test_settings_that_no_request_can_carry(settings, message):
    plain = {"kind": "endpoint", "base_url": "http://host/v1", "model": "m"}
    with pytest.raises(ValueError, match=message) as caught:
        Player.build(plain | settings)
    assert "secret" not in str(caught.value)


def test_the_server_of_these_tests_gives_whole_replies():
    """`reply` above has the form of the server's own."""
    whole = completion(Say(), {"model": "tiny"})
    assert read_reply(whole) == read_reply(reply())


class Pieces(httpx2.AsyncByteStream):
    """A body of pieces of four bytes."""

    closed = False

    def __init__(self, count):
        self.count = count

    async def __aiter__(self):
        for _ in range(self.count):
            yield b"abcd"

    async def aclose(self):
        self.closed = True


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_reads_no_more_than_it_may(stream, monkeypatch):
    """Refusals are cut, whatever they are to be; answers that are too long are none."""
    given = {}

    def answer(request):
        headers = {"x-mine": "1", "content-length": str(4 * given["pieces"])}
        return httpx2.Response(given["status"], headers=headers, stream=Pieces(given["pieces"]))

    async def ask(status, pieces, longest=12):
        given.update(status=status, pieces=pieces)
        client = BoundedClient("http://127.0.0.1:1", longest=longest)
        client._transport = httpx2.MockTransport(answer)
        client._mounts = {}
        request = client.build_request("GET", "http://127.0.0.1:1/")
        reply = await client.send(request, stream=stream)
        return reply, await reply.aread()

    reply, body = asyncio.run(ask(200, 3))
    assert body == b"abcd" * 3
    assert reply.headers["x-mine"] == "1"
    with pytest.raises(ReplyTooLongError, match="longer than 12 bytes"):
        asyncio.run(ask(200, 4))
    reply, body = asyncio.run(ask(500, 20_000))
    assert (reply.status_code, len(body)) == (500, 64 * 1024)
    reply, body = asyncio.run(ask(500, 4))
    assert body == b"abcd" * 4
    assert reply.headers["content-length"] == "16"


def test_what_a_failed_answer_took_is_counted_where_the_server_says_it(opened, openai_server):
    openai_server.answer = lambda body: (
        raw({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
        if echo(body) == "counted"
        else raw({"choices": []})
    )
    counted, silent = opened(retries=0).act(views("counted", "silent"), [1, 2])
    assert counted.error
    assert silent.error
    assert counted.text == silent.text == ""
    assert (counted.prompt_tokens, counted.completion_tokens) == (10, 5)
    assert (silent.prompt_tokens, silent.completion_tokens, silent.cost) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("url", "mode"), [("https://a.example", ssl.CERT_REQUIRED), ("http://a.example", ssl.CERT_NONE)]
)
def test_who_answers_over_tls_has_to_prove_who_it_is(url, mode):
    transport = BoundedClient(url, longest=10)._transport
    assert transport._pool._ssl_context.verify_mode is mode  # pyright: ignore
