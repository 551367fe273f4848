"""Learners that train in several processes, which accelerate starts for them.

A training batch is written into a folder that the processes share with the one that
started them; metrics, errors and the result come back through it. They live no longer
than that process: each watches a lock that it holds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from equipoise.errors import EquipoiseError, received
from equipoise.games.base import Game
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.batch_files import write
from equipoise.learners.checkpoints import LAUNCH
from equipoise.learners.launch import Launch
from equipoise.locks import lock
from equipoise.machines import machine
from equipoise.players.base import Player
from equipoise.players.local import Local

PARENT = "parent.lock"  # locked as long as the process that waits for the result lives
HOST = "parent.host"  # its machine
BEAT = "parent.beat"  # a number that it counts up, for those on other machines
BEAT_SECONDS = 2.0
PATIENCE = 20.0  # seconds that processes are given to end by themselves
# What the launcher of another job leaves in the environment of this process, and would
# be mistaken for its own.
FOREIGN = ("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "GROUP_", "ROLE_", "LOCAL_")
FOREIGN_NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Launchable(Learner):
    """A learner that trains in this process, or in several that are started for it."""

    launch: Launch | None = Field(
        None, description="train in several processes; null: in this one"
    )

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        """That the player is no model in this process."""
        if not isinstance(player, Local):
            yield f"'{self.kind}' trains players of kind 'local', not '{player.kind}'"

    @property
    def processes(self) -> int:
        """How many processes train together."""
        return 1 if self.launch is None else self.launch.processes

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """`learn_here`, in this process or in those that `launch` asks for."""
        if self.launch is None:
            return self.learn_here(batch)
        return learn_in_processes(self.launch, self, batch)

    @abstractmethod
    def learn_here(self, batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `batch.output`; returns what sums it up.

        Every process of the training calls it with the same batch.
        """


def learn_in_processes(
    launch: Launch, learner: Learner, batch: TrainingBatch
) -> dict[str, float]:
    """What `learner.learn_here(batch)` returns, computed by several processes.

    Metrics arrive while they work. Whatever ends this call ends them. Raises what the
    processes raise where it is an error of ours, else EquipoiseError with the end of
    their log.
    """
    if find_spec("accelerate") is None:
        raise ModuleNotFoundError("no module named 'accelerate'", name="accelerate")
    folder = (batch.scratch / LAUNCH).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "accelerate.yaml").write_text(
        yaml.safe_dump(launch.accelerate(), sort_keys=False)
    )
    write(folder, learner, batch)
    with _alive(folder), open(folder / "log.txt", "wb") as log:
        process = subprocess.Popen(
            launch.command(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(os.environ),
            start_new_session=True,  # a group of their own, which ends as one
        )
        try:
            follow(_ending(process), folder / "metrics.jsonl", batch.log)
        finally:
            _end(process)
    return _outcome(folder, process.returncode)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """`given` without what another job's launcher has left in it."""
    return {
        name: value
        for name, value in given.items()
        if not name.startswith(FOREIGN) and name not in FOREIGN_NAMES
    }


@contextmanager
def _alive(folder: Path) -> Iterator[None]:
    """While it is open, and this process lives, `parent.lock` is locked, and counts up."""
    ended = threading.Event()
    with open(folder / PARENT, "w") as file:
        lock(file)
        (folder / HOST).write_text(machine())
        thread = threading.Thread(target=_beat, args=(folder / BEAT, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _beat(file: Path, ended: threading.Event) -> None:
    beats = 0
    while not ended.wait(BEAT_SECONDS):
        beats += 1
        file.write_text(str(beats))


def _ending(process: subprocess.Popen[bytes]) -> Callable[[float], bool]:
    """Waits for the end of the process, so many seconds at most, and says whether it
    has ended.
    """

    def ended(seconds: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
        return process.returncode is not None

    return ended


def follow(
    wait: Callable[[float], bool], file: Path, log: Callable[[dict[str, Any]], None]
) -> None:
    """Hand on each line that appears in `file` until `wait(seconds)` says that nobody
    writes any more.
    """
    done, ended = 0, False
    while not ended:
        ended = wait(0.1)  # before the last look, so that nothing is missed
        if file.is_file():
            whole = file.read_bytes()[done:].rpartition(b"\n")[0]
            for line in whole.splitlines():
                log(json.loads(line))
            done += len(whole) + 1 if whole else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group.

    The launcher ends its processes when asked to, and is killed when it takes too long.
    """
    for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, None)):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=patience)


def _outcome(folder: Path, code: int) -> dict[str, float]:
    """The result that the first process left.

    Raises the error that another left, or EquipoiseError after a crash.
    """
    result = folder / "result.json"
    if result.is_file():
        return json.loads(result.read_text())
    log = folder / "log.txt"
    files = sorted(folder.glob("error-*.json"), key=_rank)
    failures = [json.loads(file.read_text()) for file in files]
    for failure in failures:
        if failure["kind"]:
            raise received(failure["kind"], failure["message"])
    if failures:
        raise EquipoiseError(
            f"a process of the training failed: {failures[0]['message']} ({log})"
        )
    end = "\n".join(log.read_text(errors="replace").rstrip().splitlines()[-12:])
    raise EquipoiseError(
        f"the training's processes ended with exit code {code}; the end of "
        f"{log}:\n{end}"
    )


def _rank(file: Path) -> int:
    """The number of the process that wrote the error."""
    return int(file.stem.partition("-")[2])
