"""`equipoise chat`: lines in, answers out."""

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
from small_runs import settings

from equipoise import seeds
from equipoise.cli.chat import ChatSession, Terminal, _defaults
from equipoise.serve.engine import EngineError, EngineRequest, Piece
from equipoise.types import Message, user


class Echo:
    """An engine that answers with the chat so far, in two pieces, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def generate(self, request):
        self.asked.append(request)
        said = " / ".join(message.content for message in request.messages)
        yield Piece(said[:3], tokens=1)
        yield Piece(said[3:], "stop", 1)

    async def close(self):
        pass


@pytest.fixture
def echo():
    return Echo()


@pytest.fixture
def chat(command, monkeypatch, echo, fake_catalogue):
    """chat("a line\n", …options) with the echo."""

    def talk(lines: str, *options: str):
        monkeypatch.setattr(
            "equipoise.serve.settings.catalogue_of", lambda *_: fake_catalogue({"echo": echo})
        )
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        return command("chat", "builtin", *options)

    return talk


def test_lines_are_answered_in_one_conversation(chat, echo):
    result = chat("one\n\ntwo\n/reset\nthree\n/quit\nfour\n", "--system", "Be brief.")
    assert result.code == 0
    assert result.out.splitlines() == [
        "Be brief. / one",
        "Be brief. / one / Be brief. / one / two",
        "Be brief. / three",
    ]
    assert len({request.seed for request in echo.asked}) == 3


def test_bytes_of_another_encoding_are_replaced(command, monkeypatch, echo, fake_catalogue):
    monkeypatch.setattr(
        "equipoise.serve.settings.catalogue_of", lambda *_: fake_catalogue({"echo": echo})
    )
    for errors in ("strict", "surrogateescape"):  # as the locale has it
        lines = io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), "utf-8", errors)
        monkeypatch.setattr(sys, "stdin", lines)
        result = command("chat", "builtin")
        assert (result.code, result.out) == (0, "caf\ufffd\n")


def test_the_same_seed_asks_the_same(chat, echo):
    chat("one\ntwo\n", *settings(seed=7, temperature=0.25, max_tokens=9))
    chat("one\ntwo\n", *settings(seed=7, temperature=0.25, max_tokens=9))
    asked = echo.asked
    assert len(asked) == 4
    assert asked[:2] == asked[2:]
    assert (asked[0].temperature, asked[0].max_tokens) == (0.25, 9)


def test_an_answer_is_one_json_object_a_line(chat):
    result = chat("What is 7 + 12?\n", "--json")
    (found,) = map(json.loads, result.out.splitlines())
    assert found == {
        "question": "What is 7 + 12?",
        "answer": "What is 7 + 12?",
        "thoughts": "",
        "finish": "stop",
        "tokens": 2,
        "error": "",
    }


def test_mistakes_are_said_in_one_line(command, chat):
    assert "TARGET" in command("chat").err
    result = chat("", "-s", "steering=subscripton")
    assert result.code == 2
    assert "did you mean 'subscription'" in result.err
    assert "no model 'nobody'" in chat("", "--player", "nobody").err


@pytest.mark.parametrize("word", ["steer=strip", "blocks=true"])
def test_a_steering_word_names_what_to_write(chat, word):
    result = chat("", "-s", word)
    assert result.code == 2
    assert "-s steering=NAME" in result.err


def test_a_steering_command_names_what_to_write(chat):
    result = chat("/steer strip\n/blocks\nhello\n")
    assert result.code == 1
    assert result.err.count("start with -s steering=NAME") == 2
    assert result.out == "hello\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.slow
def test_ctrl_c_stops_the_answer_and_ctrl_d_ends():
    import pty

    outer, inner = pty.openpty()
    # A hot and long answer, so that most of it is still to come when the signal does.
    code = "from equipoise.cli import main; main()"
    options = ["chat", "builtin", "-s", "temperature=2", "-s", "max_tokens=4000"]
    program = subprocess.Popen(
        [sys.executable, "-c", code, *options], stdin=inner, stdout=inner, stderr=inner
    )
    seen = Seen(outer)
    seen.until("you> ")
    seen.write("one\n")
    seen.until("one\r\n")
    seen.until("e")  # a letter of the answer
    program.send_signal(signal.SIGINT)
    seen.until("stopped")
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


@pytest.fixture
def talking(monkeypatch):
    """talking(engine, lines, json=…) answers the lines: the terminal, afterwards."""

    def talk(engine, lines, json=False):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
        begun = EngineRequest((Message("system", "Be."),), seed=3)
        with asyncio.Runner() as runner:
            session = ChatSession(engine, begun)
            terminal = Terminal(session, runner, json=json)
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
    assert told.out == "One.\nTwo\n3\n"
    assert terminal.failed == 1
    assert "error: broken\n" in told.err
    assert "the conversation starts afresh" in told.err
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


def test_a_failed_answer_is_said_and_counted(talking, capsys):
    answer = said("x", finish="error", error="no room")
    terminal, _ = talking(Says(answer), ["a"])
    assert capsys.readouterr() == ("x\n", "error: no room\n")
    assert terminal.failed == 1


def test_commands_on_the_way(talking, capsys):
    terminal, _ = talking(Says(said("a")), ["/help", "/no", "x"])
    told = capsys.readouterr()
    help_, fault = told.err.splitlines()
    assert help_ == "/reset  /quit; Ctrl-C stops an answer, Ctrl-D ends"
    assert fault == f"error: no command /no; {help_}"
    assert terminal.failed == 1
    assert told.out == "a\n"


def test_the_players_sampling_counts_where_the_settings_leave_it_open():
    player = EngineRequest((), temperature=0.5, max_tokens=9, top_p=0.9)
    settings = SimpleNamespace(seed=4, temperature=None, max_tokens=None)
    assert _defaults(player, "", settings) == replace(player, seed=4)
    settings = SimpleNamespace(seed=4, temperature=0.0, max_tokens=3)
    changed = _defaults(player, "Be.", settings)
    assert (changed.temperature, changed.max_tokens, changed.top_p) == (0.0, 3, 0.9)
    assert changed.messages == (Message("system", "Be."),)


class Thinker(Echo):
    """An engine that thinks before it answers."""

    async def generate(self, request):
        self.asked.append(request)
        yield Piece(thoughts="9? ", tokens=1)
        yield Piece("Ten", thoughts="No.", tokens=1)
        yield Piece(".", "stop", 1)


def test_thoughts_are_shown_beside_the_answer_and_forgotten():
    thinker = Thinker()
    shown, thoughts = [], []
    session = ChatSession(thinker, EngineRequest(()))
    exchange = asyncio.run(session.ask("one", shown.append, thoughts.append))
    assert (exchange.answer, exchange.thoughts) == ("Ten.", "9? No.")
    assert ("".join(shown), "".join(thoughts)) == ("Ten.", "9? No.")
    assert session.messages[-1] == Message("assistant", "Ten.")


def test_a_piped_answer_is_without_its_thoughts(command, monkeypatch, fake_catalogue):
    catalogue = fake_catalogue({"echo": Thinker()})
    monkeypatch.setattr("equipoise.serve.settings.catalogue_of", lambda *_: catalogue)
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n"))
    result = command("chat", "builtin")
    assert result.out == "Ten.\n"
    assert "9? No." in result.err
