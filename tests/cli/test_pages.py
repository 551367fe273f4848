"""The verbs that serve until they are stopped: what they say first, what answers there, and that
Ctrl-C ends them.
"""

import json
import os
import re
import shutil
import signal
import socket
import threading

import httpx
import pytest

from equipoise.ledger.votes_and_matches import votes_of


@pytest.fixture
def while_served(command):
    """while_served(visit, "vote", …) runs the verb, calls `visit(client)` with a client of its
    address, and stops it by SIGINT: (what the verb left, what the visit gave).
    """

    def run(visit, *arguments):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        found, over = [], threading.Event()

        def visitor():
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                while not over.wait(0.01):
                    try:
                        client.get("/")
                        break
                    except httpx.TransportError:
                        continue
                try:
                    if not over.is_set():
                        found.append(visit(client))
                finally:
                    if not over.is_set():
                        os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=visitor)
        thread.start()
        try:
            done = command(*arguments, "--port", port)
        finally:
            over.set()
            thread.join(30)
        done.out = done.out.replace(str(port), "PORT")
        return done, found[0] if found else None

    return run


@pytest.fixture
def run(recorded_folder, tmp_path, monkeypatch):
    """A run whose people's records are its own, and the token `sesame`."""
    monkeypatch.setenv("MY_TOKEN", "sesame")
    return shutil.copytree(recorded_folder("people"), tmp_path / "run")


def posts(*calls):
    """A visit that posts these calls, with the token: their answers."""

    def visit(client):
        headers = {"authorization": "Bearer sesame"}
        return [
            client.post(f"/api/{call}", json=body, headers=headers).json() for call, body in calls
        ]

    return visit


pytestmark = pytest.mark.long  # each waits for a server to end
TOKEN = ("--token-env", "MY_TOKEN")


def test_people_vote_until_it_is_stopped(while_served, run):
    def visit(client):
        [asked] = posts(("question", {"voter": "ann"}))(client)
        shown = asked["question"]
        sides = {side: {k: shown[side][k] for k in ("match", "seat")} for side in ("left", "right")}
        return posts(("vote", {"voter": "ann", **sides, "choice": "left"}))(client)

    done, answers = while_served(visit, "vote", run, "--part", "held_out", *TOKEN)
    assert done.code == 0
    assert answers == [{"choice": "left", "votes": 1}]
    assert done.out == (
        "open http://127.0.0.1:PORT/ (and the token in $MY_TOKEN)\n"
        "Ctrl-C ends it; nothing is lost\n"
    )
    assert [vote.voter for vote in votes_of(run).read()] == ["ann"]


def test_a_part_without_answers_cannot_be_voted_on(command, run):
    done = command("vote", run, "--part", "test", "--no-token")
    assert done.code == 2
    assert "test" in done.err


def test_people_play_on_a_page(while_served, run):
    game = "{kind: matrix, name: rock_paper_scissors}"
    call = ("begin", {"name": "ann"})
    arguments = ("--page", "--game", game, "--seat", "column", "--no-token", "--json")
    done, [begun] = while_served(posts(call), "play", run, *arguments)
    assert done.code == 0
    assert json.loads(done.out) == {"url": "http://127.0.0.1:PORT/"}
    assert (begun["seat"], begun["game"], begun["over"]) == ("column", "matrix", False)


@pytest.mark.parametrize("json_wanted", [True, False])
def test_what_is_served_is_announced_without_a_token_that_is_known(
    while_served, model_folder, monkeypatch, json_wanted
):
    monkeypatch.setenv("MY_TOKEN", "sesame")
    model = model_folder("llama")

    def visit(client):
        listed = client.get("/v1/models", headers={"authorization": "Bearer sesame"})
        return [each["id"] for each in listed.json()["data"]]

    form = ["--json"] if json_wanted else []
    done, listed = while_served(visit, "serve", model, *TOKEN, *form)
    assert done.code == 0
    assert listed == [model.name]
    if json_wanted:
        facts = {"url": "http://127.0.0.1:PORT/v1", "models": listed, "token": None}
        assert json.loads(done.out) == facts
    else:
        address = "http://127.0.0.1:PORT/v1 (token from $MY_TOKEN)"
        assert done.out == f"serving {listed[0]} at {address}\n"


def test_a_fresh_token_is_said(while_served, model_folder):
    """And nobody else's is taken."""
    done, status = while_served(
        lambda client: client.get("/v1/models").status_code, "serve", model_folder("llama")
    )
    assert status == 401
    said = re.fullmatch(r"serving \S+ at http://127.0.0.1:PORT/v1 \(token (\S{32})\)\n", done.out)
    assert said, done.out
    done, status = while_served(
        lambda client: client.get("/v1/models").status_code,
        "serve",
        model_folder("llama"),
        "--no-token",
    )
    assert status == 200
    assert done.out.endswith("(no token)\n")
