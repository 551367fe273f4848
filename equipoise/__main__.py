"""The command: `equipoise`, and `python -m equipoise`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # Python has put the current folder first; what lies there must not take the place of an
    # installed module.
    del sys.path[0]

import atexit
import os

from equipoise.system import interrupts


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
