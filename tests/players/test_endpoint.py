import asyncio
import email.utils
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from openai_server import Drop, Fail, OpenAIServer, Raw, Say
from pydantic import ValidationError

from equipoise.cli import main
from equipoise.data.opponent_logprobs import opponent_logprobs
from equipoise.errors import BudgetSpent, ConfigError, DataError, ModelError, UserError
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Resources, Spending
from equipoise.players.base import Player, Scorer
from equipoise.players.endpoint import Endpoint
from equipoise.players.requests import PATIENCE
from equipoise.players.server_reply import read_reply
from equipoise.system.http_bounds import retry_after
from equipoise.types import Message, Move, PlayerId, Prompt, View, user

DOCS = Path(__file__).resolve().parents[2] / "docs" / "serving.md"
SCHEMA = {"type": "object", "properties": {"winner": {"enum": ["A", "B"]}}, "required": ["winner"]}


def views(*texts: str, schema=None) -> list[View]:
    return [View((user(text),), schema=schema) for text in texts]


def echo(body):
    return body["messages"][-1]["content"]


@pytest.fixture
def player(openai_server):
    """player(**settings) -> an endpoint on the test's server."""

    def make(**settings):
        return Endpoint.model_validate({"base_url": openai_server.url, "model": "tiny", **settings})

    return make


@pytest.fixture
def opened(player):
    """opened(shelf=None, **settings) -> an actor, closed after the test."""
    actors = []

    def make(resources=None, **settings):
        actors.append(player(**settings).open(None, resources or Resources()))
        return actors[-1]

    yield make
    for actor in actors:
        actor.close()


# -- a move


def test_what_is_asked_and_what_comes_back(openai_server, opened):
    openai_server.script(Say("four", usage=(11, 3)))
    actor = opened(
        temperature=0.5,
        top_p=0.9,
        max_new_tokens=7,
        stop=["\n"],
        extra_body={"top_k": 3},
        prices={"input": 1.0, "output": 2.0},
    )
    chat = (Message("system", "Be brief."), user("2 + 2?"))
    assert actor.act([View(chat)], [2**40 + 5]) == [
        Move("four", prompt_tokens=11, completion_tokens=3, cost=pytest.approx(17e-6))
    ]
    (seen,) = openai_server.requests
    assert seen.body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2 + 2?"},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "stop": ["\n"],
        "seed": 5,
        "top_k": 3,
    }


def test_what_is_not_wanted_is_not_sent(openai_server, opened):
    actor = opened(
        temperature=None, top_p=None, send_seed=False, max_tokens_field="max_completion_tokens"
    )
    actor.act(views("a"), [1])
    assert set(openai_server.requests[0].body) == {"model", "messages", "max_completion_tokens"}


def test_moves_come_in_the_order_of_their_views(openai_server, opened):
    openai_server.answer = lambda body: Say(echo(body), after=0.05 if echo(body) == "slow" else 0)
    moves = opened().act(views("slow", "b", "c", "b"), [1, 2, 3, 4])
    assert [move.text for move in moves] == ["slow", "b", "c", "b"]


@pytest.mark.parametrize(
    ("step", "move"),
    [
        (Say("cut", finish="length"), Move("cut", "length", prompt_tokens=10, completion_tokens=5)),
        (
            Say("", finish="content_filter"),
            Move("", "error", error="the server's content filter withheld the answer"),
        ),
        (
            Say(None, message={"refusal": "I cannot."}),
            Move("I cannot.", prompt_tokens=10, completion_tokens=5),
        ),
        (Say(None, finish="length"), Move("", "length", prompt_tokens=10, completion_tokens=5)),
        (
            Say("yes", message={"reasoning_content": "hm"}),
            Move("yes", prompt_tokens=10, completion_tokens=5, thoughts="hm"),
        ),
        (
            Say(None, finish="length", message={"reasoning": "hm"}),
            Move("", "length", prompt_tokens=10, completion_tokens=5, thoughts="hm"),
        ),
        (
            Say(
                None,
                message={
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                        {"type": "text", "text": "yes"},
                    ]
                },
            ),
            Move("yes", prompt_tokens=10, completion_tokens=5, thoughts="hm"),
        ),
        (Say("free", usage=None), Move("free")),
    ],
)
def test_finishes(openai_server, opened, step, move):
    openai_server.script(step)
    (found,) = opened().act(views("a"), [1])
    assert (found.text, found.finish, found.error) == (move.text, move.finish, move.error)
    if move.finish != "error":
        assert found == move


def test_thoughts_are_let_and_kept_by_the_servers_template(openai_server, opened):
    opened(enable_thinking=False, extra_body={"chat_template_kwargs": {"x": 1}}).act(
        views("a"), [1]
    )
    opened().act(views("b"), [1])
    first, second = (request.body for request in openai_server.requests)
    assert first["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False, "x": 1}
    assert "chat_template_kwargs" not in second
    with pytest.raises(ValueError, match="leave one of them out"):
        opened(
            enable_thinking=True, extra_body={"chat_template_kwargs": {"enable_thinking": False}}
        )


def test_logprobs_where_the_server_gives_them(openai_server, opened):
    openai_server.answer = lambda body: Say("a b", logprobs=(-0.5, -1.25))
    assert opened(logprobs=True).act(views("a"), [1])[0].logprobs == (-0.5, -1.25)
    assert openai_server.requests[0].body["logprobs"] is True
    assert opened().act(views("a"), [1])[0].logprobs == ()


def test_no_more_than_concurrency_at_once(openai_server, opened):
    openai_server.answer = lambda body: Say(after=0.02)
    opened(concurrency=3).act(views(*"abcdefghi"), range(9))
    assert openai_server.most_at_once == 3


# -- failures


@pytest.mark.long
@pytest.mark.parametrize(
    "step",
    [
        Fail(408),
        Fail(409),
        Fail(429),
        Fail(500),
        Fail(503),
        Drop(),
        Raw(),
        Raw(b"<html>", "text/html"),
        Say(after=1.5),
    ],
    ids=repr,
)
def test_what_may_pass_is_asked_again(openai_server, opened, step):
    openai_server.script(step, step, "at last")
    timeout = 0.5 if isinstance(step, Say) else 60
    assert opened(timeout=timeout).act(views("a"), [1])[0].text == "at last"
    assert len(openai_server.requests) == 3
    assert openai_server.bodies()[0] == openai_server.bodies()[2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "words", "requests"),
    [
        (Fail(400, "the context is too long"), "tiny: HTTP 400: the context is too long", 1),
        (Fail(501, "no"), "tiny: HTTP 501: no", 1),
        (Fail(307, "elsewhere", location="/v1/other"), "tiny: HTTP 307: elsewhere", 1),
        (Fail(500, "boom"), "tiny: HTTP 500: boom", 3),
        (Fail(429, "slower", retry_after=str(PATIENCE + 1)), "tiny: HTTP 429: slower", 1),
        (Drop(), "tiny: .*", 3),
        (Say(after=1.5), "tiny: no answer within 0.5 s", 3),
        (Raw(b'{"choices": []}'), "tiny: not a chat completion .*..choices.: ...", 3),
        (Raw(b'{"error": {"message": "upstream"}}'), "tiny: .*upstream.*", 3),
    ],
    ids=repr,
)
def test_a_row_that_fails_for_good_is_an_error_move_and_spares_the_others(
    openai_server, opened, step, words, requests
):
    openai_server.answer = lambda body: step if echo(body) == "bad" else "good"
    timeout = 0.5 if isinstance(step, Say) else 60
    bad, good = opened(retries=2, timeout=timeout).act(views("bad", "fine"), [1, 2])
    assert (bad.text, bad.finish, good.text) == ("", "error", "good")
    assert re.fullmatch(words, bad.error)
    assert [echo(body) for body in openai_server.bodies()].count("bad") == requests


def test_retry_after_is_honoured(openai_server, opened):
    openai_server.script(Fail(429, retry_after="0.2"), "now")
    assert opened().act(views("a"), [1])[0].text == "now"
    first, second = openai_server.requests
    assert second.time - first.time >= 0.2


def test_retry_after_in_seconds_or_as_a_date():
    assert retry_after({}) is None
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after(
        {"retry-after": email.utils.formatdate(time.time() + 60, usegmt=True)}
    ) == pytest.approx(60, abs=5)
    assert retry_after({"retry-after": email.utils.formatdate(0, usegmt=True)}) == 0


def test_a_wrong_key_stops_everyone_and_is_not_told(openai_server, opened, monkeypatch):
    openai_server.key = "right-key"
    monkeypatch.setenv("EQUIPOISE_TEST_KEY", "wrong-key")
    with pytest.raises(ModelError) as caught:
        opened(api_key_env="EQUIPOISE_TEST_KEY", concurrency=1).act(views("a", "b"), [1, 2])
    assert openai_server.url in str(caught.value)
    assert "check the variable EQUIPOISE_TEST_KEY" in str(caught.value)
    assert "wrong-key" not in str(caught.value)
    assert len(openai_server.requests) == 1


def test_the_key_goes_to_the_server_and_nowhere_else(openai_server, opened, monkeypatch, tmp_path):
    openai_server.key = "s3cret-key"
    monkeypatch.setenv("EQUIPOISE_TEST_KEY", " s3cret-key\n")
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "not-for-others")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer not-for-others")
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        actor = opened(Resources(ledger), api_key_env="EQUIPOISE_TEST_KEY")
        openai_server.answer = lambda body: (
            Fail(400, "s3cret-key is odd") if echo(body) == "bad" else "good"
        )
        bad, good = actor.act(views("bad", "a"), [1, 2])
    assert good.text == "good"
    assert bad.error == "tiny: HTTP 400: [key] is odd"
    assert not any(
        "not-for-others" in value
        for seen in openai_server.requests
        for value in seen.headers.values()
    )
    assert "s3cret" not in repr(actor.player) + repr(actor) + repr(vars(actor)) + repr(
        actor.player.settings()
    )
    assert not any(b"s3cret" in file.read_bytes() for file in tmp_path.iterdir())


def test_without_a_variable_no_key_of_the_environment_is_sent(openai_server, opened, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-others")
    opened().act(views("a"), [1])
    assert openai_server.requests[0].headers["authorization"] == "Bearer none"


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_variable_is_named_when_the_player_is_opened(player, monkeypatch, value):
    if value is None:
        monkeypatch.delenv("EQUIPOISE_TEST_KEY", raising=False)
    else:
        monkeypatch.setenv("EQUIPOISE_TEST_KEY", value)
    with pytest.raises(ConfigError, match="EQUIPOISE_TEST_KEY is not set"):
        player(api_key_env="EQUIPOISE_TEST_KEY").open(None, Resources())


@pytest.mark.parametrize(
    ("step", "settings", "message"),
    [
        (Fail(403, "not you"), {}, "HTTP 403: not you.*api_key_env"),
        (Fail(402, "pay"), {}, "no credit left"),
        (
            Fail(400, "Server is pinned to 'big'; requested 'tiny'."),
            {},
            "no model 'tiny' there .HTTP 400",
        ),
        (Fail(400, "tiny is not a valid model ID"), {}, "no model 'tiny' there .HTTP 400"),
        (Fail(429, "quota", code="insufficient_quota"), {"retries": 0}, "no credit left"),
        (Fail(400, "Unknown parameter: 'seed'.", param="seed"), {}, "'seed' .*send_seed: false"),
        (Fail(422, "body.seed: Extra inputs are not permitted"), {}, "set send_seed: false"),
        (Fail(400, "Unsupported parameter: 'max_tokens'"), {}, "choose the other max_tokens_field"),
        (Fail(400, "top_p is not supported"), {}, "set top_p: null"),
        (
            Fail(400, "Unrecognized request argument: top_k"),
            {"extra_body": {"top_k": 1}},
            "leave it out of extra_body",
        ),
    ],
)
def test_what_concerns_everyone_is_one_error(openai_server, opened, step, settings, message):
    openai_server.answer = lambda body: step
    with pytest.raises(ModelError, match=message):
        opened(**settings).act(views("a", "b"), [1, 2])


def test_a_wrong_value_in_one_row_concerns_that_row(openai_server, opened):
    openai_server.script(
        Fail(400, "max_tokens is too large: the context has room for 3", param="max_tokens")
    )
    assert opened().act(views("a"), [1])[0].finish == "error"
    openai_server.script(Fail(400, "tiny has room for 8 tokens, and you requested 9"))
    assert opened().act(views("a"), [1])[0].finish == "error"


def test_an_unknown_model_or_path(openai_server, player, opened):
    openai_server.models = {"other"}
    with pytest.raises(ModelError, match="no model 'tiny' there"):
        opened().act(views("a"), [1])
    with pytest.raises(ModelError, match="base_url lacks its /v1"):
        opened(base_url=openai_server.url.removesuffix("/v1"), model="other").act(views("a"), [1])


def test_a_server_that_is_not_there(openai_server, opened):
    actor = opened(retries=1)
    openai_server.close()
    with pytest.raises(
        ModelError, match=f"{openai_server.url}: cannot be reached .*is the server running"
    ):
        actor.act(views("a", "b"), [1, 2])


def test_what_arrived_before_a_common_failure_is_kept(openai_server, opened):
    openai_server.answer = lambda body: (
        Fail(401) if echo(body) == "b" else Say(echo(body), after=0.05)
    )
    actor = opened()
    with pytest.raises(ModelError):
        actor.act(views("a", "b"), [1, 2])
    openai_server.answer = lambda body: Fail(500)
    assert actor.act(views("a"), [1])[0].text == "a"


def test_after_a_common_failure_nothing_is_tried_again(openai_server, opened):
    openai_server.answer = lambda body: (
        Fail(401) if echo(body) == "a" else Fail(429, retry_after="2")
    )
    with pytest.raises(ModelError, match="refuses the key"):
        opened(concurrency=2).act(views("a", "b", "c"), [1, 2, 3])
    assert sorted(map(echo, openai_server.bodies())) == ["a", "b"]


def test_inside_a_running_loop_the_error_is_clear(opened):
    async def inside():
        opened().act(views("a"), [1])

    with pytest.raises(UserError, match="inside a running event loop"):
        asyncio.run(inside())


# -- structured answers


def test_a_schema_is_asked_for(openai_server, opened):
    opened().act(views("a", schema=SCHEMA), [1])
    asked = openai_server.requests[0].body["response_format"]
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("status", [400, 404, 422, 501])
def test_auto_falls_back_and_remembers(openai_server, opened, status):
    openai_server.refuses = {"json_schema": Fail(status, "unsupported response_format")}
    actor = opened()
    assert [m.text for m in actor.act(views("a", schema=SCHEMA), [1])] == ["fine"]
    actor.act(views("b", schema=SCHEMA), [1])
    formats = [body["response_format"]["type"] for body in openai_server.bodies()]
    assert formats == ["json_schema", "json_object", "json_object"]
    openai_server.refuses = {"response_format": Fail(status, "unsupported response_format")}
    actor.act(views("c", "d", schema=SCHEMA), [1, 2])
    actor.act(views("e", schema=SCHEMA), [1])
    assert "response_format" not in openai_server.bodies()[-1]


def test_a_refusal_that_is_not_about_the_schema_teaches_nothing(openai_server, opened):
    openai_server.answer = lambda body: Fail(400, "too long") if echo(body) == "long" else "good"
    actor = opened()
    assert actor.act(views("long", schema=SCHEMA), [1])[0].error == "tiny: HTTP 400: too long"
    actor.act(views("short", schema=SCHEMA), [1])
    assert openai_server.bodies()[-1]["response_format"]["type"] == "json_schema"


def test_an_answer_is_kept_whatever_way_it_was_asked_for(openai_server, opened):
    openai_server.refuses = {"json_schema": Fail(400)}
    resources = Resources()
    opened(resources).act(views("a", schema=SCHEMA), [1])
    assert opened(resources).act(views("a", schema=SCHEMA), [1])[0].text == "fine"
    assert len(openai_server.requests) == 2


@pytest.mark.parametrize(
    ("way", "type"),
    [("json_schema", "json_schema"), ("json_object", "json_object"), ("none", None)],
)
def test_a_way_that_is_set_is_the_only_one(openai_server, opened, way, type):
    opened(structured=way).act(views("a", schema=SCHEMA), [1])
    assert openai_server.requests[0].body.get("response_format", {}).get("type") == type
    openai_server.answer = lambda body: Fail(400, "response_format is not supported")
    with pytest.raises(ModelError, match="set structured: auto"):
        opened(structured=way).act(views("a", schema=SCHEMA), [1])


# -- what is kept, and what it costs


def test_equal_rows_are_asked_once_and_different_seeds_are_not_equal(openai_server, opened):
    actor = opened(send_seed=False)
    assert len(actor.act(views("a", "a", "a"), [1, 1, 2])) == 3
    assert len(openai_server.requests) == 2
    actor.act(views("a", "a"), [2, 1])
    assert len(openai_server.requests) == 2


def test_every_setting_that_reaches_the_server_tells_answers_apart(openai_server, opened):
    resources = Resources()
    for settings in (
        {},
        {"temperature": 0},
        {"model": "big"},
        {"extra_body": {"top_k": 2}},
        {"max_new_tokens": 3},
    ):
        opened(resources, **settings).act(views("a"), [1])
    opened(resources).act(views("a", schema=SCHEMA), [1])
    assert len(openai_server.requests) == 6
    opened(resources, concurrency=1, retries=0, account="other").act(views("a"), [1])
    assert len(openai_server.requests) == 6


def test_a_failed_row_is_not_kept(openai_server, opened):
    openai_server.script(Fail(400))
    actor = opened()
    assert actor.act(views("a"), [1])[0].finish == "error"
    assert actor.act(views("a"), [1])[0].text == "fine"


@pytest.mark.parametrize(
    ("small", "large", "name", "asked"),
    [
        ({"calls": 4}, {"calls": 7}, "calls = 4: 4 calls, 60 tokens, 6e-05 USD", 4),
        ({"tokens": 31}, {"tokens": 1000}, "tokens = 31: 3 calls, 45 tokens", 3),
        ({"money": 3e-5}, {}, "money = 3e-05: 2 calls, 30 tokens, 3e-05 USD", 2),
        ({"calls": 0}, {}, "calls = 0: 0 calls, 0 tokens", 0),
    ],
)
def test_a_spent_budget_stops_the_run_and_nothing_is_asked_twice(
    openai_server, opened, tmp_path, small, large, name, asked
):
    settings = {"prices": {"input": 1.0, "output": 1.0}, "concurrency": 3, "account": "lab"}
    openai_server.answer = lambda body: Say(echo(body), after=0.01)
    path, rows = tmp_path / "ledger.sqlite", views(*"abcdefg")
    with Ledger.create(path) as ledger, pytest.raises(BudgetSpent) as caught:
        opened(Resources(ledger), budget=small, **settings).act(rows, range(7))
    assert f"account 'lab' has reached budget.{name}" in str(caught.value)
    assert (caught.value.account, caught.value.limit) == ("lab", next(iter(small)))
    assert caught.value.exit_code == 130
    assert len(openai_server.requests) == asked
    with Ledger.open(path) as ledger:
        assert ledger.spent("lab") == Spending(asked, asked * 15, pytest.approx(asked * 15e-6))
        moves = opened(Resources(ledger), budget=large, **settings).act(rows, range(7))
        assert ledger.spent("lab").calls == 7
        assert opened(Resources(ledger), budget=small, **settings).act(rows, range(7)) == moves
    assert [move.text for move in moves] == list("abcdefg")
    assert sorted(echo(body) for body in openai_server.bodies()) == list("abcdefg")


def test_a_budget_is_passed_by_less_than_what_is_in_flight(openai_server, opened):
    openai_server.answer = lambda body: Say(usage=(1, 5), after=0.01)
    actor = opened(max_new_tokens=10, concurrency=8, budget={"tokens": 60})
    with pytest.raises(BudgetSpent, match="10 calls, 60 tokens"):
        actor.act(views(*"abcdefghijklmnop"), range(16))
    assert (
        1 < openai_server.most_at_once <= 3
    )  # 60 tokens hold two whole reserves of 27 and the start of a third


def test_players_of_one_account_share_its_spending(opened):
    resources = Resources()
    opened(resources, model="a", account="lab").act(views("x", "y"), [1, 2])
    with pytest.raises(BudgetSpent, match="'lab'"):
        opened(resources, model="b", account="lab", budget={"calls": 2}).act(views("x"), [1])
    opened(resources, model="b", budget={"calls": 2}).act(views("x"), [1])


def test_costs_cannot_be_kept_where_the_server_does_not_count(openai_server, opened):
    openai_server.answer = lambda body: Say(usage=None)
    with pytest.raises(ModelError, match="does not say how many tokens"):
        opened(budget={"tokens": 100}).act(views("a"), [1])
    assert opened(budget={"calls": 1}).act(views("a"), [1])[0].text == "fine"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_had_arrived_when_the_user_interrupts_is_kept(openai_server, opened, tmp_path, number):
    def interrupt(body):
        if echo(body) == "c":
            os.kill(os.getpid(), number)
            return Say(after=5)
        return echo(body)

    openai_server.answer = interrupt
    before = signal.getsignal(number)
    signal.signal(number, signal.default_int_handler)
    try:
        with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
            actor = opened(Resources(ledger), concurrency=2)
            actor.act(views("a", "b"), [1, 2])  # leaves two connections open
            with pytest.raises(KeyboardInterrupt):
                actor.act(views("a", "b", "d", "c"), [1, 2, 4, 3])
            openai_server.answer = echo
            moves = actor.act(views("a", "b", "c"), [1, 2, 3])
    finally:
        signal.signal(number, before)
    assert [move.text for move in moves] == ["a", "b", "c"]
    asked = [echo(body) for body in openai_server.bodies()]
    assert (asked.count("a"), asked.count("b"), asked.count("c")) == (1, 1, 2)


def test_of_one_batch_what_had_arrived_is_kept(openai_server, opened, tmp_path):
    openai_server.script("first", "second")
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        kept = []

        class Breaking:
            """A ledger that the user interrupts at the third answer."""

            reply, reserve, spent = ledger.reply, ledger.reserve, ledger.spent

            def settle(self, *reply):
                kept.append(reply)
                if len(kept) == 3:
                    raise KeyboardInterrupt
                ledger.settle(*reply)

        actor = opened(Resources(Breaking()), concurrency=1)
        with pytest.raises(KeyboardInterrupt):
            actor.act(views("a", "b", "c", "d"), range(4))
        assert (ledger.spent("tiny").calls, ledger.spent("tiny").unanswered) == (3, 1)
        assert [m.text for m in actor.act(views("a", "b"), range(2))] == ["first", "second"]


# -- settings and place in the run


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learns": True}, "cannot learn"),
        ({"base_url": "localhost:8000"}, "must begin with http"),
        ({"base_url": "http://me:secret@host/v1"}, "must hold no key"),
        ({"api_key_env": "sk-secret"}, "never the key"),
        ({"api_key_env": "AIzaSecret"}, "never the key"),
        ({"api_key": "sk-secret"}, "did you mean 'api_key_env'"),
        ({"extra_body": {"n": 2}}, "'n' cannot be changed"),
        ({"extra_body": {"seed": 2}}, "'seed' .*send_seed"),
        ({"budget": {"money": 1.0}}, "budget.money needs prices"),
        ({"budget": {"call": 1}}, "did you mean 'calls'"),
    ],
)
def test_wrong_settings_are_refused_and_no_secret_is_repeated(settings, message):
    plain = {"kind": "endpoint", "base_url": "http://host/v1", "model": "m"}
    with pytest.raises(ValueError, match=message) as caught:
        Player.build(plain | settings)
    assert "ecret" not in str(caught.value)


def test_the_address_is_required_and_may_be_written_out():
    with pytest.raises(ValueError, match="base_url"):
        Endpoint.model_validate({"model": "m"})
    assert (
        Endpoint(base_url="http://host/v1/chat/completions/", model="m").base_url
        == "http://host/v1"
    )


def test_settings_survive_a_round_trip(player):
    endpoint = player(prices={"input": 1, "output": 2}, budget={"calls": 3}, stop=["x"])
    assert Player.build(endpoint.settings()) == endpoint


def test_an_endpoint_is_no_opponent_in_a_loss_that_needs_log_probabilities(opened, tmp_path):
    actor = opened()
    assert not isinstance(actor, Scorer)
    with (
        Ledger.create(tmp_path / "ledger.sqlite") as ledger,
        pytest.raises(ConfigError, match=r"players\.judge: .*log-probabilities"),
    ):
        opponent_logprobs(ledger, lambda player: actor, PlayerId("me"), [PlayerId("judge")], [])


def snippets() -> list[str]:
    """The page's recipes with players behind endpoints."""
    blocks = [part.split("```")[0] for part in DOCS.read_text().split("```yaml\n")[1:]]
    return [block for block in blocks if "kind: endpoint" in block]


@pytest.mark.parametrize("snippet", snippets(), ids=range(len(snippets())))
def test_the_documentation_shows_settings_that_exist(snippet):
    players = yaml.safe_load(snippet)["players"]
    served = {name: player for name, player in players.items() if "kind" in player}
    assert served
    for name, player in served.items():
        assert isinstance(Player.build(player), Endpoint), name


def test_without_the_client_the_command_says_how_to_get_it(player, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("equipoise.cli.app", lambda: lambda: player().open(None, Resources()))
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as caught:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught.value.code == 2
    assert "pip install 'equipoise[endpoints]'" in capsys.readouterr().err


@pytest.mark.long
def test_importing_the_configuration_loads_no_client():
    code = "import sys, equipoise.players.endpoint; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_pool_divides_questions_and_goes_on_without_a_server(openai_server, player):
    other = OpenAIServer()
    actor = player(base_url=[openai_server.url, other.url], retries=3).open(None, Resources())
    views = [View((user(f"question {n}"),)) for n in range(12)]
    actor.act(views, list(range(12)))
    here, there = openai_server.bodies(), other.bodies()
    assert len(here) + len(there) == 12
    assert here
    assert there
    actor.act(views, list(range(12, 24)))  # equal questions go where they went before
    where = {str(body["messages"]) for body in other.bodies()}
    assert where == {str(body["messages"]) for body in there}
    other.close()
    moves = actor.act(views, list(range(24, 36)))
    assert not any(move.error for move in moves)
    actor.close()


def test_a_pool_is_of_addresses(player):
    one = player(base_url=["http://a:1/v1/", "http://b:1/v1/chat/completions"])
    assert (one.base_url, one.replicas) == ("http://a:1/v1", ("http://b:1/v1",))
    with pytest.raises(ValidationError, match="http://"):
        player(base_url=["http://a:1/v1", "b:1"])


def test_servers_are_asked_whether_they_are_there(openai_server, monkeypatch):
    monkeypatch.setenv("A_KEY", "a-secret-of-some-length")
    here = {"kind": "endpoint", "base_url": openai_server.url, "model": "small"}
    keyed = Player.build({**here, "api_key_env": "A_KEY"})
    assert keyed.fault_of_servers() == ""  # one that has no such list
    openai_server.models = {"small", "large"}
    assert keyed.listed_models() == [["large", "small"]]
    openai_server.key = "another"
    assert "refuses the key" in keyed.fault_of_servers()
    assert "A_KEY" in keyed.fault_of_servers()
    away = Player.build({**here, "replicas": ["http://127.0.0.1:9/v1"]})
    openai_server.key = None
    assert away.fault_of_servers().startswith("http://127.0.0.1:9/v1: cannot be reached")
    assert not openai_server.requests


# -- chats with tools


def further(**fields) -> str:
    return json.dumps(fields)


SHOP = {"type": "function", "function": {"name": "shop", "parameters": {"type": "object"}}}
CALL = {"type": "function", "function": {"name": "shop", "arguments": '{"of": "pear"}'}}
OTHER_CALL = {"id": "own", "function": {"name": "shop", "arguments": {"of": "fig"}}}


def test_calls_tools_and_names_are_sent_by_the_protocol(openai_server, opened):
    openai_server.script(Say("Three"))
    chat = (
        Message("system", "Be short.", further(tools=[SHOP])),
        Message("user", "What costs a pear?", further(name="ann")),
        Message("assistant", "", further(tool_calls=[CALL, OTHER_CALL])),
        Message("tool", "5", further(tool_call_id="own")),
        Message("tool", "3"),
    )
    opened().act([View(chat)], [1])
    (seen,) = openai_server.requests
    assert seen.body["tools"] == [SHOP]
    first, second, calling, *answers = seen.body["messages"]
    assert first == {"role": "system", "content": "Be short."}
    assert second == {"role": "user", "content": "What costs a pear?", "name": "ann"}
    assert calling["content"] is None
    ids = [call["id"] for call in calling["tool_calls"]]
    assert ids == ["call_1", "own"]
    assert [call["type"] for call in calling["tool_calls"]] == ["function"] * 2
    arguments = [call["function"]["arguments"] for call in calling["tool_calls"]]
    assert arguments == ['{"of": "pear"}', '{"of": "fig"}']
    assert [(answer["tool_call_id"], answer["content"]) for answer in answers] == [
        ("own", "5"),
        ("call_1", "3"),
    ]


def test_a_chat_that_cannot_be_sent_is_refused_before_anything_is(openai_server, player, opened):
    chat = (user("What costs a pear?"), Message("tool", "3"))
    (fault,) = player().faults_of_prompts([Prompt("p", (user("hi"),)), Prompt("q", chat)])
    assert "message 2" in fault
    assert "prompt q" in fault
    with pytest.raises(DataError, match="answers no call"):
        opened().act([View(chat)], [1])
    assert not openai_server.requests


def test_calls_of_an_answer_are_written_out():
    message = {"content": None, "tool_calls": [CALL]}
    reply = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    written = '<tool_call>\n{"name": "shop", "arguments": {"of": "pear"}}\n</tool_call>'
    assert read_reply(reply).text == written
    reply["choices"][0]["message"] = {**message, "content": "I ask."}
    assert read_reply(reply).text == f"I ask.\n{written}"
