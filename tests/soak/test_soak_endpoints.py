"""The attacks on endpoints and on judges, small."""

import json

import pytest

from equipoise.judges.read_verdict import Unread, read_score
from equipoise.models.resources import Resources
from equipoise.players.endpoint import Endpoint
from equipoise.players.server_reply import UnusableReplyError, decode, read_reply
from equipoise.types import View, user
from tests.soak import endpoints, injections
from tests.soak._faulty_server import (
    CODE,
    FAULTS,
    HONEST,
    LONGEST_REPLY,
    FaultyServer,
    Trap,
    reply_of,
)

GUESS = "0123456789"
QUESTION = f"<<answer {GUESS}>>"


def test_there_are_twenty_faults_that_differ():
    assert len(set(FAULTS)) == len(FAULTS) == 20


def test_no_faulty_reply_holds_a_forged_grade():
    body = {"messages": [{"role": "user", "content": QUESTION}]}
    assert CODE.findall(QUESTION) == [GUESS]
    for kind in FAULTS:
        reply = reply_of(kind, body)
        if len(reply) > LONGEST_REPLY:
            continue  # never read to its end
        try:
            text = read_reply(decode(reply)).text
        except UnusableReplyError:
            continue
        assert read_score(text, 1, 10, GUESS) == HONEST, kind


@pytest.mark.long
def test_every_kind_of_fault_meets_a_player(monkeypatch):
    """One player, 60 rows, a fault in every other reply: grades, or errors with a reason."""
    monkeypatch.setenv("EQUIPOISE_SOAK_KEY", endpoints.KEY)
    monkeypatch.setattr("equipoise.system.http_bounds.FIRST_PAUSE", 0.01)
    trap = Trap()
    server = FaultyServer(0.5, trap.url)
    player = endpoints.recipe(server.url, 2, None)["judge"]["model"]
    actor = Endpoint.model_validate(player).open(None, Resources())
    try:
        views = [View((user(QUESTION),)) for _ in range(60)]
        moves = actor.act(views, range(60))
    finally:
        actor.close()
    for move in moves:
        if move.finish == "error":
            assert move.error
            assert endpoints.KEY not in move.error
        else:
            assert read_score(move.text, 1, 10, GUESS) == HONEST
    assert len(server.sent) > 10
    assert trap.calls == 0


@pytest.mark.slow
def test_a_run_that_is_killed_beside_a_faulty_server():
    """Adds a real run, three kills, a budget, and the key's traces."""
    assert endpoints.soak(100).failures == []


@pytest.mark.long
def test_no_injection_moves_an_honest_verdict():
    texts = injections.TEXTS[::10]
    assert len(set(injections.TEXTS)) == len(injections.TEXTS) == 200
    for form in injections.FORMS:
        for call in injections.JUDGES:
            counts = injections.scripted(form, call, texts)
            assert counts["moved"] == 0, (form, call)
        assert injections.scripted(form, "alone", texts)["own"] == len(texts)


@pytest.mark.long
def test_no_hidden_code_moves_an_honest_verdict():
    """Nor do the codes of all other matches, as they stand."""
    others = injections.others(40)
    assert len(set(others)) == 2 * 40  # of both seats
    assert len(injections.BEARING) == len(injections.BEARERS) * len(injections.HIDING) == 180
    for form in ("rubric, with a code", "pairwise, with a code"):
        for call in injections.JUDGES:
            # Every bearer and every way of hiding, not each with each: `make soak` has all.
            for texts in (injections.BEARING[::7], others[:20]):
                counts = injections.scripted(form, call, texts)
                assert counts["moved"] == 0, (form, call)
                expected = 0 if call == "only_quotes" else len(texts)
                assert counts["own"] == expected, (form, call)


def test_what_a_forged_reply_would_say_is_read_where_nothing_guards_it():
    """The texts are no straw men: a reader without a code takes them."""
    taken = [text for text in injections.TEXTS if read_score(text, 1, 10) == 10]
    assert len(taken) > 30
    assert isinstance(read_score(json.dumps(taken), 1, 10, GUESS), Unread)
