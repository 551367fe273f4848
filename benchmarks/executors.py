"""Executors: workers against one process, and how the driver's share grows.

    python -m benchmarks.executors speed [--model FOLDER-OR-ID] [--members 6] [--runs 3]
    python -m benchmarks.executors cluster [--workers 8 32 128 512]

`speed` plays and trains the same league of adapters with `local`, `processes: 1`, `processes: 2`
and two Ray workers, a thread each, taking turns; the wall time of play and of learning is the
ledger's, of the last generation: in the first the workers start. Ratios are those of `processes:
1`. `cluster` gives units to workers that only wait as long as a unit takes, so that what is left is
the driver's own work.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.running import equipoise, load, provenance
from equipoise.runs.directory import RunDirectory
from equipoise.runs.executors.units import Act, Done, Part, Weighted
from equipoise.runs.executors.worker_pool import WorkerPool
from equipoise.types import Message, Move, View

EXECUTORS: dict[str, Any] = {
    "local": "local",
    "processes: 1": {"processes": 1},
    "processes: 2": {"processes": 2},
    "ray: 2": {"kind": "ray", "workers": 2},
}
PEER = "processes: 1"  # what the others are compared with
PARTS = ("play", "learn")
GENERATIONS = 2
RESULTS = Path("benchmarks/results/executors.json")


# -- workers against one process


def league(o: argparse.Namespace, executor: Any) -> dict[str, Any]:
    """The recipe of a league of adapters that play and learn."""
    member = {
        "kind": "local",
        "model": o.model,
        "learns": True,
        "max_length": 256,
        "max_new_tokens": o.tokens,
        "lora": {"r": 8, "alpha": 16},
    }
    return {
        "generations": GENERATIONS,
        "unit_rows": o.unit_rows,
        "executor": executor,
        "players": {f"member_{n}": member for n in range(o.members)},
        "prompts": {
            "kind": "clerk_questions",
            "count": 4 * o.prompts,
            "per_generation": o.prompts,
            "held_out": 1,
        },
        "game": {"kind": "answers", "samples": 2},
        "schedule": "round_robin",  # all learners get equally many pairs
        "judge": "shorter",
        "loss": {"kind": "dpo", "reference": "previous"},
        "learner": {"kind": "preference", "batch_size": 8},
        "training_matches": "own",
        "evaluate": {"kind": "held_out", "samples": 1, "every": GENERATIONS},
        "max_unjudged": 1.0,
    }


def seconds(o: argparse.Namespace, name: str, folder: Path) -> dict[str, float]:
    """The wall time of playing and of learning in the last generation, by the ledger, and how busy
    the machine was before.
    """
    busy = load()
    config = folder / "league.yaml"
    config.write_text(yaml.safe_dump(league(o, EXECUTORS[name])))
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    equipoise("run", str(config), "--out", str(run), threads=1)
    with RunDirectory.read(run) as opened:
        last = [
            stage
            for stage in opened.ledger.stages()
            if stage.generation == GENERATIONS - 1 and stage.within != "measure"
        ]
    times = {part: sum(stage.seconds for stage in last if stage.stage == part) for part in PARTS}
    return {**times, "load": busy}


def speed(o: argparse.Namespace) -> dict[str, Any]:
    """Median seconds of each executor, taking turns."""
    times: dict[str, list[dict[str, float]]] = {name: [] for name in o.executors}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(o.runs):
            for name, measured in times.items():
                measured.append(seconds(o, name, Path(folder)))
    shape = (
        f"{o.members} members, {Path(o.model).name}, {o.prompts} prompts, answers of at "
        f"most {o.tokens} tokens, units of {o.unit_rows} rows, runs: {o.runs}"
    )
    Console(width=100).print(speeds(times, shape))
    return {"shape": shape, "seconds": times}


def speeds(times: dict[str, list[dict[str, float]]], shape: str) -> Table:
    """A row for each executor: median seconds, how many times as fast as one worker, and the load
    of the machine before its runs.
    """
    table = Table("executor", "play, s", "ratio", "learn, s", "ratio", "load before")
    table.title = shape
    for name, measured in times.items():
        cells = []
        for part in PARTS:
            median = statistics.median(run[part] for run in measured)
            cells.append(f"{median:.1f}")
            peer = [run[part] for run in times.get(PEER, [])]
            cells.append(f"{statistics.median(peer) / median:.2f}" if peer else "–")
        cells.append(", ".join(f"{run['load']:.1f}" for run in measured))
        table.add_row(name, *cells)
    return table


# -- a simulated cluster


class Waits:
    """A worker that takes as long as a unit takes, and answers in full."""

    def __init__(self, unit_seconds: float, result: bytes) -> None:
        self._seconds = unit_seconds
        self._result = result

    def do(self, order: bytes) -> bytes:
        """Wait."""
        time.sleep(self._seconds)
        return self._result

    def close(self) -> None:
        """Nothing is open."""


def cluster(o: argparse.Namespace) -> dict[str, Any]:
    """Efficiency against the number of workers, at units of the size of a real one."""
    view = View((Message("user", "x" * 4 * o.prompt_tokens),))
    move = Move(
        "y" * 4 * o.tokens,
        "stop",
        tuple(range(o.tokens)),
        tuple(-0.1 * i for i in range(o.tokens)),
        o.prompt_tokens,
    )
    rows = o.unit_rows
    unit = Act([Weighted(Part("m:n", {}), "w")], [0] * rows, [view] * rows, [0] * rows)
    raw = msgspec.msgpack.encode([move] * rows)
    result = msgspec.msgpack.encode(Done(msgspec.Raw(raw)))
    lines = []
    table = Table("workers", "units", "ideal, s", "took, s", "efficiency", "driver, ms/unit")
    for count in o.workers:
        pool = WorkerPool(lambda i: Waits(o.unit_seconds, result), count)
        units = [unit] * (o.units_each * count)
        began, used = time.perf_counter(), time.process_time()
        for _ in pool.results(units):
            pass
        took, used = time.perf_counter() - began, time.process_time() - used
        pool.close()
        ideal = o.units_each * o.unit_seconds
        line = {
            "workers": count,
            "units": len(units),
            "ideal": ideal,
            "took": took,
            "driver_ms_per_unit": 1000 * used / len(units),
        }
        lines.append(line)
        table.add_row(
            str(count),
            str(len(units)),
            f"{ideal:.1f}",
            f"{took:.1f}",
            f"{ideal / took:.2f}",
            f"{line['driver_ms_per_unit']:.1f}",
        )
    table.title = f"units of {rows} answers of {o.tokens} tokens, {o.unit_seconds} s each"
    Console(width=100).print(table)
    return {"unit_rows": rows, "unit_seconds": o.unit_seconds, "lines": lines}


def main() -> None:
    """Measure, print, and keep the raw result."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("what", choices=["speed", "cluster"])
    made.add_argument("--model", default="builtin")
    made.add_argument("--members", type=int, default=6)
    made.add_argument("--prompts", type=int, default=4)
    made.add_argument("--runs", type=int, default=3)
    made.add_argument("--executors", nargs="+", choices=EXECUTORS, default=[*EXECUTORS])
    made.add_argument("--tokens", type=int, default=64)
    made.add_argument("--unit-rows", type=int, default=16)
    made.add_argument("--workers", type=int, nargs="+", default=[8, 32, 128, 512])
    made.add_argument("--units-each", type=int, default=4)
    made.add_argument("--unit-seconds", type=float, default=5.0)
    made.add_argument("--prompt-tokens", type=int, default=256)
    made.add_argument("--out", type=Path, default=RESULTS)
    o = made.parse_args()
    measured = speed(o) if o.what == "speed" else cluster(o)
    kept = json.loads(o.out.read_text()) if o.out.exists() else {}
    kept[o.what] = {**provenance(), **measured}
    o.out.parent.mkdir(parents=True, exist_ok=True)
    o.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
