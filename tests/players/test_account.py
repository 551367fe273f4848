"""Budgets beside a server that fails, hangs, breaks off and is slow, and beside kills."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai_server import Cut, Drop, Fail, OpenAIServer, Raw, Say, Step, completion

from equipoise.errors import BudgetSpent, ModelError
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Resources, Spending
from equipoise.players.endpoint import Endpoint
from equipoise.types import View, record_id, user

ABORTED = completion(Say(finish="abort"), {"model": "tiny"})
HANGS = Say(after=0.6)
FAULTS: dict[str, Step] = {
    "fails": Fail(500),
    "is busy": Fail(429),
    "refuses": Fail(400, "too long"),
    "hangs": HANGS,
    "drops": Drop(),
    "resets": Drop(reset=True),
    "breaks off": Cut(),
    "is no answer": Raw(b"<html>"),
    "aborts": Raw(json.dumps(ABORTED).encode()),
}
ANSWERS: dict[str, Step] = {"answers": Say("fine", usage=(9, 4)), "is slow": Say(after=0.03)}
STEPS = FAULTS | ANSWERS
TIMEOUT = 0.3
NEW_TOKENS = 7


def views(number: int) -> list[View]:
    return [View((user(f"question {n}"),)) for n in range(number)]


def bill(step: Step, body: dict) -> int:
    """The tokens that a service would bill: all that the request can take, unless it counts."""
    if isinstance(step, Fail) and step.status < 500:
        return 0
    if step == STEPS["aborts"]:
        return 15
    if isinstance(step, Say) and step.usage is not None and step != HANGS:
        return sum(step.usage)
    return len(body["messages"][-1]["content"].encode()) + body["max_tokens"]


class Billing:
    """Answers of a server by a sequence of names, over and over, and the tokens billed."""

    def __init__(self, names: list[str]) -> None:
        self._names, self._next = names, count()
        self.tokens = 0

    def __call__(self, body: dict) -> Step:
        step = STEPS[self._names[next(self._next) % len(self._names)]]
        self.tokens += bill(step, body)
        return step


def opened(url: str, ledger: Ledger, **changes):
    values = {
        "base_url": url,
        "model": "tiny",
        "max_new_tokens": NEW_TOKENS,
        "timeout": 30,
        "prices": {"input": 1e6, "output": 1e6},
        **changes,
    }
    return Endpoint.model_validate(values).open(None, Resources(ledger))


def play(server: OpenAIServer, path: Path, rows: int, **changes) -> tuple[Spending, list]:
    """The spending after the rows were asked for, and their moves, none if the budget ended."""
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    with ledger:
        actor = opened(server.url, ledger, **changes)
        try:
            moves = actor.act(views(rows), range(rows))
        except BudgetSpent:
            moves = []
        finally:
            actor.close()
        return ledger.spent("tiny"), moves


@pytest.mark.parametrize("concurrency", [1, 8, pytest.param(64, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=pytest.mark.long) if f == "hangs" else f for f in FAULTS]
)
def test_no_server_gets_more_requests_than_the_limit(openai_server, tmp_path, fault, concurrency):
    openai_server.answer = billing = Billing([fault])
    limit = 4 if concurrency == 1 else 25
    changes = {"concurrency": concurrency, "budget": {"calls": limit}, "retries": 2}
    changes["timeout"] = TIMEOUT if fault == "hangs" else 30
    spent, moves = play(openai_server, tmp_path / "ledger.sqlite", 100, **changes)
    assert (spent.calls, moves) == (limit, [])
    assert len(openai_server.requests) <= limit
    if fault != "hangs":  # a request that was given up early may never have been read
        assert len(openai_server.requests) == limit
    assert spent.money == spent.tokens >= billing.tokens


@pytest.mark.long
def test_a_row_takes_its_retries_and_no_more(openai_server, tmp_path):
    openai_server.answer = Billing(["fails", "aborts", "hangs"])
    changes = {"retries": 4, "timeout": TIMEOUT}
    spent, (move,) = play(openai_server, tmp_path / "ledger.sqlite", 1, **changes)
    assert len(openai_server.requests) == spent.calls == 5
    assert move.finish == "error"
    assert move.error


@pytest.mark.long
def test_time_outs_are_charged_at_the_most_and_said(openai_server, tmp_path):
    openai_server.script("fine")
    openai_server.answer = Billing(["hangs"])
    changes = {"concurrency": 1, "retries": 0, "timeout": TIMEOUT}
    spent, moves = play(openai_server, tmp_path / "ledger.sqlite", 3, **changes)
    assert [move.error for move in moves[1:]] == ["tiny: no answer within 0.3 s"] * 2
    most = 2 * (len("question 1") + 16 + NEW_TOKENS)
    assert spent == Spending(3, 15 + most, 15.0 + most, 2, most, float(most))
    assert spent.text("USD") == (
        "3 calls, 81 tokens, 81 USD; of these unanswered: 2 calls, 66 tokens, 66 USD"
    )


@pytest.mark.long
@pytest.mark.parametrize(("limit", "calls"), [({"tokens": 40}, 2), ({"money": 99.0}, 3)])
def test_time_outs_reach_limits_of_tokens_and_money(openai_server, tmp_path, limit, calls):
    openai_server.answer = Billing(["hangs"])
    changes = {"concurrency": 8, "budget": limit, "retries": 6, "timeout": TIMEOUT}
    spent, moves = play(openai_server, tmp_path / "ledger.sqlite", 20, **changes)
    assert (spent.calls, moves) == (calls, [])
    assert len(openai_server.requests) <= calls


@pytest.mark.long
def test_a_schema_is_reserved_for(openai_server, tmp_path):
    schema = {"type": "object", "properties": {"winner": {"enum": ["A", "B"]}}}
    openai_server.answer = Billing(["hangs"])
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        actor = opened(openai_server.url, ledger, retries=0, timeout=TIMEOUT)
        actor.act([View((user("a"),), schema=schema)], [1])
        assert ledger.spent("tiny").tokens == 1 + 16 + len(json.dumps(schema)) + NEW_TOKENS
        actor.close()


def test_what_never_left_costs_nothing(openai_server, tmp_path):
    openai_server.close()
    path = tmp_path / "ledger.sqlite"
    with pytest.raises(ModelError, match="cannot be reached"):
        play(openai_server, path, 3, retries=1, budget={"calls": 1})
    with Ledger.open(path) as ledger:
        assert ledger.accounts() == {}
        assert not ledger.has_begun()


def test_a_request_is_charged_on_disk_before_it_leaves(openai_server, tmp_path):
    """So a kill at any moment leaves none out."""
    path, seen = tmp_path / "ledger.sqlite", []

    def look(body: dict) -> str:
        with Ledger.open(path, reading=True) as ledger:
            seen.append(ledger.spent("tiny").calls)
        return "fine"

    openai_server.answer = look
    play(openai_server, path, 4, concurrency=1)
    assert seen == [1, 2, 3, 4]


def test_replies_of_older_ledgers_are_found(openai_server, tmp_path):
    path = tmp_path / "ledger.sqlite"
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "question 0"}],
        "max_tokens": NEW_TOKENS,
        "temperature": 1.0,
        "top_p": 1.0,
        "seed": 0,
    }
    asked = json.dumps([openai_server.url, body, None, 0], sort_keys=True)
    reply = {"text": "old", "finish": "stop", "logprobs": [], "prompt_tokens": 1}
    reply |= {"completion_tokens": 1, "cost": 0.0}
    with Ledger.create(path) as ledger:
        row = (record_id("reply", asked), "tiny", 2, 0.0, json.dumps(reply))
        ledger._insert("replies", [row])
    spent, (move,) = play(openai_server, path, 1)
    assert (move.text, spent, openai_server.requests) == ("old", Spending(1, 2), [])


def test_players_of_one_account_share_its_limit_beside_failures(openai_server, tmp_path):
    openai_server.answer = Billing(["fails", "answers"])
    path = tmp_path / "ledger.sqlite"
    changes = {"account": "lab", "budget": {"calls": 9}, "retries": 2}
    for n in range(4):
        play(openai_server, path, 3, model=f"tiny {n}", **changes)
    with Ledger.open(path) as ledger:
        assert ledger.spent("lab").calls == len(openai_server.requests) == 9


@pytest.mark.long
def test_a_larger_budget_goes_on_and_pays_for_nothing_twice(openai_server, tmp_path):
    openai_server.answer = Billing(["answers", "drops", "fails"])
    path = tmp_path / "ledger.sqlite"
    spent, moves = Spending(), []
    for calls in count(5, 5):
        if moves:
            break
        spent, moves = play(openai_server, path, 12, budget={"calls": calls}, concurrency=4)
        assert len(openai_server.requests) == spent.calls <= calls
    assert {move.text for move in moves} == {"fine"}
    assert spent.calls - spent.unanswered == 12


@pytest.mark.long
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=8),
    concurrency=st.sampled_from([1, 2, 8, 64]),
    limits=st.lists(st.integers(0, 30), min_size=1, max_size=3),
    tokens=st.none() | st.integers(0, 1500),
    retries=st.integers(0, 3),
)
def test_whatever_a_server_does(
    openai_server, tmp_path_factory, names, concurrency, limits, tokens, retries
):
    """Over any sequence of faults: no more requests than the limit, no less charged than billed."""
    path = tmp_path_factory.mktemp("run") / "ledger.sqlite"
    openai_server.answer = billing = Billing(names)
    before, highest = len(openai_server.requests), 0
    for limit in limits:
        changes = {"concurrency": concurrency, "retries": retries, "timeout": TIMEOUT}
        changes["budget"] = {"calls": limit, "tokens": tokens}
        highest = max(highest, limit)
        spent, _ = play(openai_server, path, 12, **changes)
        assert len(openai_server.requests) - before <= spent.calls <= highest
        assert spent.tokens >= billing.tokens
        if tokens is not None:  # passed by one request at most
            assert spent.tokens <= tokens + len("question 10") + 16 + NEW_TOKENS


PLAYER = """
import sys
from pathlib import Path
from equipoise.system import http_bounds
from tests.players.test_account import play
http_bounds.FIRST_PAUSE = 0.01
class Server:
    url = sys.argv[1]
changes = {"concurrency": int(sys.argv[3]), "budget": {"calls": int(sys.argv[4])}, "timeout": 0.3}
_, moves = play(Server, Path(sys.argv[2]), 400, **changes)
sys.exit(0 if moves else 130)
"""


def killed(run: Callable[[], subprocess.Popen], server: OpenAIServer, kills: int, each: int) -> int:
    """Kill a process whenever the server got `each` more requests; the last one's exit code."""
    for number in range(1, kills + 1):
        process = run()
        while process.poll() is None and len(server.requests) < number * each:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return run().wait()


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 8, 64])
def test_kills_beside_a_faulty_server_do_not_pass_the_limit(openai_server, tmp_path, concurrency):
    """A kill costs at most what is in flight, which stays charged."""
    openai_server.answer = billing = Billing(["answers", "is slow", "drops", "fails", "hangs"])
    limit, path = 300, tmp_path / "ledger.sqlite"
    root = Path(__file__).resolve().parents[2]
    paths = {"PYTHONPATH": f"{root}{os.pathsep}{root / 'tests' / 'helpers'}"}

    def run() -> subprocess.Popen:
        arguments = [openai_server.url, str(path), str(concurrency), str(limit)]
        return subprocess.Popen([sys.executable, "-c", PLAYER, *arguments], env=os.environ | paths)

    assert killed(run, openai_server, kills=4, each=50) == 130
    with Ledger.open(path) as ledger:
        spent = ledger.spent("tiny")
        assert len(openai_server.requests) <= spent.calls == limit
        assert spent.tokens >= billing.tokens
        ledger.check_rows()
