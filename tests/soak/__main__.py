"""`python -m tests.soak PART [--size N]`: attack the program, print a table, keep it as JSON.

A part is a module of this folder with SIZE, how much it does by default, and `soak(size)`, which
returns an Outcome. One that can stop early takes `minutes` too. Without PART all of them run, in
about half an hour on two quiet cores: those that take longer stop by time. `--full` has them go on
to their full size.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.running import provenance

HALF_AN_HOUR = {
    "kills": 10.0,
    "names": 3.0,
    "parsers": 5.0,
    "serve": 8.0,
    "strangers": 6.0,
}  # minutes of each
HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"


def parts() -> list[str]:
    """The names of all parts."""
    names = [module.name for module in pkgutil.iter_modules([str(HERE)])]
    return [name for name in names if not name.startswith(("_", "test_"))]


def run(part: str, size: int | None, minutes: float | None, made: Mapping[str, Any]) -> bool:
    """Return True if the part held; its table is printed, and kept with the benchmarks' results and
    `made`, where they come from.
    """
    module = importlib.import_module(f"tests.soak.{part}")
    if not hasattr(module, "soak"):
        raise SystemExit(f"tests.soak.{part} is no part: it has no soak(size)")
    size = size or module.SIZE
    start = time.monotonic()
    limited = minutes and "minutes" in inspect.signature(module.soak).parameters
    outcome = module.soak(size, minutes) if limited else module.soak(size)
    seconds = round(time.monotonic() - start, 1)
    print(f"\n{part}, {size:,} ({seconds:g} s)\n\n{markdown(outcome.table)}")
    for failure in outcome.failures[:20]:
        print(f"FAILED: {failure}", file=sys.stderr)
    command = f"python -m tests.soak {part} --size {size}"
    command += f" --minutes {minutes:g}" if limited else ""
    record = {
        "provenance": {**made, "command": command, "seconds": seconds},
        "size": size,
        "table": list(outcome.table),
        "failures": list(outcome.failures),
    }
    record |= {"rows": list(outcome.rows)} if outcome.rows else {}
    path = RESULTS / f"soak_{part}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return not outcome.failures


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[str(row.get(column, "")) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Attack as the command's arguments say; exit code 1 where something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(parts())}; none: all of them")
    parser.add_argument(
        "--size", "--requests", type=int, help="how much; each part has its default"
    )
    parser.add_argument("--minutes", type=float, help="stop earlier, for parts that can")
    parser.add_argument("--full", action="store_true", help="all parts at full size")
    arguments = parser.parse_args()
    minutes = {} if arguments.part or arguments.full else HALF_AN_HOUR
    made = provenance()  # before the first part's results change the folder
    held = [
        run(part, arguments.size, arguments.minutes or minutes.get(part), made)
        for part in arguments.part or parts()
    ]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
