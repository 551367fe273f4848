"""`python -m equipoise` and the worker's pipe, in this process, where what they do is seen."""

import io
import runpy
import sys

import pytest

from equipoise import __version__
from equipoise.runs.executors.worker import receive, send
from equipoise.system import interrupts


@pytest.mark.skipif(sys.flags.safe_path, reason="Python puts no folder first")
def test_the_module_is_the_command_and_the_current_folder_is_not_searched(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["equipoise", "--version"])
    monkeypatch.setattr(sys, "path", ["here first", *sys.path])
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    for name in ("end_at_once", "stop_first"):  # this process keeps its own signals
        monkeypatch.setattr(interrupts, name, lambda: None)
    monkeypatch.setattr("atexit.register", lambda call: call)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("equipoise", run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out == f"equipoise {__version__}\n"
    assert "here first" not in sys.path


def test_messages_come_out_of_the_pipe_as_they_went_in():
    pipe = io.BytesIO()
    for message in (b"one", b"", b"three" * 100):
        send(pipe, message)
    whole = pipe.getvalue()
    pipe.seek(0)
    assert [receive(pipe) for _ in range(4)] == [b"one", b"", b"three" * 100, None]
    broken = io.BytesIO(whole[:-1])
    assert [receive(broken) for _ in range(3)] == [b"one", b"", None]
    assert receive(io.BytesIO(whole[:7])) is None
