"""The protocol's shapes, one by one: errors, events, bodies that are read strictly, whole answers; and
who is let in.
"""

import asyncio
import json
from dataclasses import replace

import pytest

from equipoise import seeds
from equipoise.errors import ModelError
from equipoise.serve.app import AccessCheck
from equipoise.serve.asgi_endpoint import Limits, _as_problem, _timed_out
from equipoise.serve.engine import CallPart, EngineError, EngineRequest, Piece, Refused
from equipoise.serve.protocol import (
    Answer,
    Completion,
    Problem,
    Reply,
    SamplingRequest,
    TextFormat,
    check_most,
    check_unserved,
    json_logprob,
    read_object,
    validate_body,
)
from equipoise.system.addresses import is_loopback


def sent(work):
    """What a reply sends: the head's status and headers, the parts."""
    messages = []

    async def send(message):
        messages.append(message)

    asyncio.run(work(Reply(send)))
    head = messages[0]
    assert head["type"] == "http.response.start"
    headers = {name.decode(): value.decode() for name, value in head["headers"]}
    return head["status"], headers, messages[1:]


def test_a_whole_answer_and_an_error():
    status, headers, [body] = sent(lambda reply: reply.json({"a": "Ł"}, 201, {"x-a": "1"}))
    assert (status, body["body"]) == (201, '{"a":"Ł"}'.encode())
    assert headers == {"content-length": "10", "x-a": "1", "content-type": "application/json"}
    problem = Problem(429, "busy", "rate", "n", {"retry-after": "1"})
    status, headers, [body] = sent(lambda reply: reply.fail(problem))
    assert status == 429
    assert headers["retry-after"] == "1"
    error = {"message": "busy", "type": "rate_limit_error", "param": "n", "code": "rate"}
    assert json.loads(body["body"]) == {"error": error}
    kinds = {s: Problem(s, "", "").body()["error"]["type"] for s in (400, 401, 403, 499, 500, 503)}
    assert list(kinds.values()) == [
        *("invalid_request_error", "authentication_error", "permission_error"),
        *("invalid_request_error", "server_error", "overloaded_error"),
    ]


def test_a_stream_of_events_ends_with_its_mark_or_its_error():
    async def whole(reply):
        await reply.event({"a": 1})
        await reply.event({"b": 2})
        await reply.done()

    status, headers, parts = sent(whole)
    assert status == 200
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    texts = [part["body"] for part in parts]
    assert texts == [*(b'data: {"a":1}\n\n', b'data: {"b":2}\n\n', b"data: [DONE]\n\n", b"")]
    assert [part.get("more_body", False) for part in parts] == [True, True, True, False]

    async def broken(reply):
        await reply.event({"a": 1})
        await reply.fail(Problem(500, "no", "c"))

    _, _, [_, error, end] = sent(broken)
    assert b'"message":"no"' in error["body"]
    assert end == {"type": end["type"], "body": b""}


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (Problem(413, "a", "b", "c"), 413, "b", "c"),
        (Refused("a", "long", "messages"), 400, "long", "messages"),
        (EngineError("a"), 500, "engine_error", None),
        (ModelError("secret path"), 500, "engine_error", None),
    ],
)
def test_errors_of_ours_in_the_protocol(error, status, code, param):
    problem = _as_problem(error)
    assert (problem.status, problem.code, problem.param) == (status, code, param)
    assert "secret" not in str(problem)
    late = _timed_out("late")
    assert (late.status, late.code, late.headers) == (408, "timeout", {"x-should-retry": "false"})


@pytest.mark.parametrize("body", [b"{", b"[]", b"3", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_object(body):
    with pytest.raises(Problem, match="the body is not") as refused:
        read_object(body)
    assert (refused.value.status, refused.value.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("values", "param", "code"),
    [
        ({}, "model", "missing_required_parameter"),
        ({"model": 3}, "model", "invalid_type"),
        ({"model": "m", "temperature": 2.1}, "temperature", "invalid_value"),
        ({"model": "m", "top_k": -2}, "top_k", "invalid_value"),
        ({"model": "m", "min_p": 1.0}, "min_p", "invalid_value"),
        ({"model": "m", "repetition_penalty": 0.0}, "repetition_penalty", "invalid_value"),
        ({"model": "m", "presence_penalty": -2.1}, "presence_penalty", "invalid_value"),
        ({"model": "m", "seed": 2**63}, "seed", "invalid_value"),
        ({"model": "m", "n": 0}, "n", "invalid_value"),
        ({"model": "m", "stop": ["a"] * 17}, "stop", "invalid_value"),
        ({"model": "m", "stop": ["a", 3]}, "stop[1]", "invalid_type"),
        ({"model": "m", "response_format": {"type": "x"}}, "response_format.type", "invalid_value"),
    ],
)
def test_a_field_that_cannot_be_is_named(values, param, code):
    with pytest.raises(Problem) as refused:
        validate_body(SamplingRequest, values, frozenset({"type"}))
    problem = refused.value
    assert (problem.status, problem.param, problem.code) == (400, param, code)
    assert str(problem).startswith(f"'{param}': ")


def test_limits_are_within_what_is_taken():
    edge = {"temperature": 2, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 10}
    edge |= {"presence_penalty": -2, "frequency_penalty": 2, "seed": -(2**63), "n": 1}
    assert validate_body(SamplingRequest, {"model": "m", "stop": ["a"] * 16, **edge}).answers == 1
    check_most({"n": 3, "max_tokens": None}, 3)
    with pytest.raises(Problem, match="'n' is at most 3 here") as refused:
        check_most({"n": 4}, 3)
    assert refused.value.param == "n"
    unserved = {"suffix": ("",)}
    check_unserved({"suffix": "", "logit_bias": {}, "prompt_logprobs": None, "other": 1}, unserved)
    for name, value in (("suffix", "a"), ("logit_bias", {"1": 2}), ("prompt_logprobs", 0)):
        with pytest.raises(Problem, match=f"'{name}' is not supported here") as refused:
            check_unserved({name: value}, unserved)
        assert (refused.value.code, refused.value.param) == ("unsupported_value", name)
    assert Limits(answers=16, concurrency=4).answers_at_once == 4
    assert Limits(answers=2, concurrency=4).answers_at_once == 2


def test_a_clients_sampling_goes_over_the_players():
    player = EngineRequest((), temperature=0.7, top_k=40, max_tokens=9, stop=("x",))
    given = {"model": "m", "temperature": 0.0, "top_k": -1, "stop": "END"}
    request = SamplingRequest.model_validate(given)
    assert request.over(player, 5) == replace(
        player, seed=5, temperature=0.0, top_k=0, stop=("END",)
    )
    bare = SamplingRequest(model="m")
    assert bare.over(player, 5) == replace(player, seed=5, stop=())
    assert SamplingRequest(model="m", stop=["a", "b"]).over(player, 5).stop == ("a", "b")
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    formed = SamplingRequest.model_validate({"model": "m", "response_format": schema})
    assert formed.over(player, 5).response_format == schema
    text = SamplingRequest.model_validate({"model": "m", "response_format": {"type": "text"}})
    assert text.over(player, 5).response_format is None
    for odd in ({"type": "json_schema"}, {**schema, "type": "json_object"}):
        with pytest.raises(ValueError, match="the type json_schema needs the field"):
            TextFormat.model_validate(odd)
    assert SamplingRequest(model="m", seed=3).seed_or_fresh() == 3
    fresh = {bare.seed_or_fresh() for _ in range(9)}
    assert len(fresh) == 9
    assert all(0 <= seed < 2**63 for seed in fresh)
    three = SamplingRequest(model="m", n=3).repeat(replace(player, seed=5))
    children = [seeds.child(5, "answer", 1), seeds.child(5, "answer", 2)]
    assert [each.seed for each in three] == [5, *children]
    assert bare.repeat(player) == [player]
    counted = {"model": "m", "stream_options": {"include_usage": True}}
    assert SamplingRequest.model_validate(counted).counts_in_stream
    assert not bare.counts_in_stream


class Plain(Completion):
    """A completion of texts."""

    kind, event_kind, prefix = "whole", "part", "it"

    def take(self, number, piece):
        self.add(number, piece)
        return [self._event(number, {"text": piece.text}, None, piece.finish)]

    def _choice(self, number, answer):
        return {"index": number, "text": answer.text, "finish_reason": answer.finish}


PIECES = [(1, Piece("b", tokens=2)), (0, Piece("a", tokens=1)), (1, Piece("c", "stop", tokens=3))]


def completed(stream, **given):
    async def pieces():
        for each in PIECES:
            yield each

    made = Plain(**{"model": "m", "answers": 2, "prompt_tokens": 4, "count_in_stream": True} | given,
                 scored=False)  # fmt: skip
    return sent(lambda reply: made.send(pieces(), reply, stream=stream))[2]


def test_answers_as_one_body():
    [part] = completed(stream=False)
    body = json.loads(part["body"])
    assert body.pop("id").startswith("it-")
    assert body.pop("created") > 0
    assert body == {
        "model": "m",
        "object": "whole",
        "choices": [
            {"index": 0, "text": "a", "finish_reason": None},
            {"index": 1, "text": "bc", "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10},
    }
    [part] = completed(stream=False, prompt_tokens=None)
    assert json.loads(part["body"])["usage"] is None


@pytest.mark.parametrize("counts", [True, False])
def test_answers_as_events(counts):
    parts = completed(stream=True, count_in_stream=counts)
    events = [json.loads(part["body"][6:]) for part in parts[: 3 + counts]]
    assert [event["choices"][0]["text"] for event in events[:3]] == ["b", "a", "c"]
    first = events[2]["choices"][0]
    assert first == {"index": 1, "text": "c", "logprobs": None, "finish_reason": "stop"}
    assert all(("usage" in event) == counts for event in events)
    if counts:
        usage = {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}
        assert events[3]["choices"] == []
        assert events[3]["usage"] == usage
    assert parts[-2]["body"] == b"data: [DONE]\n\n"


def test_calls_are_put_together_from_their_parts():
    parts = [CallPart(1, "two", "b", "{"), CallPart(0, "one", "a", "{}"), CallPart(1, "", "", "}")]
    calls = Answer(calls=parts).tool_calls
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls] == [
        *(("one", "a", "{}"), ("two", "b", "{}"))
    ]
    assert all(call["type"] == "function" for call in calls)
    assert [json_logprob(p) for p in (None, -1.5, float("-inf"))] == [None, -1.5, -9999.0]


def let_in(token, path="/v1/models", **headers):
    """The status of the refusal, or None."""
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": pairs}
    through, refused = [], []

    async def app(*_):
        through.append(1)

    async def send(message):
        refused.append(message)

    asyncio.run(AccessCheck(app, token, frozenset({"/health"}))(scope, None, send))
    assert bool(through) != bool(refused)
    return refused[0]["status"] if refused else None


@pytest.mark.parametrize(
    ("header", "status"),
    [("Bearer sesame", None), ("bearer  sesame ", None), ("sesame", 401), ("Bearer no", 401), ("", 401)],
)  # fmt: skip
def test_a_token_lets_in(header, status):
    assert let_in("sesame", authorization=header) == status
    assert let_in("sesame", "/health") is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8000"}, None),
        ({"host": "127.0.0.9"}, None),
        ({"host": "[::1]:80", "origin": "http://localhost:3"}, None),
        ({"host": "example.com"}, 403),
        ({"host": "localhost", "origin": "https://example.com"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_without_a_token_pages_of_this_machine_alone(headers, status):
    assert let_in(None, **headers) == status
    assert is_loopback("::1")
    assert not is_loopback("10.0.0.1")
    assert not is_loopback("")
