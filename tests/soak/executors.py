"""SIGKILL of workers and of their driver at random moments, while a run is played and trained in
several processes; then resume, until the run ends. Every record and weight is to be that of an
undisturbed run in one process.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from benchmarks.running import with_settings
from tests.soak._outcome import Outcome
from tests.soak._recorded import differences
from tests.soak.kills import RECIPES

SIZE = 24  # kills
RECIPE = ["sparta_clerks", *with_settings([*RECIPES["sparta_clerks"], "generations=1"])]
EXECUTORS = {"processes": "{kind: processes, processes: 2}", "ray": "ray"}
WHOLE = 60.0  # seconds within which the moments lie


def soak(size: int, minutes: float | None = None) -> Outcome:
    """`size` kills, half of workers, shared among the executors that are installed."""
    rows: list[Mapping[str, Any]] = []
    failures: list[str] = []
    dice = random.Random(5)
    kinds = [kind for kind in EXECUTORS if kind != "ray" or find_spec("ray")]
    seconds = 60 * minutes / len(kinds) if minutes else float("inf")
    with tempfile.TemporaryDirectory() as home:
        calm = _start(["run", *RECIPE, "--out", "calm"], Path(home))
        assert calm.wait() == 0, Path(home, "output.txt").read_text()
        for kind in kinds:
            until = time.monotonic() + seconds
            row = _killed(kind, Path(home), size // len(kinds), dice, until, failures)
            rows.append(row)
            print(row, flush=True)
    return Outcome(rows, failures)


def _start(arguments: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "output.txt").open("wb") as log:
        command = [sys.executable, "-m", "equipoise", *arguments]
        here = os.environ | {"PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=here)


def _killed(
    kind: str, folder: Path, kills: int, dice: random.Random, until: float, failures: list[str]
) -> Mapping[str, Any]:
    """Run with the executor under kills, again and again."""
    done = {"workers": 0, "drivers": 0}
    runs = equal = given_up = 0
    while sum(done.values()) < kills and time.monotonic() < until:
        shutil.rmtree(folder / "killed", ignore_errors=True)
        problems: list[str] = []
        code: int | None = None
        said = ""
        while code is None:
            verb = ["resume", "killed"]
            if not (folder / "killed").exists():
                executor = with_settings([f"executor={EXECUTORS[kind]}"])
                verb = ["run", *RECIPE, *executor, "--out", "killed"]
            driver = _start(verb, folder)
            _disturb(driver, done, kills, dice)
            code = None if driver.wait() == -signal.SIGKILL else driver.returncode
            said = (folder / "output.txt").read_text(errors="replace")
            if code == 1 and "a unit of work was given up" in said:
                given_up += 1
                code = None  # it says so, and goes on when it is resumed
        runs += 1
        if code != 0 or "Traceback" in said:
            problems.append(f"exit code {code}: {said[-400:]}")
        problems += differences(folder / "calm", folder / "killed")
        equal += not problems
        failures += [f"{kind}, run {runs}: {problem}" for problem in problems]
    return {"executor": kind, **done, "given up": given_up, "runs": runs, "equal": equal}


def _disturb(
    driver: subprocess.Popen[bytes], done: dict[str, int], kills: int, dice: random.Random
) -> None:
    """Kill workers, at most one in ten seconds, or the driver, until it has ended."""
    while driver.poll() is None and sum(done.values()) < kills:
        moment = time.monotonic() + dice.uniform(1, WHOLE / 4)
        while driver.poll() is None and time.monotonic() < moment:
            time.sleep(0.02)
        if driver.poll() is not None:
            return
        workers = psutil.Process(driver.pid).children(recursive=True)
        if workers and dice.random() < 0.5:
            dice.choice(workers).kill()
            done["workers"] += 1
        else:
            driver.kill()
            driver.wait()
            psutil.wait_procs(workers, timeout=20)  # they notice that it has gone
            done["drivers"] += 1
