"""What several benchmarks do: call the command, and read what a run recorded."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.runs.directory import RunDirectory
from equipoise.system.folder import write_text

RESULTS = "benchmarks/results"


def equipoise(*arguments: str, threads: int = 1) -> str:
    """The output of the command; ends the benchmark when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "equipoise", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"equipoise {' '.join(arguments)}\n{done.stderr}")
    return done.stdout


def with_settings(settings: Iterable[str]) -> list[str]:
    """Settings `key=value` as arguments of the command."""
    arguments: list[str] = []
    for setting in settings:
        arguments += ["-s", setting]
    return arguments


def importable(folder: Path) -> None:
    """Have this process, and those that it starts, find the modules of a folder."""
    sys.path.insert(0, str(folder))
    others = [path for path in [os.environ.get("PYTHONPATH")] if path]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *others])


def share_of_cores(jobs: int) -> dict[str, str]:
    """The environment of one of so many processes that run side by side."""
    threads = max(1, len(os.sched_getaffinity(0)) // jobs)
    return os.environ | {"OMP_NUM_THREADS": str(threads)}


def provenance() -> dict[str, Any]:
    """What a raw result carries beside its figures: commit, command, day, machine, and how busy
    that has been in the last minute, this benchmark included. Raw results that were made anew are
    no change.
    """
    commit = _git("describe", "--always", "--exclude", "*")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", f":!/{RESULTS}")
    return {
        "commit": f"{commit}-dirty" if changed else commit,
        "command": shlex.join(["python", "-m", *_module_and_arguments()]),
        "date": datetime.date.today().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}",
        "load": load(),
        "python": platform.python_version(),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def load() -> float:
    """Processes that wanted a core in the last minute, on average."""
    return round(os.getloadavg()[0], 1)


def write_results(path: Path, figures: Any, **arguments: Any) -> None:
    """Write a benchmark's raw figures with `provenance` and the arguments that decide them, whole
    or not at all.
    """
    results = provenance() | {"arguments": arguments, "figures": figures}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def _module_and_arguments() -> list[str]:
    """As it was called, but for folders of this machine: of these the last name."""
    arguments = [Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:]]
    return [f"benchmarks.{Path(sys.argv[0]).stem}", *arguments]


def recorded(run: RunDirectory, stage: str) -> list[dict[str, Any]]:
    """The facts that a run recorded of each of its stages of this name, in order."""
    return [finished.facts for finished in run.ledger.stages(stage)]


def slope_of_logarithms(x_R: Iterable[float], y_R: Iterable[float]) -> float:
    """The exponent of y ∝ x^slope, by least squares; all numbers are above zero."""
    return float(np.polyfit(np.log(np.asarray(x_R)), np.log(np.asarray(y_R)), 1)[0])
