"""The page on which people vote, over HTTP: what it sends, what it takes, what it refuses."""

import re
import socket

import httpx
import people_run
import pytest
from starlette.testclient import TestClient

from equipoise.ledger.votes_and_matches import HUMAN, votes_of
from equipoise.people.ballot import open_ballot
from equipoise.runs.directory import RunDirectory
from equipoise.serve import vote_page
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.vote_page import vote_app

CHAT_KEYS = {"id", "chat", "left", "right", "warning"}


@pytest.fixture
def page(tmp_path, serving_app):
    """The page of a run, with the token `secret`: (post(call, body), its address, run)."""
    run = people_run.write(tmp_path / "run")
    limits = Limits.model_validate({"body_bytes": 50_000})
    with (
        open_ballot(run, overlap=0.0) as ballot,
        serving_app(vote_app(ballot, limits, "secret"), limits) as url,
        httpx.Client(base_url=url) as client,
    ):

        def post(call, body, token="secret"):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return client.post(f"/api/{call}", json=body, headers=headers)

        yield post, client, run


def test_the_page_fetches_nothing_from_elsewhere(page):
    _, client, _ = page
    shown = client.get("/")
    assert shown.headers["content-type"].startswith("text/html")
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert shown.headers["cache-control"] == "no-store"
    for path in ("/", "/page.js", "/page.css"):
        text = client.get(path).text
        assert not re.search(r"https?://|//[a-z]+\.", text), path
        assert "innerHTML" not in text
        assert " on" not in re.findall(r"<[^>]+>", text)


def test_what_is_shown_needs_the_token_and_the_page_itself_says_nothing(page):
    post, client, run = page
    for token in (None, "wrong"):
        for call in ("question", "vote"):
            assert post(call, {"voter": "ann"}, token).status_code == 401
    shown = client.get("/").text
    assert "poet" not in shown
    assert run.name not in re.sub("<[^>]*>", "", shown)
    assert client.get("/api/question").status_code == 401
    assert post("nothing", {}).status_code == 404


def test_a_voter_is_asked_and_heard_without_learning_whose_answers_they_are(page):
    post, _, run = page
    reply = post("question", {"voter": "ann"})
    shown = reply.json()["question"]
    assert set(shown) == CHAT_KEYS
    with RunDirectory.read(run) as opened:
        title = opened.config.name
    assert reply.json()["about"].startswith(f"You compare answers of the run “{title}” to prompts")
    assert not any(name in reply.text for name in ("poet", "clerk", "sage@"))
    vote = {
        "voter": " ann ",
        "left": {key: shown["left"][key] for key in ("match", "seat")},
        "right": {key: shown["right"][key] for key in ("match", "seat")},
        "choice": "both_bad",
        "reason": "<b>neither</b>",
    }
    for _ in range(2):  # a double click
        assert post("vote", vote).json() == {"choice": "both_bad", "votes": 1}
    [kept] = votes_of(run).read()
    assert (kept.voter, kept.reason, kept.choice) == ("ann", "<b>neither</b>", "both_bad")
    asked = post("question", {"voter": "ann"}).json()
    assert asked["votes"] == asked["all"] == 1
    assert asked["question"]["id"] != shown["id"]


def test_nonsense_is_refused_with_what_is_wrong(page):
    post, client, run = page
    asked = post("question", {"voter": "ann"}).json()["question"]
    vote = {"voter": "ann", "left": asked["left"], "right": asked["right"]}
    for call, body, message in (
        ("question", {}, "voter"),
        ("question", {"voter": ""}, "a name has"),
        ("question", {"voter": "a" * 61}, "a name has"),
        ("question", {"voter": 3}, "voter"),
        ("vote", {**vote, "choice": "up"}, "choice"),
        ("vote", {**vote, "choice": "left", "left": {"match": "x"}}, "left.seat"),
        ("vote", {**vote, "choice": "left", "left": asked["right"]}, "no such two"),
        ("vote", {**vote, "choice": "left", "reason": "x" * 3000}, "at most 2000"),
    ):
        refused = post(call, body)
        assert refused.status_code == 400, body
        assert message in refused.json()["error"]["message"], body
    assert post("vote", {"reason": "x" * 60_000}).status_code == 413
    broken = client.post("/api/vote", content=b"[", headers={"authorization": "Bearer secret"})
    assert broken.status_code == 400
    assert not votes_of(run).read()


@pytest.mark.parametrize(
    ("name", "message"), [("same", "nothing to vote on"), ("nowhere", "no run here")]
)
def test_what_cannot_be_voted_on_is_said(command, tmp_path, name, message):
    people_run.write(tmp_path / "same", answers=dict.fromkeys(("one", "two"), "Yes."))
    result = command("vote", name, "--port", "0")
    assert result.code == 2
    assert message in result.err


def test_a_taken_port_and_a_second_vote_are_said(command, tmp_path):
    run = people_run.write(tmp_path / "run", prompts=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command("vote", "run", "--port", port)
        assert result.code == 2
        assert f"cannot listen on 127.0.0.1:{port}" in result.err
    with open_ballot(run):
        result = command("vote", "run", "--port", 0)
        assert result.code == 2
        assert "people vote on it already" in result.err


def test_people_are_ranked_by_the_command(command, tmp_path):
    run = people_run.write(tmp_path / "run", prompts=1)
    assert "nobody has voted yet" in command("rate", "run", "--judge", "human").err
    with open_ballot(run) as ballot:
        asked = ballot.question("ann")
        ballot.vote("ann", asked.left, asked.right, "left")
    rated = command("rate", "run", "--judge", "human", "--json")
    assert rated.facts["of"] == "votes"
    assert len(rated.facts["ratings"][0]) == 2


def test_votes_are_in_the_records_once_the_page_is_closed(tmp_path, monkeypatch):
    """The server itself goes on until Ctrl-C, and is left out."""
    run = people_run.write(tmp_path / "run", prompts=1)
    told = []

    def serve_two_votes(app, host, port, token, announce):
        announce(f"{host}:{port}")
        with TestClient(
            app, base_url="http://127.0.0.1", headers={"authorization": "Bearer t"}
        ) as page:
            for voter in ("ann", "ben"):
                asked = page.post("/api/question", json={"voter": voter}).json()["question"]
                sides = {
                    side: {key: asked[side][key] for key in ("match", "seat")}
                    for side in ("left", "right")
                }
                body = {"voter": voter, "choice": "left", **sides}
                assert page.post("/api/vote", json=body).status_code == 200

    monkeypatch.setattr(vote_page, "serve_page", serve_two_votes)
    votes = vote_page.vote(run, port=7, token="t", announce=told.append)
    assert votes == 2
    assert told == ["127.0.0.1:7"]
    with RunDirectory.read(run) as read:
        judges = dict(read.ledger.rows("SELECT judge, count(*) FROM judgements GROUP BY judge"))
    assert judges[HUMAN] == len({vote.pair for vote in votes_of(run).read()})
