"""Web pages from elsewhere, in a real browser, against the pages for people and the server of
models: another origin, and a name that was bound anew to this machine (DNS rebinding), read nothing
and leave nothing behind.
"""

import json
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import people_run
import pytest
from browser import Browser, needs_chromium

from equipoise.games.base import Game
from equipoise.ledger.votes_and_matches import played_matches, votes_of
from equipoise.people.ballot import open_ballot
from equipoise.people.play_server import open_play_server
from equipoise.serve.app import create
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.play_page import play_app
from equipoise.serve.vote_page import vote_app

pytestmark = [needs_chromium, pytest.mark.long]
ELSEWHERE = "elsewhere.test"  # resolves to this machine
LIMITS = Limits.model_validate({})
# What a page can learn of an address: the status and text of an answer, or that it got none.
ASK = """(async (url, options) => {
  try {
    const reply = await fetch(url, options);
    return [reply.type, reply.status, await reply.text()];
  } catch (error) { return ["refused", 0, ""]; }
})"""
CALLS = {
    "vote": ("/api/question", "/api/vote"),
    "play": ("/api/begin", "/api/move"),
    "models": ("/v1/models", "/v1/chat/completions", "/tokenize", "/tokenizer_info", "/health"),
}
BODY = '{"voter": "eve", "name": "eve", "run": 0, "model": "talker"}'


class _Page(BaseHTTPRequestHandler):
    """An empty page without any policy."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title>")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def elsewhere():
    """The port of a stranger's web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    rule = f"--host-resolver-rules=MAP *.test 127.0.0.1, MAP {ELSEWHERE} 127.0.0.1"
    opened = Browser(tmp_path_factory.mktemp("profile"), rule)
    yield opened
    opened.close()


@pytest.fixture
def serving_all(serving_app, fake_engine, fake_catalogue, tmp_path):
    """With a token or None: the addresses of everything that serves, and the run behind it."""

    @contextmanager
    def serve(token: str | None):
        run = people_run.write(tmp_path / "run")
        game = Game.build(
            {"kind": "assistance", "text": "none", "blocks": False, "simulated": True, "turns": 2}
        )
        with ExitStack() as stack:
            ballot = stack.enter_context(open_ballot(run))
            seats = stack.enter_context(open_play_server(run, "assistant", game))
            apps = {
                "vote": vote_app(ballot, LIMITS, token),
                "play": play_app(seats, LIMITS, token),
                "models": create(fake_catalogue({"talker": fake_engine()}), LIMITS, token),
            }
            urls = {
                name: stack.enter_context(serving_app(app, LIMITS)) for name, app in apps.items()
            }
            yield urls, run, a_vote(ballot)

    return serve


def asked(browser: Browser, url: str, **options: object) -> tuple[str, int, str]:
    """(type, status, text) of what the open page is answered at an address."""
    kind, status, text = browser.do(f"{ASK}({json.dumps(url)}, {json.dumps(options)})")
    return kind, status, text


def ways(body: str) -> list[dict[str, object]]:
    """How a page can ask."""
    post: dict[str, object] = {"method": "POST", "body": body}
    return [
        {},
        post,
        {**post, "mode": "no-cors"},
        {**post, "headers": {"content-type": "application/json"}},
        {**post, "headers": {"authorization": "Bearer "}},
        {"method": "GET", "mode": "no-cors"},
    ]


def a_vote(ballot) -> str:
    """A vote that would count."""
    shown = ballot.question("eve")
    refs = {
        side: {"match": r.match, "seat": r.seat}
        for side, r in (("left", shown.left), ("right", shown.right))
    }
    return json.dumps({"voter": "eve", "choice": "left", **refs})


@pytest.mark.parametrize("token", [None, "secret"])
def test_a_page_from_elsewhere_reads_and_leaves_nothing(browser, serving_all, elsewhere, token):
    with serving_all(token) as (urls, run, vote):
        browser.visit(f"http://{ELSEWHERE}:{elsewhere}/")
        for name, url in urls.items():
            for host in ("127.0.0.1", "localhost", "0.0.0.0"):
                base = url.replace("127.0.0.1", host)
                for path in ("/", "/page.js", *CALLS[name]):
                    for way in ways(vote if path == "/api/vote" else BODY):
                        kind, status, text = asked(browser, base + path, **way)
                        assert text == "" and kind in ("refused", "opaque"), (path, way, text)
                        assert status == 0
        assert votes_of(run).read() == []
        assert played_matches(run).read() == []


@pytest.mark.parametrize("token", [None, "secret"])
def test_a_name_bound_anew_reads_no_data(browser, serving_all, token):
    """The page's own origin is the name, so the browser lets it read every answer."""
    with serving_all(token) as (urls, run, vote):
        for name, url in urls.items():
            base = f"http://{ELSEWHERE}:{urlsplit(url).port}"
            browser.visit(base if name != "models" else f"{base}/health")
            for path in CALLS[name]:
                if path == "/health":
                    continue  # it tells anyone how busy the server is
                for way in ways(vote if path == "/api/vote" else BODY):
                    _, status, text = asked(browser, base + path, **way)
                    assert status in (401, 403, 405), (path, way, status, text)
                    assert "error" in text
                    assert "is 0" not in text
                    assert "talker" not in text
        assert votes_of(run).read() == []
        assert played_matches(run).read() == []


def test_no_page_frames_or_opens_one_and_no_socket_is_opened(browser, serving_all, elsewhere):
    with serving_all(None) as (urls, run, _):
        browser.visit(f"http://{ELSEWHERE}:{elsewhere}/")
        for url in urls.values():
            framed = browser.do(
                "new Promise((done) => { const f = document.createElement('iframe'); "
                f"f.src = '{url}/'; f.onload = () => "
                "{ try { done(f.contentDocument.title) } catch (e) { done('closed') } }; "
                "document.body.append(f); })"
            )
            assert framed in ("closed", "", None), framed
            socket = url.replace("http:", "ws:")
            opened = browser.do(
                f"new Promise((done) => {{ const s = new WebSocket('{socket}/api/vote'); "
                "s.onopen = () => done('open'); s.onerror = () => done('refused'); })"
            )
            assert opened == "refused"
        assert votes_of(run).read() == []


def test_a_page_without_an_origin_of_its_own_is_refused(browser, serving_all):
    """As of a file, a frame in a sandbox or data: the browser says `Origin: null`."""
    with serving_all(None) as (urls, run, vote):
        browser.visit("data:text/html,<title>a</title>")
        for name, url in urls.items():
            for path in CALLS[name]:
                kind, status, text = asked(
                    browser, url + path, method="POST", body=vote if path == "/api/vote" else BODY
                )
                assert (kind, status, text) == ("refused", 0, "")
        assert votes_of(run).read() == []
