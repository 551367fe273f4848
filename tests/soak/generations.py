"""Many generations of a small recipe in one process: memory, threads and open files stay as they
are. How long a generation takes is shown, not judged.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.loop import generation
from equipoise.runs.measure_players import measure
from equipoise.runs.open_run import OpenRun
from tests.soak._outcome import Outcome

SIZE = 500
RECIPE = "rock_paper_scissors"
ROWS = 10  # of the table
GROWTH = 0.05  # of memory, from the first row, which may be taken to be none


def soak(size: int) -> Outcome:
    """Play `size` generations, and look at the process after every tenth of them."""
    rows: list[Mapping[str, Any]] = []
    every = max(1, size // ROWS)
    with tempfile.TemporaryDirectory() as home:
        config = recipe_loader.load(RECIPE, {"generations": size})
        with new_run(config, Path(home, "run")) as run:
            opened = OpenRun(run)
            measure(opened, 0)
            started = time.process_time()
            for t in range(size):
                generation(opened, t)
                if (t + 1) % every == 0:
                    seconds = time.process_time() - started
                    rows.append(_looked(t + 1, seconds / every))
                    started = time.process_time()
    return Outcome(rows, list(_grown(rows)))


def _looked(generations: int, seconds: float) -> Mapping[str, Any]:
    """What the process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "generations": generations,
        "memory, MiB": round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        "threads": threading.active_count(),
        "open files": len(os.listdir("/proc/self/fd")),
        "CPU ms a generation": round(1000 * seconds, 1),
    }


def _grown(rows: list[Mapping[str, Any]]) -> list[str]:
    """What is more at the end than it was at first."""
    first, last = rows[0], rows[-1]
    grown = [
        f"{name}: {first[name]} after {first['generations']} generations, {last[name]} "
        f"after {last['generations']}"
        for name in ("threads", "open files")
        if last[name] > first[name]
    ]
    memory = "memory, MiB"
    if last[memory] > (1 + GROWTH) * first[memory]:
        grown.append(f"{memory}: from {first[memory]} to {last[memory]}")
    return grown
