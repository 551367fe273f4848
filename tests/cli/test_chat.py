"""`equipoise chat`: lines in, answers out, in front of a real server on loopback."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from openai_server import Fail, OpenAIServer, Stream
from small import settings

from equipoise import seeds
from equipoise.cli.chat import ChatSession, Terminal, _defaults
from equipoise.environments.assistance.blocks import write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell
from equipoise.serve.engine import EngineError, EngineRequest, Piece, Refused, extension_offers
from equipoise.types import Message, user

MATRIX = dict.fromkeys(CELLS, Cell(0.5, 0.5)) | {"DQ_DA": Cell(3.0, 2.0), "DQ_CQ": Cell(1.0, 2.5)}


def echo(body: dict) -> Stream:
    """What the chat so far comes to, in two pieces."""
    said = " / ".join(message["content"] for message in body["messages"])
    return Stream((said[:3], said[3:]))


def blocks(body: dict) -> Stream:
    """Four blocks, or what follows a begun answer."""
    if body["messages"][-1]["role"] != "assistant":
        text = write("DQ: clear.", MATRIX, "Choose DQ_DA.", "19")
        return Stream(
            (
                text.partition("</payoff>")[0]
                if "</payoff>" in body.get("stop", ())
                else text.removesuffix("</response>"),
            )
        )
    return Stream(
        (
            "</analyze><response>",
            "Plus what?" if "DQ_CQ." in body["messages"][-1]["content"] else "19",
        )
    )


@pytest.fixture
def chat(command, monkeypatch, openai_server: OpenAIServer):
    """chat("a line\n", …options) in front of the server."""

    def talk(lines: str, *options: str):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        return command("chat", openai_server.url, "-s", "player.model=tiny", *options)

    return talk


def test_lines_are_answered_in_one_conversation(chat, openai_server: OpenAIServer):
    openai_server.answer = echo
    result = chat("one\n\ntwo\n/reset\nthree\n/quit\nfour\n", "--system", "Be brief.")
    assert result.code == 0
    assert result.out.splitlines() == [
        "Be brief. / one",
        "Be brief. / one / Be brief. / one / two",
        "Be brief. / three",
    ]
    assert len({body["seed"] for body in openai_server.bodies()}) == 3


def test_bytes_of_another_encoding_are_replaced(command, monkeypatch, openai_server: OpenAIServer):
    openai_server.answer = echo
    for errors in ("strict", "surrogateescape"):  # as the locale has it
        lines = io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), "utf-8", errors)
        monkeypatch.setattr(sys, "stdin", lines)
        result = command("chat", openai_server.url, "-s", "player.model=tiny")
        assert (result.code, result.out) == (0, "caf\ufffd\n")


def test_the_same_seed_asks_the_same(chat, openai_server: OpenAIServer):
    openai_server.answer = echo
    chat("one\ntwo\n", *settings(seed=7, temperature=0.25, max_tokens=9))
    chat("one\ntwo\n", *settings(seed=7, temperature=0.25, max_tokens=9))
    bodies = openai_server.bodies()
    assert (
        bodies[:2] == bodies[2:]
        and bodies[0]["temperature"] == 0.25
        and bodies[0]["max_tokens"] == 9
    )


def test_an_answer_is_one_json_object_a_line(chat, openai_server: OpenAIServer):
    openai_server.answer = blocks
    result = chat("What is 7 + 12?\n", "--json", *settings(blocks="true", steer="none"))
    (found,) = map(json.loads, result.out.splitlines())
    assert (
        found["question"] == "What is 7 + 12?"
        and found["answer"] == "19"
        and found["finish"] == "stop"
    )
    assert (
        found["hidden"]["chosen"] == "DQ_DA"
        and found["hidden"]["thinking"] == "DQ: clear."
        and found["tokens"] > 0
    )


def test_steering_is_changed_on_the_way(chat, openai_server: OpenAIServer):
    openai_server.answer = blocks
    result = chat("a\n/steer strip\na\n/steer\n/blocks\na\n/steer nonsens\n", "-s", "steering=off")
    assert result.out.splitlines()[0].startswith("<thinking>") and result.out.splitlines()[1:] == [
        "19",
        "19",
    ]
    assert "steering: strip" in result.err and "thinking: DQ: clear." in result.err
    assert "unknown name 'nonsens'" in result.err and result.code == 1


def test_a_failure_is_told_and_the_rest_is_answered(chat, openai_server: OpenAIServer):
    openai_server.script(Fail(400, "too long"), echo)
    result = chat("one\ntwo\n")
    assert (
        result.code == 1
        and "error: tiny: too long" in result.err
        and result.out.splitlines() == ["two"]
    )


def test_mistakes_are_said_in_one_line(command, chat):
    assert "TARGET" in command("chat").err
    result = chat("", "-s", "steer=subscripton")
    assert result.code == 2 and "did you mean 'subscription'" in result.err
    assert "no model 'nobody'" in chat("", "--player", "nobody").err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.slow
def test_ctrl_c_stops_the_answer_and_ctrl_d_ends(openai_server: OpenAIServer):
    import pty

    openai_server.script(Stream(("word ",) * 4000, gap=0.002), echo)
    outer, inner = pty.openpty()
    code = "from equipoise.cli import main; main()"
    options = ["chat", openai_server.url, "-s", "player.model=tiny"]
    program = subprocess.Popen(
        [sys.executable, "-c", code, *options], stdin=inner, stdout=inner, stderr=inner
    )
    seen = Seen(outer)
    seen.until("you> ")
    seen.write("one\n")
    seen.until("word word")
    program.send_signal(signal.SIGINT)
    seen.until("stopped")
    assert openai_server.left.wait(5)
    seen.until("you> ")
    seen.write("two\n")
    seen.until("/ two")  # what was said before it was stopped is remembered
    assert openai_server.bodies()[1]["messages"][1]["content"].startswith("word word")
    seen.until("you> ")
    while not seen.comes("Ctrl-D", 1.0):  # between the prompt and the wait for a key none is heard
        program.send_signal(signal.SIGINT)
    seen.until("you> ")
    seen.write("\x04")
    assert program.wait(30) == 0


class Seen:
    """A pseudo-terminal from outside."""

    def __init__(self, end: int) -> None:
        self._end, self._text = end, ""

    def until(self, words: str) -> None:
        """Read until `words` have come, and no further."""
        assert self.comes(words, 90), f"{words!r} did not come: {self._text[-500:]!r}"

    def comes(self, words: str, seconds: float) -> bool:
        """Return True once `words` have come, False if they have not after so many seconds."""
        import os
        import select

        limit = time.monotonic() + seconds
        while words not in self._text:
            if not select.select([self._end], [], [], max(0, limit - time.monotonic()))[0]:
                return False
            self._text += os.read(self._end, 4096).decode(errors="replace")
        self._text = self._text.partition(words)[2]
        return True

    def write(self, text: str) -> None:
        """Type."""
        import os

        os.write(self._end, text.encode())


def test_a_player_that_is_not_there(command):
    done = command("chat", "builtin", "--player", "nobody")
    assert done.code == 2 and "model 'nobody'" in done.err, done.err


class Says:
    """An engine that says what it is told to, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def generate(self, request):
        self.asked.append(request)
        for piece in self.answers.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def close(self):
        pass


class Loud:
    """An extension that knows one wish."""

    def describe(self, wish):
        if wish not in (None, "loud"):
            raise Refused("it can only be loud")
        return wish or "as it is"

    def wrap(self, engine, wish, report):
        assert report is True
        self.wished = wish
        return engine


@pytest.fixture
def talking(monkeypatch):
    """talking(engine, lines, json=…, show_hidden=…) answers the lines: the terminal, afterwards."""

    def talk(engine, lines, extensions=(), **form):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
        begun = EngineRequest((Message("system", "Be."),), seed=3)
        with asyncio.Runner() as runner:
            session = ChatSession(engine, dict(extensions), begun)
            terminal = Terminal(session, runner, **{"json": False, "show_hidden": False} | form)
            terminal.talk()
        return terminal, session

    return talk


def said(*texts, finish="stop", **last):
    return [*(Piece(text, tokens=2) for text in texts), Piece(finish=finish, tokens=1, **last)]


def test_a_conversation_remembers_what_was_answered(talking, capsys):
    engine = Says(
        said("One", "."), [EngineError("broken")], said("Two", finish="length"), said("3")
    )
    lines = ["a", "", "b", " c ", "/reset", "d", "/quit", "e"]
    terminal, session = talking(engine, lines)
    told = capsys.readouterr()
    assert told.out == "One.\nTwo\n3\n" and terminal.failed == 1
    assert "error: broken\n" in told.err and "the conversation starts afresh" in told.err
    assert "cut off by max_tokens, which counts hidden tokens too" in told.err
    start = Message("system", "Be.")
    chats = [request.messages for request in engine.asked]
    first = (start, user("a"), Message("assistant", "One."))
    assert chats == [
        (start, user("a")),
        (*first, user("b")),
        (*first, user("c")),
        (start, user("d")),
    ]
    dice = [request.seed for request in engine.asked]
    assert dice == [seeds.child(3, "conversation", n) for n in range(4)]
    assert session.messages == (start, user("d"), Message("assistant", "3"))


def test_facts_of_an_answer(talking, capsys):
    hidden = {"equipoise": {"path": [1, 2], "word": "so", "none": None, "empty": []}}
    answer = said("Hm", fields=hidden)
    talking(Says(answer), ["a"], json=True, show_hidden=True)
    whole = json.loads(capsys.readouterr().out)
    assert whole == {
        **{"question": "a", "answer": "Hm", "finish": "stop", "tokens": 3, "error": ""},
        "hidden": hidden["equipoise"],
    }
    talking(Says(answer), ["a"], json=True)
    assert json.loads(capsys.readouterr().out) == whole | {"hidden": {}}
    talking(Says(answer), ["a"], show_hidden=True)
    assert capsys.readouterr() == ("Hm\n", "path: [1, 2]\nword: so\n")
    terminal, _ = talking(Says(said("x", finish="error", error="no room")), ["a"])
    assert capsys.readouterr() == ("x\n", "error: no room\n") and terminal.failed == 1


def test_commands_on_the_way(talking, capsys):
    [offer, *_] = extension_offers().values()
    loud, engine = Loud(), Says(said("a"), said("b"))
    lines = [f"/{offer.wish}", "x", f"/{offer.wish} loud", f"/{offer.wish}", "y"]
    lines += [f"/{offer.wish} quiet", f"/{offer.report}", f"/{offer.report}", "/help", "/no"]
    terminal, _ = talking(engine, lines, {offer.field: loud})
    told = capsys.readouterr()
    notes = told.err.splitlines()
    help_ = notes[-2]
    assert notes == [
        *(f"{offer.field}: as it is", f"{offer.field}: loud", f"{offer.field}: loud"),
        "error: it can only be loud",
        *(f"hidden {offer.report} are {state}" for state in ("shown", "not shown")),
        *(help_, f"error: no command /no; {help_}"),
    ]
    assert help_.endswith("/reset  /quit; Ctrl-C stops an answer, Ctrl-D ends")
    assert f"/{offer.wish} NAME" in help_ and f"/{offer.report}" in help_
    assert terminal.failed == 2 and loud.wished == "loud" and told.out == "a\nb\n"


def test_the_players_sampling_counts_where_the_settings_leave_it_open():
    player = EngineRequest((), temperature=0.5, max_tokens=9, top_p=0.9)
    settings = SimpleNamespace(seed=4, temperature=None, max_tokens=None)
    assert _defaults(player, "", settings) == replace(player, seed=4)
    settings = SimpleNamespace(seed=4, temperature=0.0, max_tokens=3)
    changed = _defaults(player, "Be.", settings)
    assert (changed.temperature, changed.max_tokens, changed.top_p) == (0.0, 3, 0.9)
    assert changed.messages == (Message("system", "Be."),)
