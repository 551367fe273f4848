"""Requests to servers: pauses, retries, and what a failure of every request calls for."""

import asyncio
import email.utils
from types import SimpleNamespace

import httpx2
import pytest
from openai_server import Raw

from equipoise.players import requests
from equipoise.players.endpoint import Endpoint
from equipoise.players.requests import Connection, Failure, configuration_fault, set_within
from equipoise.system import http_bounds
from equipoise.system.http_bounds import pause_after, retry_after
from equipoise.system.http_client import ReplyTooLongError


def endpoint(**settings) -> Endpoint:
    return Endpoint.model_validate({"base_url": "http://127.0.0.1:1", "model": "tiny", **settings})


def test_pauses_grow_up_to_the_longest(monkeypatch):
    monkeypatch.setattr(http_bounds.random, "uniform", lambda low, high: (low, high))
    longest = [pause_after(n) for n in (1, 2, 3, 6, 7, 8, 500)]
    assert longest == [(0, 0.5), (0, 1), (0, 2), (0, 16), (0, 30), (0, 30), (0, 30)]


def test_when_to_come_again(monkeypatch):
    now = 1_700_000_000.0
    monkeypatch.setattr(http_bounds.time, "time", lambda: now)
    for value, seconds in (("3", 3.0), ("-3", 0.0), ("1.5", 1.5), ("soon", None), ("", None)):
        assert retry_after({"retry-after": value}) == seconds
    for ahead, seconds in ((90, 90.0), (-90, 0.0)):
        date = email.utils.formatdate(now + ahead, usegmt=True)
        assert retry_after({"retry-after": date}) == seconds
    assert retry_after({}) is None


def test_an_event_is_waited_for_so_long():
    async def both():
        event = asyncio.Event()
        late = await set_within(event, 0.01)
        event.set()
        return late, await set_within(event, 10)

    assert asyncio.run(both()) == (False, True)


@pytest.mark.parametrize(
    ("failures", "retries", "asked", "slept"),
    [
        ([], 2, 1, []),
        ([Failure("a", transient=True)] * 2, 2, 3, [1.0, 2.0]),
        ([Failure("a", transient=True)] * 9, 2, 3, [1.0, 2.0]),
        ([Failure("a", transient=True)] * 9, 0, 1, []),
        ([Failure("a")], 2, 1, []),
        ([Failure("a", transient=True, wait=7.0)], 2, 2, [7.5]),
        ([Failure("a", transient=True, wait=599.0)], 2, 2, [599.5]),
        ([Failure("a", transient=True, wait=599.5)], 2, 2, [600.0]),
        ([Failure("a", transient=True, wait=599.75)], 2, 1, []),
    ],
)
def test_failures_that_may_pass_are_tried_again(monkeypatch, failures, retries, asked, slept):
    """With a little of a pause of one's own behind the server's; none that asks for ten minutes."""
    monkeypatch.setattr(requests, "pause_after", float)
    pauses, attempts, left = [], [], list(failures)

    async def within(event, seconds):
        pauses.append(seconds)
        return False

    async def attempt():
        attempts.append(1)
        return left.pop(0) if left else "fine"

    monkeypatch.setattr(requests, "set_within", within)
    connection = Connection(endpoint(retries=retries))
    result = asyncio.run(connection.retry(attempt, asyncio.Event()))
    assert (len(attempts), pauses) == (asked, slept)
    assert result == ("fine" if len(failures) < asked else failures[asked - 1])


def test_a_run_that_stops_tries_no_more():
    async def stopped():
        stop = asyncio.Event()
        stop.set()
        tries = []

        async def attempt():
            tries.append(1)
            return Failure("busy", transient=True, wait=100.0)

        found = await Connection(endpoint()).retry(attempt, stop)
        return found, len(tries)

    found, tries = asyncio.run(stopped())
    assert found.message == "busy"
    assert tries == 1


def test_what_is_billed():
    assert Failure("a", 400).refused
    assert Failure("a", 499).refused
    assert not (Failure("a").refused or Failure("a", 408).refused or Failure("a", 500).refused)
    assert str(Failure("a", 400)) == "HTTP 400: a"
    assert str(Failure("a")) == "a"


def test_a_refusal_is_read():
    def error(status, body, **more):
        response = SimpleNamespace(headers={"retry-after": "2"}, text="plain")
        facts = {"code": None, "param": None, **more}
        return SimpleNamespace(
            status_code=status, body=body, response=response, message="m", **facts
        )

    connection = Connection(endpoint())
    found = connection._refusal(error(429, {"message": "slow  down"}, code="c", param="top_p"))
    assert found == Failure("slow down", 429, True, 2.0, code="c", field="top_p")
    assert connection._refusal(error(400, None)) == Failure("plain", 400, False, 2.0)
    passing = [s for s in range(400, 600) if connection._refusal(error(s, None)).transient]
    assert passing == [408, 409, 425, 429, 500, *range(502, 600)]


def test_messages_are_one_short_line_without_the_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sesame-sesame-sesame")
    connection = Connection(endpoint(api_key_env="MY_KEY"))
    assert connection._clean("the key\n sesame-sesame-sesame\tis bad \ud800") in (
        "the key [key] is bad \ufffd",
        "the key [key] is bad ?",
    )
    assert connection._clean("a" * 300) == "a" * 300
    assert connection._clean("a" * 301) == "a" * 300 + "…"
    assert len(connection._clients) == 1
    several = Connection(endpoint(replicas=["http://127.0.0.1:2"]))
    urls = [str(client.base_url) for client in several._clients]
    assert urls == ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    old = several._clients
    several.renew()
    assert several._clients[0] is not old[0]


@pytest.mark.parametrize(
    ("failure", "fault"),
    [
        (Failure("no", unreachable=True), "cannot be reached (no); is the server running"),
        (Failure("no", 401), "the server refuses the key (HTTP 401: no); check api_key_env: none"),
        (Failure("no", 403), "the server refuses the key (HTTP 403: no); check api_key_env: none"),
        (Failure("your input was flagged", 403), None),
        (Failure("no", 402), "the account has no credit left (HTTP 402: no)"),
        (Failure("no", 429, code="insufficient_quota"), "the account has no credit left"),
        (Failure("no", 404), "no model 'tiny' there, or base_url lacks its /v1 (HTTP 404: no)"),
        (Failure("model 'tiny' not found", 400), "no model 'tiny' there (HTTP 400: model"),
        (Failure("tiny is not a valid model", 422), "no model 'tiny' there (HTTP 422: tiny"),
        (Failure("model 'tiny' is tired", 400), None),
        (Failure("model 'other' not found", 400), None),
        (Failure("unknown field top_p", 400), "the server does not take 'top_p' (unknown field"),
        (Failure("seed: extra inputs", 422), "'seed' (seed: extra inputs); set send_seed: false"),
        (Failure("unsupported", 400, field="logprobs"), "(unsupported); set logprobs: false"),
        (Failure("no", 400, code="unknown_stop", field="stop"), "(no); set stop: []"),
        (Failure("unsupported max_tokens", 400), "choose the other max_tokens_field"),
        (Failure("unsupported top_k", 400), "(unsupported top_k); leave it out of extra_body"),
        (Failure("unsupported", 400, field="model"), None),
        (Failure("unknown top_pp", 400), None),
        (Failure("unknown field top_p", 500), None),
        (Failure("top_p too large", 400), None),
        (Failure("broken"), None),
    ],
)
def test_what_a_failure_of_every_request_calls_for(failure, fault):
    found = configuration_fault(endpoint(extra_body={"top_k": 3}), failure)
    assert (found is None) == (fault is None)
    assert (fault or "") in (found or "")


def test_the_variable_of_the_key_is_named(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sesame")
    found = configuration_fault(endpoint(api_key_env="MY_KEY"), Failure("no", 401))
    assert found is not None
    assert found.endswith("; check the variable MY_KEY")


def test_a_connection_that_was_lost_says_how():
    connection = Connection(endpoint(timeout=7))

    def lost(cause, message="it failed"):
        error = RuntimeError(message)
        error.__cause__ = cause
        return connection._lost_connection(error)

    assert lost(httpx2.ReadError("cut off")) == Failure("cut off", transient=True)
    assert lost(None) == Failure("it failed", transient=True)
    assert lost(None, "") == Failure("broken connection", transient=True)
    refused = Failure("no one", transient=True, unreachable=True)
    assert lost(httpx2.ConnectError("no one")) == refused
    assert lost(httpx2.ConnectTimeout("no one")) == refused
    assert lost(httpx2.ReadTimeout("slow")) == Failure("no answer within 7 s", transient=True)
    assert lost(ReplyTooLongError("too long")) == Failure("too long")


def test_a_reply_that_is_none_is_repeated_in_part(openai_server):
    openai_server.answer = lambda body: Raw(b'{"choices": [], "x": "' + b"a" * 9_000 + b'"}')
    connection = Connection(endpoint(base_url=openai_server.url))

    async def send():
        try:
            return await connection.send({"model": "tiny", "messages": []}, 0)
        finally:
            await connection.close()

    failure = asyncio.run(send())
    assert failure.transient
    assert failure.message.startswith("not a chat completion (")
    assert failure.message.endswith("a" * 100 + "…")
    assert len(failure.message) == 301
    assert len(openai_server.requests) == 1, "the client itself tries once"
