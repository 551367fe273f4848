"""The server over HTTP: the official client and curl are answered, and every misuse with the
protocol's own error.
"""

import asyncio
import json
import shutil
import socket
import subprocess
import threading

import httpx
import pytest

from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.engine import EngineError, Piece, Refused
from equipoise.types import View, user

ASK = {"model": "talker", "messages": [{"role": "user", "content": "How are you?"}]}


def refused(response: httpx.Response, status: int, code: str, param: str | None = None) -> str:
    """The message of an error in the protocol's shape."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]
    assert "Traceback" not in response.text
    assert ".py" not in response.text
    return error["message"]


@pytest.mark.long
def test_the_official_client_is_answered_as_the_player_answers(model_folder, serving):
    from openai import OpenAI

    player, resources = (
        Local(model=str(model_folder("llama")), max_new_tokens=16, temperature=0.9),
        Resources(),
    )
    actor = player.open(None, resources)
    with (
        serving(Catalogue.of_player("tiny", player)) as address,
        OpenAI(base_url=address.url, api_key="secret", max_retries=0) as client,
    ):
        assert [model.id for model in client.models.list()] == ["tiny"]
        assert client.models.retrieve("tiny").id == "tiny"
        for seed in range(3):
            move = actor.act([View((user("Why?"),))], [seed])[0]
            whole = client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "Why?"}], seed=seed
            )
            assert whole.choices[0].message.content == move.text
            assert whole.choices[0].finish_reason == move.finish
            assert whole.usage is not None
            assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (
                move.prompt_tokens,
                move.tokens,
            )
            chunks = list(
                client.chat.completions.create(
                    model="tiny",
                    messages=[{"role": "user", "content": "Why?"}],
                    seed=seed,
                    stream=True,
                    stream_options={"include_usage": True},
                )
            )
            assert (
                "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == move.text
            )
            assert chunks[-2].choices[0].finish_reason == move.finish
            assert chunks[-1].usage == whole.usage
        several = client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Why?"}], seed=2, n=3
        )
        texts = [choice.message.content for choice in several.choices]
        assert texts[0] == whole.choices[0].message.content
        assert len(set(texts)) == 3
        long = httpx.post(
            f"{address.url}/chat/completions",
            headers={"authorization": "Bearer secret"},
            json={"model": "tiny", "messages": [{"role": "user", "content": "word " * 900}]},
        )
        refused(long, 400, "context_length_exceeded", "messages")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_curl_is_answered(serving, fake_engine, fake_catalogue):
    def curl(*arguments: str) -> str:
        return subprocess.run(
            ["curl", "-sS", *arguments], capture_output=True, text=True, check=True, timeout=30
        ).stdout

    with serving(fake_catalogue({"talker": fake_engine()})) as address:
        key, url = (("-H", "Authorization: Bearer secret"), f"{address.url}/chat/completions")
        assert (
            json.loads(curl(*key, url, "-d", json.dumps(ASK)))["choices"][0]["message"]["content"]
            == "one two three"
        )
        lines = curl("-N", *key, url, "-d", json.dumps(ASK | {"stream": True})).split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        assert all(line.startswith("data: {") for line in lines[:-2])
        events = [json.loads(line[6:]) for line in lines[:-2]]
        assert [e["choices"][0]["delta"].get("content", "") for e in events] == [
            "",
            "one ",
            "two ",
            "three",
            "",
        ]
        assert {e["object"] for e in events} == {"chat.completion.chunk"}
        assert len({e["id"] for e in events}) == 1
        assert "usage" not in events[0]
        for trick in (
            "/models/../../etc/passwd",
            "/models/%2e%2e/%2e%2e/etc/passwd",
            "/../health",
            "//models",
            "/models/",
        ):
            error = json.loads(curl(*key, "--path-as-is", address.url + trick))["error"]
            assert error["code"] in ("model_not_found", "not_found"), trick
        assert json.loads(curl(f"{address.url}/../health"))["status"] == "ok"


def test_each_answer_has_the_settings_that_were_asked_for(serving, fake_engine, fake_catalogue):
    engine = fake_engine()
    with serving(fake_catalogue({"talker": engine})) as address:
        given = {
            "temperature": 0,
            "top_p": 0.5,
            "top_k": -1,
            "max_tokens": 7,
            "stop": ["a", "b"],
            "seed": -3,
        }
        chat = [
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "How "}, {"type": "text", "text": "so?"}],
            },
            {"role": "assistant", "content": "It is"},
        ]
        body = {
            "model": "talker",
            "messages": chat,
            **given,
            "user": "me",
            "metadata": {"a": 1},
            "tools": [],
        }
        assert address.post(body | {"continue_final_message": True}).status_code == 200
        asked = engine.asked[0]
        assert [(m.role, m.content) for m in asked.messages] == [
            ("system", "Be brief."),
            ("user", "How so?"),
        ]
        assert (asked.prefix, asked.temperature, asked.top_p, asked.top_k) == ("It is", 0.0, 0.5, 0)
        assert (asked.max_tokens, asked.stop, asked.seed) == (7, ("a", "b"), -3)
        address.post(ASK | {"stop": "x", "max_completion_tokens": 9, "max_tokens": None})
        address.post(ASK)
        assert (engine.asked[1].stop, engine.asked[1].max_tokens, engine.asked[2].max_tokens) == (
            ("x",),
            9,
            50,
        )
        assert engine.asked[1].seed != engine.asked[2].seed, (
            "without a seed every request has its own dice"
        )


BAD = [
    ({"messages": []}, "invalid_value", "messages"),
    ({"messages": "hi"}, "invalid_type", "messages"),
    ({"messages": [{"role": "user"}]}, "missing_required_parameter", "messages[0].content"),
    ({"messages": [{"role": "wizard", "content": "a"}]}, "invalid_value", "messages[0].role"),
    ({"messages": [{"role": "user", "content": None}]}, "invalid_type", "messages[0].content"),
    ({"model": 3}, "invalid_type", "model"),
    ({"temperature": "hot"}, "invalid_type", "temperature"),
    ({"temperature": 2.1}, "invalid_value", "temperature"),
    ({"top_p": -0.1}, "invalid_value", "top_p"),
    ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ({"max_tokens": 10**6}, "invalid_value", "max_tokens"),
    ({"stream": "yes"}, "invalid_type", "stream"),
    ({"seed": 2**63}, "invalid_value", "seed"),
    ({"seed": 1.5}, "invalid_type", "seed"),
    ({"n": 17}, "invalid_value", "n"),
    ({"n": True}, "invalid_type", "n"),
    ({"stop": 5}, "invalid_type", "stop"),
    ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].function"),
    ({"tools": [{"type": "custom", "custom": {}}]}, "invalid_value", "tools[0].type"),
    ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
    ({"response_format": {"type": "xml"}}, "invalid_value", "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "invalid_value", "response_format"),
    ({"logprobs": 3}, "invalid_type", "logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ({"top_logprobs": 2}, "invalid_value", "top_logprobs"),
    ({"presence_penalty": 2.5}, "invalid_value", "presence_penalty"),
    ({"min_p": 1}, "invalid_value", "min_p"),
    ({"logit_bias": {"1": 5}}, "unsupported_value", "logit_bias"),
    ({"steering": {"pricing": "latency"}}, "unsupported_value", "steering"),
]


@pytest.mark.long
def test_misuse_is_answered_in_the_protocols_own_shape(serving, fake_engine, fake_catalogue):
    with serving(fake_catalogue({"talker": fake_engine()}), body_bytes=5000) as address:
        for change, code, param in BAD:
            refused(address.post(ASK | change), 400, code, param)
        for body in (
            b"{nope",
            b"",
            b"[1]",
            b'"\xff"',
            b"[" * 4000,
            b'{"model": "\\ud800"}',
            b'{"seed": NaN}',
        ):
            refused(address.post(content=body), 400, "invalid_json")
        refused(
            address.post({"messages": ASK["messages"]}), 400, "missing_required_parameter", "model"
        )
        for name in ("Talker", "talker:subscription", "../talker", ""):
            assert "talker" in refused(
                address.post(ASK | {"model": name}), 404, "model_not_found", "model"
            )
        for wrong in (
            "Bearer wrong",
            "secret",
            "Basic secret",
            "Bearer secret2",
            "Bearer \u00e9".encode(),
        ):
            refused(address.post(ASK, headers={"authorization": wrong}), 401, "invalid_api_key")
        refused(httpx.get(f"{address.url}/models"), 401, "invalid_api_key")
        refused(httpx.get(f"{address.url}/nothing"), 401, "invalid_api_key")
        refused(address.post(ASK, path="/models"), 405, "method_not_allowed")
        refused(address.post(ASK, path="/images"), 404, "not_found")
        assert address.post(ASK, headers={"authorization": "bearer secret"}).status_code == 200


@pytest.mark.long
def test_a_long_body_is_not_held(serving, fake_engine, fake_catalogue):
    with serving(fake_catalogue({"talker": fake_engine()}), body_bytes=5000) as address:
        refused(address.post(content=b" " * 5001), 413, "request_too_large")
        parts = (b" " * 1000 for _ in range(3000))
        refused(address.post(content=parts), 413, "request_too_large")
        assert address.post(ASK).status_code == 200


@pytest.mark.long
def test_without_a_token_only_this_machine_is_served(serving, fake_engine, fake_catalogue):
    with serving(fake_catalogue({"talker": fake_engine()}), token=None) as address:
        assert httpx.get(f"{address.url}/models").status_code == 200
        assert (
            httpx.get(
                f"{address.url}/models", headers={"origin": "http://localhost:3000"}
            ).status_code
            == 200
        )
        for header in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"host": "evil.example:8000"},
        ):
            refused(
                httpx.post(f"{address.url}/chat/completions", json=ASK, headers=header),
                403,
                "forbidden",
            )


def test_what_an_engine_does_wrong_is_said_plainly(serving, fake_engine, fake_catalogue):
    class Breaks(fake_engine):
        async def generate(self, asked):
            yield Piece("half ", tokens=1)
            yield Piece(finish="error", error="the model failed")

    engines = {
        "refuses": fake_engine(error=Refused("no such role", "invalid_value", "messages")),
        "fails": fake_engine(error=EngineError("the model is out of memory")),
        "crashes": fake_engine(error=KeyError("secret detail")),
        "breaks": Breaks(),
    }
    with serving(fake_catalogue(engines)) as address:
        for stream in (False, True):
            ask = ASK | {"stream": stream}
            assert (
                refused(address.post(ask | {"model": "refuses"}), 400, "invalid_value", "messages")
                == "no such role"
            )
            assert "out of memory" in refused(
                address.post(ask | {"model": "fails"}), 500, "engine_error"
            )
            assert "secret" not in refused(
                address.post(ask | {"model": "crashes"}), 500, "internal_error"
            )
        refused(address.post(ASK | {"model": "breaks"}), 500, "engine_error")
        events = address.post(ASK | {"model": "breaks", "stream": True}).text.split("\n\n")
        assert json.loads(events[-2][6:])["error"]["code"] == "engine_error"
        assert "half" in events[1]


@pytest.mark.long
def test_places_and_queue_are_bounded(serving, fake_engine, fake_catalogue):
    engine = fake_engine(pause=0.1)
    with serving(fake_catalogue({"talker": engine}), concurrency=2, queue=3) as address:

        async def ask() -> list[httpx.Response]:
            async with httpx.AsyncClient(
                headers={"authorization": "Bearer secret"}, timeout=30
            ) as client:
                return await asyncio.gather(
                    *(
                        client.post(f"{address.url}/chat/completions", json=ASK | {"seed": n})
                        for n in range(9)
                    )
                )

        found = asyncio.run(ask())
        assert sorted(r.status_code for r in found) == [200] * 5 + [429] * 4
        assert engine.most_under_way == 2
        late = next(r for r in found if r.status_code == 429)
        refused(late, 429, "rate_limit_exceeded")
        assert late.headers["retry-after"] == "1"
        refused(address.post(ASK | {"n": 3}), 400, "invalid_value", "n")
        assert address.post(ASK | {"n": 2}).status_code == 200


@pytest.mark.long
def test_time_is_limited(serving, fake_engine, fake_catalogue, until):
    engine = fake_engine(words=("a ",) * 1000, pause=0.05)
    with serving(fake_catalogue({"talker": engine}), seconds=0.3) as address:
        refused(address.post(ASK), 408, "timeout")
        events = address.post(ASK | {"stream": True}).text.split("\n\n")
        assert json.loads(events[-2][6:])["error"]["code"] == "timeout"
        assert len(events) > 3
        until(lambda: engine.under_way == 0)
        with socket.create_connection(("127.0.0.1", int(address.url.split(":")[2][:-3]))) as slow:
            head = (
                "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n"
            )
            slow.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
            assert b"408" in slow.recv(100)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_ends_its_answer(
    serving, fake_engine, fake_catalogue, until, stream
):
    engine = fake_engine(words=("a ",) * 10_000, pause=0.01)
    with serving(fake_catalogue({"talker": engine}), concurrency=1) as address:
        with socket.create_connection(("127.0.0.1", int(address.url.split(":")[2][:-3]))) as client:
            body = json.dumps(ASK | {"stream": stream, "seed": 5}).encode()
            head = (
                "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n"
            )
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: engine.under_way == 1)
        until(lambda: engine.left == [5] and engine.under_way == 0)
        health = httpx.get(address.url.replace("/v1", "/health")).json()
        assert health == {"status": "ok", "running": 0, "waiting": 0}


@pytest.mark.long
def test_what_is_under_way_is_finished_when_the_server_stops(
    serving, fake_engine, fake_catalogue, until
):
    engine, found = fake_engine(pause=0.15), []
    with serving(fake_catalogue({"talker": engine})) as address:
        asking = threading.Thread(target=lambda: found.append(address.post(ASK)))
        asking.start()
        until(lambda: engine.under_way == 1)
        address.server.should_exit = True
        until(lambda: not _listens(address.url))
        asking.join(20)
    assert found[0].json()["choices"][0]["message"]["content"] == "one two three"
    assert engine.asked[-1].seed == -1, "and the engine is closed"


def test_what_outlasts_the_grace_is_cut_off(serving, fake_engine, fake_catalogue, until):
    engine = fake_engine(words=("a ",) * 10_000, pause=0.01)
    with serving(fake_catalogue({"talker": engine}), grace=0) as address:
        headers = {"authorization": "Bearer secret"}
        with httpx.stream(
            "POST",
            f"{address.url}/chat/completions",
            json=ASK | {"stream": True},
            headers=headers,
            timeout=30,
        ) as reply:
            lines = reply.iter_lines()
            next(lines)
            address.server.should_exit = True
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        until(lambda: engine.under_way == 0)


def _listens(url: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(url.split(":")[2][:-3])), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("path", "words"),
    [("/responses", "ask /v1/chat/completions; vLLM"), ("/embeddings", "`transformers serve`")],
)
def test_an_endpoint_that_is_elsewhere_names_where(
    serving, fake_engine, fake_catalogue, path, words
):
    with serving(fake_catalogue({"talker": fake_engine()})) as address:
        reply = address.post({"model": "talker", "input": "a"}, path=path)
    assert reply.status_code == 404
    assert words in reply.json()["error"]["message"]
