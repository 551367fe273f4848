"""Ctrl-C and SIGTERM: the first stops what is under way, a second one ends the process at once. A
run loses nothing by either: its ledger is whole at any moment. Limits of time, by an alarm.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPPED = 130  # the exit code
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 30.0  # seconds for what takes a moment where nobody means harm


def end_at_once() -> None:
    """End the process on either signal from now on, without a traceback."""
    _listen(end)


def stop_first() -> None:
    """Raise KeyboardInterrupt on the first signal, end the process on the next.

    On the first while modules are imported, for none can be left half made.
    """
    _listen(_stop)
    sys.unraisablehook = _end_on_unraisable


def ignore() -> None:
    """Ignore Ctrl-C from now on: the process is about to end with its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _listen(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        # What this process was started to ignore stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    end_at_once()
    if _importing(frame):
        end(number, frame)
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def end(number: int, frame: FrameType | None) -> None:
    """End the process at once, with one line."""
    os.write(2, b"\nstopped; what is recorded is kept\n")
    os._exit(STOPPED)


def _end_on_unraisable(unraisable: Any) -> None:
    """End the process on an interrupt that cannot be raised, as in a destructor."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        end(0, None)
    sys.__unraisablehook__(unraisable)


@contextmanager
def time_limit(seconds: float = PATIENCE) -> Iterator[None]:
    """Raise TimeoutError after `seconds`; without limit in other threads than the main one."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def late(number: int, frame: Any) -> None:
        raise TimeoutError(f"it takes more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    # Again and again, for what is interrupted may catch it.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
