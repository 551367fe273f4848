"""Settings that make a run small enough for a test, and the command as a process."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil

from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.monitor import Silent


class Noting(Silent):
    """A monitor that notes each stage with its steps, its generation and the steps that were done,
    the parts of steps, and the numbers in the order in which they came.
    """

    def __init__(self) -> None:
        self.stages: list[list] = []
        self.named: list[dict] = []
        self.parts = 0.0

    def stage(self, name, total=None, generation=None):
        self.stages.append([name, total, generation, 0])

    def advance(self, n=1):
        self.stages[-1][3] += n

    def part(self, steps):
        self.parts += steps

    def numbers(self, **named):
        self.named.append(named)


def quickstart(**more: object) -> RunConfig:
    """The quickstart's configuration, one small generation; `__` is a dot."""
    values = {"prompts.count": 60, "prompts.per_generation": 16, "prompts.held_out": 8}
    values |= {"generations": 1, "evaluate.sets.greedy": None}
    given = {name.replace("__", "."): value for name, value in more.items()}
    return recipe_loader.load("quickstart", {**values, **given})


def settings(**values: object) -> list[str]:
    """Keyword arguments as `-s` options; `__` is a dot."""
    return [
        part
        for key, value in values.items()
        for part in ("-s", f"{key.replace('__', '.')}={value}")
    ]


SMALL = settings(
    generations=1,
    prompts__per_generation=12,
    prompts__held_out=8,
    evaluate__samples=2,
    evaluate__sets="null",
    learner__epochs=0.5,
)  # a language-model run of a few seconds
RED_TEAM_RUN = settings(
    generations=2,
    prompts__count=60,
    prompts__per_generation=8,
    prompts__held_out=12,
    evaluate__every=1,
    evaluate__crossplay=4,
    learner__batch_size=8,
    turns__steps={"defender": 1, "adversary": 1},
)  # a game of roles, likewise; each learns once
FINITE = ["rock_paper_scissors", *settings(generations=3)]


def is_recorded(run: Path, stage: str) -> bool:
    """Whether the ledger of a run holds this finished stage, such as "3/measure"."""
    if not (run / "ledger.sqlite").exists():
        return False
    with closing(sqlite3.connect(f"file:{run}/ledger.sqlite?mode=ro", uri=True)) as db:
        try:
            query = "SELECT count(*) FROM stages WHERE key = ?"
            return db.execute(query, (stage,)).fetchone() == (1,)
        except sqlite3.OperationalError:  # the tables are still being made
            return False


def wait_for_record(process: subprocess.Popen, run: Path, stage: str) -> None:
    """Wait until a running command has recorded this stage, or has ended."""
    limit = time.monotonic() + 600
    while not is_recorded(run, stage) and process.poll() is None:
        assert time.monotonic() < limit, "the run did not get there"
        time.sleep(0.02)


def start(*arguments: str, cwd: Path) -> subprocess.Popen:
    """The command in a process of its own, its output kept."""
    return subprocess.Popen(
        [sys.executable, "-m", "equipoise", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that are themselves started in the background inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def processes_with(words: Path) -> list[int]:
    """The processes whose command names `words`."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE and str(words) in " ".join(
                process.cmdline()
            ):
                found.append(process.pid)
    return found
