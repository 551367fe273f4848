"""The engine behind which another server stands, against a real one on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from openai_server import Drop, Fail, OpenAIServer, Raw, Stream

from equipoise.errors import ConfigError, ModelError
from equipoise.players.endpoint import Endpoint
from equipoise.serve.engine import EngineError, EngineRequest, Piece, Refused
from equipoise.serve.upstream import CONTINUE, UpstreamEngine, _call_part
from equipoise.types import user

QUESTION = EngineRequest(
    (user("hello"),), seed=2**40 + 3, temperature=0.5, max_tokens=9, stop=("END",)
)


def player(server: OpenAIServer, **settings: Any) -> Endpoint:
    return Endpoint.model_validate(
        {"base_url": server.url, "model": "tiny", "retries": 2, **settings}
    )


def asked(endpoint: Endpoint, question: EngineRequest = QUESTION, **settings: Any) -> list[Piece]:
    async def go() -> list[Piece]:
        engine = UpstreamEngine(endpoint, **settings)
        try:
            return [piece async for piece in engine.generate(question)]
        finally:
            await engine.close()

    return asyncio.run(go())


def text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_an_answer_arrives_piece_by_piece_and_is_counted_as_the_server_counts(
    openai_server: OpenAIServer,
):
    openai_server.answer = lambda body: Stream(("Hel", "lo", " you"), usage=(10, 7))
    pieces = asked(player(openai_server, extra_body={"min_p": 0.1}))
    assert [piece.text for piece in pieces if piece.text] == ["Hel", "lo", " you"]
    assert pieces[-1].finish == "stop" and not any(piece.finish for piece in pieces[:-1])
    assert sum(piece.tokens for piece in pieces) == 7
    body = openai_server.bodies()[0]
    assert body["stream"] is True and body["max_tokens"] == 9 and body["temperature"] == 0.5
    assert (
        body["stop"] == ["END"]
        and body["seed"] == 3
        and body["min_p"] == 0.1
        and "top_k" not in body
    )


def test_a_server_that_counts_nothing_has_its_chunks_counted(openai_server: OpenAIServer):
    openai_server.answer = lambda body: Stream(("a", "b"), "length", usage=None)
    pieces = asked(player(openai_server))
    assert sum(piece.tokens for piece in pieces) == 2 and pieces[-1].finish == "length"


def test_half_a_character_waits_for_its_other_half_or_is_replaced(openai_server: OpenAIServer):
    openai_server.answer = lambda body: Stream(("a\ud83d", "\ude00b", "\ude00", "c\ud83d"))
    pieces = asked(player(openai_server))
    assert text(pieces) == "a\N{GRINNING FACE}b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"
    call = {"index": 0, "id": "1", "function": {"name": "f", "arguments": "\ud83d"}}
    assert _call_part(call).arguments == "\N{REPLACEMENT CHARACTER}"


def test_settings_that_a_service_does_not_take_are_not_sent(openai_server: OpenAIServer):
    asked(
        player(
            openai_server,
            temperature=None,
            top_p=None,
            send_seed=False,
            max_tokens_field="max_completion_tokens",
        )
    )
    body = openai_server.bodies()[0]
    assert (
        not {"temperature", "top_p", "seed", "max_tokens"} & body.keys()
        and body["max_completion_tokens"] == 9
    )


def test_a_begun_answer_is_gone_on_with_by_the_convention(openai_server: OpenAIServer):
    openai_server.answer = lambda body: Stream(("lo",))
    question = EngineRequest((user("hi"),), prefix="Hel")
    assert text(asked(player(openai_server), question)) == "lo"
    body = openai_server.bodies()[0]
    assert body["messages"][-1] == {"role": "assistant", "content": "Hel"}
    assert body["continue_final_message"] is True and body["add_generation_prompt"] is False


@pytest.mark.parametrize(
    "pieces, rest",
    [(("Hel", "lo"), "lo"), (("H", "ello you"), "lo you"), (("lo",), "lo"), (("He",), "He")],
)
def test_a_server_without_the_convention_is_asked_in_words(
    openai_server: OpenAIServer, pieces: tuple, rest: str
):
    openai_server.answer = lambda body: Stream(pieces)
    assert (
        text(
            asked(
                player(openai_server), EngineRequest((user("hi"),), prefix="Hel"), continues=False
            )
        )
        == rest
    )
    body = openai_server.bodies()[0]
    assert (
        body["messages"][-1] == {"role": "user", "content": CONTINUE}
        and "continue_final_message" not in body
    )


@pytest.mark.parametrize("asks", [{"prompt_ids": (1, 2)}, {"logprobs": 1}])
def test_what_cannot_be_passed_on_is_refused_and_not_sent(openai_server: OpenAIServer, asks: Any):
    with pytest.raises(Refused, match="are not passed on to the server behind this one"):
        asked(player(openai_server), replace(QUESTION, **asks))
    assert not openai_server.requests


def test_a_failure_before_the_first_word_is_tried_again(openai_server: OpenAIServer):
    openai_server.script(Fail(429, retry_after="0"), Drop(), Stream(("fine",)))
    assert text(asked(player(openai_server))) == "fine"
    assert len(openai_server.requests) == 3


@pytest.mark.parametrize(
    "step, kind, words",
    [
        (Fail(401, "Incorrect API key: s3cret-key"), ModelError, "refuses the key"),
        (Fail(404, "no such model"), ModelError, "no model 'tiny' there"),
        (
            Fail(400, "too long", code="context_length_exceeded", param="messages"),
            Refused,
            "too long",
        ),
        (
            Fail(400, "Unknown field: continue_final_message"),
            ModelError,
            "cannot continue an answer",
        ),
        (Fail(500, "a fault; your key is s3cret-key"), EngineError, "HTTP 500"),
        (Raw(b"data: {no json\n\n", "text/event-stream"), EngineError, "not a stream"),
        (Raw(b"", "text/event-stream"), EngineError, "ended before"),
        (
            Raw(b'data: {"error": {"message": "out of memory"}}\n\n', "text/event-stream"),
            EngineError,
            "out of memory",
        ),
        (Drop(), EngineError, "tiny"),
    ],
)
def test_a_failure_is_one_clear_message_without_the_key(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, step: Any, kind: type, words: str
):
    monkeypatch.setenv("UPSTREAM_KEY", "s3cret-key")
    openai_server.answer = lambda body: step
    with pytest.raises(kind, match=words) as caught:
        asked(player(openai_server, api_key_env="UPSTREAM_KEY", retries=1))
    assert "s3cret-key" not in str(caught.value) and "\n" not in str(caught.value)
    assert openai_server.requests[0].headers["authorization"] == "Bearer s3cret-key"


def test_nobody_there_is_said(openai_server: OpenAIServer):
    endpoint = player(openai_server, retries=0)
    openai_server.close()
    with pytest.raises(ModelError, match="cannot be reached"):
        asked(endpoint)


@pytest.mark.parametrize(
    "broken", [Stream(("Hel",), breaks=True), Stream(("Hel",), error="out of memory")]
)
def test_an_answer_that_breaks_off_says_so_and_is_not_begun_anew(
    openai_server: OpenAIServer, broken: Stream
):
    openai_server.answer = lambda body: broken
    pieces = asked(player(openai_server))
    assert (
        text(pieces) == "Hel" and pieces[-1].finish == "error" and "broke off" in pieces[-1].error
    )
    assert len(openai_server.requests) == 1


def test_a_withheld_answer_is_an_error(openai_server: OpenAIServer):
    openai_server.answer = lambda body: Stream((), "content_filter")
    assert "filter" in asked(player(openai_server))[-1].error


def test_closing_the_answer_closes_the_stream_upstream(openai_server: OpenAIServer):
    openai_server.answer = lambda body: Stream(("word ",) * 2000, gap=0.002)

    async def go() -> bool:
        engine = UpstreamEngine(player(openai_server, concurrency=1))
        answer = engine.generate(QUESTION)
        await anext(answer)
        await answer.aclose()
        left = await asyncio.to_thread(openai_server.left.wait, 2)
        openai_server.answer = lambda body: Stream(("next",))
        free = [piece async for piece in engine.generate(QUESTION)]  # the place is free again
        await engine.close()
        return left and text(free) == "next"

    assert asyncio.run(go())


def test_no_more_than_concurrency_are_in_flight(openai_server: OpenAIServer):
    openai_server.answer = lambda body: Stream(("a",))

    async def go() -> None:
        engine = UpstreamEngine(player(openai_server, concurrency=2))
        answers = await asyncio.gather(*(_all(engine.generate(QUESTION)) for _ in range(8)))
        assert [text(pieces) for pieces in answers] == ["a"] * 8
        await engine.close()

    asyncio.run(go())
    assert openai_server.most_at_once <= 2


async def _all(pieces: AsyncIterator[Piece]) -> list[Piece]:
    return [piece async for piece in pieces]


def test_a_budget_is_not_a_servers_to_keep(openai_server: OpenAIServer):
    with pytest.raises(ConfigError, match="budget"):
        UpstreamEngine(player(openai_server, budget={"calls": 3}))


def test_a_clients_sampling_comes_before_the_players_further_fields():
    settings = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    endpoint = Endpoint.model_validate({**settings, "extra_body": {"top_k": 20, "min_p": 0.1}})
    body = UpstreamEngine(endpoint)._body(replace(QUESTION, top_k=5))
    assert (body["top_k"], body["min_p"]) == (5, 0.1)


def test_a_pools_servers_share_the_questions_as_in_a_run():
    with closing(OpenAIServer()) as first, closing(OpenAIServer()) as second:
        both = Endpoint.model_validate({"base_url": [first.url, second.url], "model": "tiny"})
        for i in range(12):
            asked(both, replace(QUESTION, messages=(user(f"Question {i}?"),)))
        counts = [len(server.bodies()) for server in (first, second)]
    assert sum(counts) == 12 and min(counts) > 1
