"""One part of the soak: run, printed as a table and kept."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


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
