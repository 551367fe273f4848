"""The pages for people in a real browser: by keyboard, on a narrow screen, in the dark; hostile
texts do nothing, nothing is fetched from elsewhere, no vote is lost.
"""

import json
import os
import signal
import socket
from contextlib import contextmanager
from pathlib import Path

import people_run
import pytest
from browser import Browser, needs_chromium
from fixtures.report_pages import HOSTILE
from small_runs import start

from equipoise.blocks.section import clean
from equipoise.games.base import Game
from equipoise.ledger.votes_and_matches import played_matches, votes_of
from equipoise.people.ballot import open_ballot
from equipoise.people.play_server import open_play_server
from equipoise.runs.directory import RunDirectory
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.play_page import play_app
from equipoise.serve.vote_page import vote_app
from equipoise.types import Prompt, user

pytestmark = [needs_chromium, pytest.mark.long]
PICTURES = os.environ.get("EQUIPOISE_PICTURES")  # a folder to keep pictures in


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def voting(serving_app):
    @contextmanager
    def serve(run: Path, part: str = ""):
        limits = Limits.model_validate({})
        with (
            open_ballot(run, part, overlap=0.0) as ballot,
            serving_app(vote_app(ballot, limits, "secret"), limits) as url,
        ):
            yield url

    return serve


def keep(browser: Browser, name: str) -> None:
    if PICTURES:
        browser.picture(Path(PICTURES, f"{name}.png"))


def foreign(browser: Browser, url: str) -> list[str]:
    """What was asked for at another address."""
    return [each for each in browser.requests() if not each.startswith(url)]


def begin(browser: Browser, url: str, voter: str, token: str = "secret") -> None:
    """Open the page as a new person."""
    browser.visit(f"{url}/#{token}")
    browser.do("localStorage.clear()")
    browser.visit(f"{url}/#{token}")
    browser.until("!document.getElementById('name-form').hidden")
    browser.type(voter)
    browser.press("Enter")
    browser.do("document.querySelector('#name-form button').click()")
    browser.until(ASKED)


ASKED = "!document.getElementById('question').hidden"
TEXTS = "['left', 'right'].map((id) => document.getElementById(id).textContent)"
READY = "document.getElementById('question').ariaBusy !== 'true'"
KEYS_HIDDEN = "document.getElementById('keys').hidden"
COUNTS = "document.getElementById('counts').textContent"


def answer(browser: Browser, key: str, votes: int) -> None:
    browser.press(key)
    browser.until(f"{COUNTS}.startsWith('{votes} votes') && {READY}")


def test_two_vote_by_keyboard_and_nothing_is_fetched(browser, voting, tmp_path):
    run = people_run.write(tmp_path / "run")
    browser.look()
    with voting(run) as url:
        begin(browser, url, "ann")
        assert browser.do("location.hash") == ""
        first = browser.do(TEXTS)
        keep(browser, "vote")
        assert "You compare answers of the run" in browser.do("document.body.innerText")
        assert browser.do(KEYS_HIDDEN), "keys are shown once a question was answered"
        for votes, key in enumerate(("a", "ArrowRight", "t", "x"), 1):
            answer(browser, key, votes)
        assert not browser.do(KEYS_HIDDEN)
        keep(browser, "vote_keys")
        browser.press("s")
        browser.until(READY)
        browser.do("document.querySelector('details').open = true")
        browser.do("document.getElementById('reason').focus()")
        browser.type("because a is better")  # no key is a vote while one writes
        browser.do("document.querySelector('[data-choice=left]').click()")
        browser.until(f"{COUNTS}.startsWith('5 votes') && {READY}")
        assert foreign(browser, url) == []
        assert browser.complaints() == []
        begin(browser, url, "ben")
        answer(browser, "b", 1)
        assert "6 by everybody" in browser.do(COUNTS)
        browser.do("document.body.textContent")
    votes = votes_of(run).read()
    assert [vote.choice for vote in votes] == ["left", "right", "tie", "both_bad", "left", "right"]
    assert votes[4].reason == "because a is better"
    assert {vote.voter for vote in votes} == {"ann", "ben"}
    assert len(set(first)) == 2


def test_hostile_texts_are_shown_letter_by_letter(browser, voting, tmp_path):
    texts = {
        "one": "\n".join(text.replace("\ud800", "") for text in HOSTILE),
        "two": "שלום עולם, this is read from the right " + "w" * 5000 + " &amp;\n" * 500,
    }
    run = people_run.write(tmp_path / "run", prompts=1, answers={"one": "1", "two": "2"})
    prompt = Prompt("h", (user("<script>document.title='pwned'</script>" * 3),))
    with RunDirectory.open(run) as opened:
        opened.ledger.add_prompts([prompt], "test", 0)
        opened.ledger.add_matches(
            people_run.match_of(prompt, {"1": (name, text)}, "test") for name, text in texts.items()
        )
    browser.look(360, 740)
    with voting(run, "test") as url:
        begin(browser, url, "<img src=x onerror=alert(1)>")
        shown = browser.do(TEXTS)
        assert sorted(shown) == sorted(map(clean, texts.values()))
        assert browser.do("document.title") == "Which answer is better?"
        counted = "document.querySelectorAll('{}').length"
        for tag in ("img", "iframe", "marquee", "plaintext", "main script", "svg"):
            assert browser.do(counted.format(tag)) == 0, tag
        assert browser.do("document.documentElement.scrollWidth") <= 360
        keep(browser, "vote_hostile_narrow")
        answer(browser, "a", 1)
        assert foreign(browser, url) == []
        assert browser.complaints() == []
    assert votes_of(run).read()[0].voter == "<img src=x onerror=alert(1)>"


def test_on_a_phone_in_the_dark_everything_is_in_reach(browser, voting, tmp_path):
    run = people_run.write(tmp_path / "run")
    browser.look(360, 740, dark=True)
    with voting(run) as url:
        begin(browser, url, "ann")
        assert browser.do("document.documentElement.scrollWidth") <= 360
        background = "getComputedStyle(document.body).backgroundColor"
        assert browser.do(background) == "rgb(20, 24, 29)"
        sizes = browser.do(
            "[...document.querySelectorAll('.choices button')].map((b) => "
            "{ const r = b.getBoundingClientRect(); "
            "return [r.height >= 44, r.bottom <= innerHeight, r.right <= 360]; })"
        )
        assert sizes == [[True, True, True]] * 5
        keep(browser, "vote_dark_narrow")
        browser.look(360, 740)
        assert browser.do(background) == "rgb(255, 255, 255)"
    browser.look()


def test_without_the_token_nothing_is_shown_until_it_is_given(browser, voting, tmp_path):
    run = people_run.write(tmp_path / "run")
    browser.look()
    with voting(run) as url:
        browser.visit(url)
        browser.do("localStorage.clear(); sessionStorage.clear()")
        browser.do("localStorage.setItem('equipoise voter', 'ann')")
        browser.visit(url)
        browser.until("!document.getElementById('token-form').hidden")
        assert browser.do(TEXTS) == ["", ""]
        keep(browser, "token")
        browser.type("wrong")
        browser.do("document.querySelector('#token-form button').click()")
        browser.until("!document.getElementById('token-form').hidden")
        browser.type("secret")
        browser.do("document.querySelector('#token-form button').click()")
        browser.until(ASKED)


def test_a_killed_server_loses_no_vote(browser, tmp_path, monkeypatch):
    run = people_run.write(tmp_path / "run")
    monkeypatch.setenv("VOTE_TOKEN", "secret")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = ("vote", "run", "--port", str(port), "--token-env", "VOTE_TOKEN")
    url = f"http://127.0.0.1:{port}"
    server = start(*arguments, "--json", cwd=tmp_path)
    assert server.stdout is not None
    try:
        assert json.loads("".join(server.stdout.readline() for _ in range(3))) == {"url": f"{url}/"}
        begin(browser, url, "ann")
        answer(browser, "a", 1)
        shown = browser.do(TEXTS)
        server.send_signal(signal.SIGKILL)
        server.wait()
        browser.press("b")
        browser.until("document.getElementById('status').className === 'bad'")
        assert browser.do(TEXTS) == shown
        browser.call("Page.reload")  # the page is closed, too, with its vote unsent
        server = start(*arguments, "--json", cwd=tmp_path)
        assert server.stdout is not None
        assert server.stdout.readline()
        browser.visit(f"{url}/#secret")
        browser.until(f"{COUNTS}.startsWith('2 votes') && {READY}")
        answer(browser, "t", 3)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    votes = votes_of(run).read()
    assert [vote.choice for vote in votes] == ["left", "right", "tie"]
    assert server.returncode in (0, 130)


@pytest.fixture
def sitting_down(serving_app):
    @contextmanager
    def serve(run: Path, port: int = 0):
        limits = Limits.model_validate({})
        game = Game.build(
            {"kind": "assistance", "text": "none", "blocks": False, "simulated": True, "turns": 2}
        )
        with (
            open_play_server(run, "assistant", game) as play_server,
            serving_app(play_app(play_server, limits, "secret"), limits, port) as url,
        ):
            yield url

    return serve


MATCH = "!document.getElementById('match').hidden"


def test_a_match_is_played_by_keyboard_across_a_restart(browser, sitting_down, tmp_path):
    hostile = HOSTILE[0] + HOSTILE[2]
    run = people_run.write(tmp_path / "run", answers={"rocky": hostile})
    text = "document.getElementById('text').value"
    browser.look(360, 740, dark=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with sitting_down(run, port) as url:
        browser.visit(f"{url}/#secret")
        browser.do("localStorage.clear()")
        browser.visit(f"{url}/#secret")
        browser.until("!document.getElementById('name-form').hidden")
        browser.type("ann")
        browser.do("document.querySelector('#name-form button').click()")
        browser.until(MATCH)
        assert hostile in browser.do("document.getElementById('chat').textContent")
        browser.type("What do you mean?")
        keep(browser, "play_dark_narrow")
        browser.do("document.getElementById('send').click()")
        browser.until(f"{text} === ''")
    browser.look()
    with sitting_down(run, port) as url:
        browser.visit(f"{url}/#secret")
        browser.until(f"{MATCH} && document.activeElement.id === 'text'")
        chat = browser.do("document.getElementById('chat').textContent")
        assert "What do you mean?" in chat
        assert browser.do("document.title") == "Play"
        browser.type("So it is.")
        browser.do("document.getElementById('send').click()")
        browser.until("!document.getElementById('after').hidden")
        keep(browser, "play_over")
        assert foreign(browser, url) == []
        assert browser.complaints() == []
    [played] = played_matches(run).read()
    own = [turn.move.text for turn in played.match.turns if turn.seat == "assistant"]
    assert own == ["What do you mean?", "So it is."]
