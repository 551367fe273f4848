"""`python -m tests.soak PART [--size N]`: attack the program, print a table, keep it as JSON.

A part is a module of this folder with SIZE, how much it does by default, and `soak(size)`, which
returns an Outcome. One that can stop early takes `minutes` too. Without PART all of them run, in
about half an hour on two quiet cores: those that take longer stop by time. `--full` has them go on
to their full size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pkgutil
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.running import provenance
from tests.soak._part import run

HALF_AN_HOUR = {
    "kills": 10.0,
    "names": 3.0,
    "parsers": 5.0,
    "serve": 8.0,
    "strangers": 6.0,
}  # minutes of each
HERE = Path(__file__).resolve().parent


def parts() -> list[str]:
    """The names of all parts."""
    names = [module.name for module in pkgutil.iter_modules([str(HERE)])]
    return [name for name in names if not name.startswith(("_", "test_"))]


def long_ones_first() -> list[str]:
    """All parts, so that those which run side by side end at about the same time."""
    return sorted(parts(), key=lambda part: part not in HALF_AN_HOUR)


def main() -> None:
    """Attack as the command's arguments say; exit code 1 where something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(parts())}; none: all of them")
    parser.add_argument(
        "--size", "--requests", type=int, help="how much; each part has its default"
    )
    parser.add_argument("--minutes", type=float, help="stop earlier, for parts that can")
    parser.add_argument("--full", action="store_true", help="all parts at full size")
    parser.add_argument("--jobs", type=int, default=1, help="parts that run side by side")
    arguments = parser.parse_args()
    minutes = {} if arguments.part or arguments.full else HALF_AN_HOUR
    made = provenance()  # before the first part's results change the folder
    processes = ProcessPoolExecutor(
        arguments.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    with processes:
        running = [
            processes.submit(
                run, part, arguments.size, arguments.minutes or minutes.get(part), made
            )
            for part in arguments.part or long_ones_first()
        ]
        held = [part.result() for part in running]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
