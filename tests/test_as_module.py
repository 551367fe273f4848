"""`python -m equipoise` and the worker's pipe, in this process, where what they do is seen."""

import importlib
import io
import runpy
import signal
import sys
import threading
import time
from types import SimpleNamespace

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


def test_what_ends_is_not_interrupted():
    before = signal.getsignal(signal.SIGINT)
    try:
        interrupts.ignore()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def signals(monkeypatch):
    """What becomes of the process is noted and not done; its own signals come back."""
    kept = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    ended = []
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr("os.write", lambda *_: None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    for number in kept:  # whatever this process was started to ignore
        signal.signal(number, signal.SIG_DFL)
    yield ended
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_the_first_signal_stops_and_the_second_ends(signals):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as it was started
    interrupts.stop_first()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signals == []
    signal.raise_signal(signal.SIGINT)
    assert signals == [130]


def test_what_is_imported_is_not_left_half_made(signals, tmp_path, monkeypatch):
    (tmp_path / "half_made.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    interrupts.stop_first()
    importlib.import_module("half_made")
    assert signals == [130]


def test_an_interrupt_that_cannot_be_raised_ends_and_other_errors_are_told(signals, capsys):
    interrupts.stop_first()
    told = []
    sys_hook, sys.__unraisablehook__ = sys.__unraisablehook__, told.append
    try:
        for kind in (KeyboardInterrupt, ValueError):
            sys.unraisablehook(SimpleNamespace(exc_type=kind))
    finally:
        sys.__unraisablehook__ = sys_hook
    assert signals == [130]
    assert [each.exc_type for each in told] == [KeyboardInterrupt, ValueError]


def test_an_alarm_ends_what_takes_too_long():
    before = signal.getsignal(signal.SIGALRM)
    late = pytest.raises(TimeoutError, match=r"^it takes more than 0\.02 s$")
    with late, interrupts.time_limit(0.02):
        time.sleep(10)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before
    with interrupts.time_limit(60):
        outer = signal.getsignal(signal.SIGALRM)
        with interrupts.time_limit(0.001):  # the outer limit holds
            assert signal.getsignal(signal.SIGALRM) is outer
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 1
    inner = []
    thread = threading.Thread(target=lambda: inner.append(_limited()))
    thread.start()
    thread.join()
    assert inner == [(0, 0)], "other threads have none"


def _limited():
    with interrupts.time_limit(60):
        return signal.getitimer(signal.ITIMER_REAL)
