"""What `plan` says beforehand beside what a run then takes: peak memory, and the time of
sampling and of training.

    python -m benchmarks.plan_accuracy
    python -m benchmarks.plan_accuracy --model FOLDER       # SmolLM2-135M-Instruct

Three shapes, each a short run in a process of its own: the built-in tiny model, and a
chat model with LoRA and with all its weights trained. Memory is the process's peak
resident set (`wait4`); seconds are those of the run's stages, by the clock, so other
work on the machine lengthens them; `cpu` is what the process itself computed. The raw
result goes to `benchmarks/results/plan_accuracy.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.running import equipoise, with_settings
from equipoise.run.directory import RunDirectory
from equipoise.run.stage_times import stage_times

RESULT = Path(__file__).parent / "results" / "plan_accuracy.json"
TINY = (
    "generations=1",
    "prompts.per_generation=400",
    "prompts.held_out=100",
    "evaluate.samples=2",
)
CHAT = (
    "generations=1",
    "prompts.per_generation=12",
    "prompts.held_out=8",
    "evaluate.samples=2",
    "judge=shorter",
    "policy.max_new_tokens=48",
    "policy.max_length=256",
    "policy.batch_size=32",
    "learner.batch_size=4",
)


@dataclass(frozen=True)
class Measured:
    """What a run took: bytes at the peak, seconds of its stages, CPU seconds in all."""

    memory: float
    sampling: float
    training: float
    wall: float
    cpu: float


def main(argv: Sequence[str] | None = None) -> None:
    """Run the shapes, print estimate beside measurement, and keep the result."""
    options = _options(argv)
    results = []
    for name, settings in _shapes(options).items():
        planned = json.loads(
            equipoise(
                "plan",
                "quickstart",
                *with_settings(settings),
                "--json",
                threads=options.threads,
            )
        )
        with tempfile.TemporaryDirectory() as folder:
            measured = _measured(settings, Path(folder) / "run", options.threads)
        [estimate] = planned["estimates"]
        results.append(
            {
                "shape": name,
                "settings": list(settings),
                "estimate": estimate,
                "measured": asdict(measured),
            }
        )
        Console().print(f"{name}: done", style="dim")
    _print(results)
    RESULT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _options(argv: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="a chat model; none: tiny alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="shapes to run")
    return parser.parse_args(argv)


def _shapes(options: Any) -> dict[str, tuple[str, ...]]:
    """The settings of every shape, by name."""
    shapes = {"tiny": TINY}
    if options.model:
        chat = (*CHAT, f"policy.model={options.model}")
        shapes["chat, LoRA"] = (*chat, "policy.lora={r: 16}")
        shapes["chat, all weights"] = (*chat, "policy.lora=null")
    return {
        name: shape
        for name, shape in shapes.items()
        if not options.only or name in options.only
    }


def _measured(settings: Sequence[str], folder: Path, threads: int) -> Measured:
    command = [sys.executable, "-m", "equipoise", "run", "quickstart"]
    command += [*with_settings(settings), "--out", str(folder), "--json"]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        )
        _, status, used = os.wait4(process.pid, 0)
        if status:
            output.seek(0)
            raise SystemExit(output.read().decode())
    with RunDirectory.read(folder) as run:
        stages = run.ledger.stages()
    times = stage_times(stages)
    inside = times["measure"].parts.get("play", 0.0)
    return Measured(
        memory=used.ru_maxrss * 1024.0,
        sampling=times["play"].seconds + inside,
        training=times["learn"].seconds,
        wall=sum(time.seconds for time in times.values()),
        cpu=used.ru_utime + used.ru_stime,
    )


def _print(results: Sequence[dict[str, Any]]) -> None:
    table = Table(title="plan beside the run")
    for heading in ("shape", "quantity", "estimate", "measured", "ratio"):
        table.add_column(heading, justify="right" if heading == "ratio" else "left")
    for result in results:
        estimate, measured = result["estimate"], result["measured"]
        rows = (
            (
                "peak memory, MiB",
                estimate["peak_memory_bytes"] / 2**20,
                measured["memory"] / 2**20,
            ),
            ("sampling, s", estimate["sampling_seconds"], measured["sampling"]),
            ("training, s", estimate["training_seconds"], measured["training"]),
        )
        for name, expected, taken in rows:
            table.add_row(
                result["shape"],
                name,
                f"{expected:,.1f}",
                f"{taken:,.1f}",
                f"{expected / taken:.2f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
