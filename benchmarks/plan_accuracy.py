"""What `plan` says beforehand beside what a run then takes: peak memory, and the time of sampling,
scoring and training.

    python -m benchmarks.plan_accuracy
    python -m benchmarks.plan_accuracy --model FOLDER       # SmolLM2-135M-Instruct
    python -m benchmarks.plan_accuracy --model FOLDER --device cuda --out FILE

Three shapes, each a short run in a process of its own: the built-in tiny model, and a chat model
with LoRA and with all its weights trained. The run's stages are told apart by its monitor: the peak
of the resident set in each, and the CPU seconds that it computed (one thread), which other work on
the machine does not lengthen; on a GPU, the peak of what its tensors hold and the wall time. Linux
only. The raw result goes to `benchmarks/results/plan_accuracy.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.running import equipoise, provenance, with_settings
from equipoise.runs.monitor import Silent

RESET = Path("/proc/self/clear_refs")
RESULT = Path(__file__).parent / "results" / "plan_accuracy.json"
TINY = (
    "generations=1",
    "prompts.per_generation=200",
    "prompts.held_out=50",
    "evaluate.samples=1",
    "learner.epochs=1",
)
CHAT = (
    "generations=1",
    "prompts.per_generation=8",
    "prompts.held_out=4",
    "evaluate.samples=1",
    "judge=shorter",
    "learner.epochs=1",
    "policy.max_new_tokens=32",
    "policy.max_length=256",
    "policy.batch_size=32",
    "learner.batch_size=4",
)


CHILD = """
import sys
from pathlib import Path
from benchmarks.plan_accuracy import Stages
from equipoise.runs import recipe_loader
from equipoise.planning.new_run import new_run
from equipoise.runs.directory import RunDirectory
from equipoise.api.play_out import play_out
device, folder, *settings = sys.argv[1:]
stages = Stages(device)
config = recipe_loader.load("quickstart", settings)
with new_run(config, Path(folder)) as run:
    play_out(run, stages)
stages.write()
"""


class Stages(Silent):
    """Bytes at the peak and seconds of each stage, summed by name."""

    def __init__(self, device: str) -> None:
        self._device, self._name = device, "start"
        self._began = time.perf_counter() if device == "cuda" else 0.0
        self._memory: dict[str, float] = {}
        self._seconds: dict[str, float] = {}

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """The stage before is over."""
        (peak, now), last = self._measured(), self._name
        self._seconds[last] = self._seconds.get(last, 0.0) + now - self._began
        self._memory[last] = max(self._memory.get(last, 0.0), peak)
        self._name, self._began = name, now

    def _measured(self) -> tuple[float, float]:
        """The peak since the last call, and the clock."""
        if self._device == "cuda":
            import torch

            torch.cuda.synchronize()
            peak = float(torch.cuda.max_memory_allocated())
            torch.cuda.reset_peak_memory_stats()
            return peak, time.perf_counter()
        peak = _peak()
        RESET.write_text("5")  # the peak is counted anew
        return peak, time.process_time()

    def write(self) -> None:
        """Print them."""
        self.stage("end")
        print(json.dumps({"memory": self._memory, "cpu": self._seconds}))


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024.0


def main(argv: Sequence[str] | None = None) -> None:
    """Run the shapes, print estimate beside measurement, and keep the result."""
    options = _options(argv)
    results = []
    for name, settings in _shapes(options).items():
        planned = json.loads(
            equipoise(
                "plan", "quickstart", *with_settings(settings), "--json", threads=options.threads
            )
        )
        measured = _measured(settings, options.threads, options.device)
        [estimate] = planned["estimates"]
        results.append(
            {
                "shape": name,
                "settings": [_public(setting) for setting in settings],
                "estimate": estimate,
                "measured": measured,
                "provenance": provenance(),
            }
        )
        Console().print(f"{name}: done", style="dim")
    done = {result["shape"] for result in results}
    earlier = json.loads(options.out.read_text())["shapes"] if options.out.is_file() else []
    results += [result for result in earlier if result["shape"] not in done]
    _print(results)
    record = {"provenance": provenance(), "shapes": results}
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _public(setting: str) -> str:
    """Without folders of this machine."""
    key, _, value = setting.partition("=")
    return f"{key}={Path(value).name}" if Path(value).is_absolute() else setting


def _options(argv: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="a chat model; none: tiny alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="shapes to run")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, default=RESULT, help="the file of the raw result")
    return parser.parse_args(argv)


def _shapes(options: Any) -> dict[str, tuple[str, ...]]:
    """The settings of every shape, by name."""
    shapes = {"tiny": TINY}
    if options.model:
        chat = (*CHAT, f"policy.model={options.model}")
        shapes["chat, LoRA"] = (*chat, "policy.lora={r: 16}")
        shapes["chat, all weights"] = (*chat, "policy.lora=null")
    return {
        name: shape for name, shape in shapes.items() if not options.only or name in options.only
    }


def _measured(settings: Sequence[str], threads: int, device: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, device, f"{folder}/run", *settings],
            env=os.environ | {"OMP_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _print(results: Sequence[dict[str, Any]]) -> None:
    table = Table(title="plan beside the run")
    for heading in ("shape", "quantity", "estimate", "measured", "ratio"):
        table.add_column(heading, justify="right" if heading == "ratio" else "left")
    for result in results:
        estimate, measured = result["estimate"], result["measured"]
        memory, cpu = measured["memory"], measured["cpu"]
        sampling = sum(cpu[stage] for stage in cpu if _samples(stage))
        scoring = cpu["opponents' log-probabilities"]
        peak = estimate["peak_memory_bytes"]
        rows = (
            ("peak memory, MiB", peak / 2**20, max(memory.values()) / 2**20),
            ("sampling, s", estimate["sampling_seconds"], sampling),
            ("scoring, s", estimate["scoring_seconds"], scoring),
            ("training, s", estimate["training_seconds"], cpu["learn"]),
            ("whole run, s", _planned(estimate), sum(cpu.values())),
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


def _samples(stage: str) -> bool:
    return stage.startswith("play") or stage.endswith("answers")


def _planned(estimate: dict[str, Any]) -> float:
    parts = ("sampling", "scoring", "training", "judging")
    return sum(estimate[f"{part}_seconds"] or 0.0 for part in parts)


if __name__ == "__main__":
    main()
