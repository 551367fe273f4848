"""The command: `equipoise`, and `python -m equipoise`.

Ctrl-C ends it with code 130 and without a traceback from the first statement on, before anything is
imported that takes a moment. What comes before is Python's own start.
"""

import _signal  # pyright: ignore[reportMissingImports]  the core of `signal`, which imports more
import os
import sys


def end_before_start(*_: object) -> None:
    """End the process, which has done nothing yet."""
    os.write(2, b"\nstopped\n")
    os._exit(130)


if __name__ == "__main__" or sys.argv[0].endswith("equipoise"):  # not where it is only imported
    for _number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(_number) != _signal.SIG_IGN:
            _signal.signal(_number, end_before_start)

if __name__ == "__main__" and not sys.flags.safe_path:
    # Python has put the current folder first; what lies there must not take the place of an
    # installed module.
    del sys.path[0]

import atexit  # noqa: E402

from equipoise.system import interrupts  # noqa: E402


def main() -> None:
    """Run the command; Ctrl-C and SIGTERM end it without a traceback at any moment."""
    os.environ["PYTHONSAFEPATH"] = "1"  # for processes that libraries start
    interrupts.end_at_once()
    atexit.register(interrupts.ignore)  # runs last, when Python itself is closed down
    from equipoise.cli import main as command

    interrupts.stop_first()
    try:
        command()
    finally:
        interrupts.end_at_once()


if __name__ == "__main__":
    main()
