"""Memory and seconds of a generation of many prompts, by stage.

    python -m benchmarks.prompt_memory [--rows 100000]

Writes a file of rows of about a hundred characters and plays one generation of all of them by a
scripted player, judged by length, in a process of its own. Shown is the memory that the process holds
over that before the run, a prompt, at the end of each stage and at its highest within it, and the
seconds of the stage.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.running import write_results

WORDS = [
    "pear",
    "apple",
    "plum",
    "fig",
    "quince",
    "melon",
    "lemon",
    "cherry",
    "grape",
    "peach",
    "date",
    "mango",
    "lime",
    "olive",
]


def write_rows(path: Path, count: int) -> None:
    """Rows of distinct questions, each with an answer as a fact."""
    dice = random.Random(0)
    with path.open("w") as lines:
        for number in range(count):
            fruit = " ".join(dice.choice(WORDS) for _ in range(14))
            row = {"prompt": f"Question {number}: which comes first, {fruit}?", "answer": "pear"}
            lines.write(json.dumps(row) + "\n")


def held() -> int:
    """The bytes of memory that this process holds now."""
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith("VmRSS:"):
                return 1024 * int(line.split()[1])
    raise OSError("this machine does not say how much memory a process holds")


class Watching:
    """A monitor that notes the memory and the seconds of each stage."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, float]] = {}
        self._name = "start"
        self._since = time.perf_counter()
        self._highest = 0

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """The stage before is over."""
        now = held()
        seconds = time.perf_counter() - self._since
        kept = {"bytes": now, "highest": max(now, self._highest), "seconds": seconds}
        self.stages[self._name] = kept
        if name in self.stages:
            name = f"{name} again"
        self._name, self._since, self._highest = name, time.perf_counter(), now

    def advance(self, n: int = 1) -> None:
        """Some matches are recorded."""
        self._highest = max(self._highest, held())

    def part(self, steps: float) -> None:
        """Ignored."""

    def numbers(self, **named: Any) -> None:
        """Ignored."""


def measure(path: Path, rows: int, folder: Path) -> dict[str, Any]:
    """Play a generation of all rows in this process; its stages, and what it held before.

    A small run comes first, so that no module is counted.
    """
    small = folder / "small.jsonl"
    folder.mkdir(parents=True)
    write_rows(small, 300)
    play(small, 300, folder / "small")
    return play(path, rows, folder / "run")


def play(path: Path, rows: int, folder: Path) -> dict[str, Any]:
    """Play a generation of all rows but a hundred, and measure these."""
    from equipoise.api.play_out import play_out
    from equipoise.planning.new_run import new_run
    from equipoise.runs import recipe_loader

    held_out = 100
    settings = {
        "generations": 1,
        "players": {"first": {"kind": "scripted", "text": "A pear, as far as I can tell."}},
        "prompts": {
            "kind": "files",
            "path": str(path),
            "per_generation": rows - held_out,
            "held_out": held_out,
        },
        "game": {"kind": "answers", "samples": 1},
        "judge": "shorter",
        "evaluate": {"kind": "held_out", "every": 1},
    }
    config = recipe_loader.load(settings)
    watching = Watching()
    before = held()
    started = time.perf_counter()
    with new_run(config, folder) as run:
        planned = {"bytes": held(), "seconds": time.perf_counter() - started}
        play_out(run, watching)
    watching.stage("end")
    return {"before": before, "planned": planned, "stages": watching.stages}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--here", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.here[0], options.rows, options.here[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_rows(path, options.rows)
        arguments = ["--rows", str(options.rows), "--here", str(path), f"{folder}/runs"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.prompt_memory", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        measured = json.loads(done.stdout.splitlines()[-1])
        size = path.stat().st_size
    before = measured["before"]
    figures: dict[str, Any] = {"bytes_a_row": size / options.rows, "stages": {}}
    table = Table("stage", "kB a prompt at its end", "at its highest", "seconds")
    stages = {"plan": {"highest": 0, **measured["planned"]}, **measured["stages"]}
    for name, stage in stages.items():
        if name == "start":
            continue
        kept = (stage["bytes"] - before) / options.rows / 1000
        highest = (max(stage["highest"], stage["bytes"]) - before) / options.rows / 1000
        figures["stages"][name] = {
            "kilobytes": kept,
            "highest": highest,
            "seconds": stage["seconds"],
        }
        table.add_row(name, f"{kept:.2f}", f"{highest:.2f}", f"{stage['seconds']:.1f}")
    if options.json:
        write_results(options.json, figures, rows=options.rows)
    Console().print(table)
    Console().print(f"{options.rows:,} rows of {figures['bytes_a_row']:.0f} bytes")


if __name__ == "__main__":
    main()
