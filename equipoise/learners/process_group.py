"""Processes that train together, started by accelerate: they stay, and are given one order after
another.

An order is a learner and its training batch, in a folder that the processes share with the one that
started them; lines of metrics and the result come back through it. What they opened for one order
is still open at the next. They live no longer than the process that gives the orders: each watches
a lock that it holds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self
from uuid import uuid4

import yaml

from equipoise.errors import EquipoiseError, received
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.batch_files import write
from equipoise.learners.launch import Launch
from equipoise.system.locks import lock
from equipoise.system.machines import machine

ORDER = "order.json"  # the newest order; written in place, whole when its line ends
LINES = "lines.jsonl"  # what the first process answers to an order
LOG = "log.txt"
PARENT = "parent.lock"  # locked as long as the process that gives orders lives
HOST = "parent.host"  # its machine
BEAT = "parent.beat"  # a number that it counts up, for those on other machines
BEAT_SECONDS = 2.0
PATIENCE = 20.0  # seconds that processes are given to end by themselves
# What the launcher of another job leaves in the environment of this process, and would be mistaken
# for its own.
FOREIGN = ("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "GROUP_", "ROLE_", "LOCAL_")
FOREIGN_NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

What = Literal["learn", "save_state", "end"]


class GroupLostError(EquipoiseError):
    """Processes that train together have ended, and no exception says why: killed, out of memory, a
    machine that is gone.
    """


class ProcessGroup:
    """The processes of one `launch`, until it is closed."""

    def __init__(self, launch: Launch, folder: Path) -> None:
        """Start them. `folder` is emptied, and theirs is a new one in it; all machines see it.

        Raises ModuleNotFoundError without accelerate.
        """
        if find_spec("accelerate") is None:
            raise ModuleNotFoundError("no module named 'accelerate'", name="accelerate")
        shutil.rmtree(folder, ignore_errors=True)
        # By its own name, so that processes that were still starting when the one that gave them
        # orders was killed do not take up the orders of the next one.
        self._folder = folder.resolve() / uuid4().hex
        self._number = 0
        self._folder.mkdir(parents=True)
        settings = yaml.safe_dump(launch.accelerate(), sort_keys=False)
        (self._folder / "accelerate.yaml").write_text(settings)
        (self._folder / ORDER).touch()
        with ExitStack() as opening:
            opening.enter_context(_alive(self._folder))
            log = opening.enter_context(open(self._folder / LOG, "wb"))
            self._process = subprocess.Popen(
                launch.command(self._folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(os.environ),
                start_new_session=True,  # a group of their own, which ends as one
            )
            opening.callback(_end, self._process)
            self._open = opening.pop_all()

    def learn(self, learner: Learner, batch: TrainingBatch) -> dict[str, float]:
        """What `learner.learn_here(batch)` returns, computed by all of them.

        Metrics arrive while they work. Whatever ends this call before its result ends them. Raises
        what the processes raise: an error of ours as itself, another exception as an EquipoiseError
        with its traceback. GroupLostError with the end of their log where they raised none.
        """
        return self._obeyed("learn", learner, batch)

    def save_state(self, learner: Learner, batch: TrainingBatch) -> None:
        """Have them call `learner.save_state_here(batch)`. Raises as `learn` does."""
        self._obeyed("save_state", learner, batch)

    def close(self) -> None:
        """End them."""
        if self._process.poll() is None:
            self._write_order("end")
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=PATIENCE)
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _obeyed(self, what: What, learner: Learner, batch: TrainingBatch) -> dict[str, float]:
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        write(folder, learner, batch)
        lines = folder / LINES
        lines.touch()
        facts: list[dict[str, float]] = []

        def read(line: dict[str, Any]) -> None:
            if "facts" in line:
                facts.append(line["facts"])
            else:
                batch.log(line["log"])

        def ended(seconds: float) -> bool:
            return bool(facts) or _ends(self._process, seconds)

        try:
            self._write_order(what)
            follow(ended, lines, read)
            if not facts:
                raise failure(self._folder, self._process.returncode)
        except BaseException:
            self._open.close()
            raise
        shutil.rmtree(folder)
        return facts[0]

    def _write_order(self, what: What) -> None:
        # In place: another machine sees what is in a file when it opens it, but a new name only
        # some time later.
        order = json.dumps({"number": self._number, "what": what}) + "\n"
        (self._folder / ORDER).write_text(order)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """`given` without what another job's launcher has left in it."""
    return {
        name: value
        for name, value in given.items()
        if not name.startswith(FOREIGN) and name not in FOREIGN_NAMES
    }


def follow(
    wait: Callable[[float], bool], file: Path, log: Callable[[dict[str, Any]], None]
) -> None:
    """Hand on each line that appears in `file` until `wait(seconds)` says that nobody writes any
    more.
    """
    done, ended = 0, False
    while not ended:
        ended = wait(0.1)  # before the last look, so that nothing is missed
        if file.is_file():
            whole = file.read_bytes()[done:].rpartition(b"\n")[0]
            for line in whole.splitlines():
                log(json.loads(line))
            done += len(whole) + 1 if whole else 0


def failure(folder: Path, code: int) -> EquipoiseError:
    """Why processes ended without a result: what one of them raised and left in their folder, else
    a GroupLostError.
    """
    log = folder / LOG
    files = sorted(folder.glob("error-*.json"), key=_rank)
    failures = [json.loads(file.read_text()) for file in files]
    for known in failures:
        if known["kind"]:
            return received(known["kind"], known["message"])
    for foreign in failures:
        if not foreign["alone"]:
            return EquipoiseError(
                f"a process of the training failed ({log}):\n{foreign['message']}"
            )
    end = "\n".join(log.read_text(errors="replace").rstrip().splitlines()[-12:])
    return GroupLostError(
        f"the training's processes ended with exit code {code}; the end of {log}:\n{end}"
    )


def _rank(file: Path) -> int:
    """The number of the process that wrote the error."""
    return int(file.stem.partition("-")[2])


@contextmanager
def _alive(folder: Path) -> Iterator[None]:
    """While it is open, and this process lives, `parent.lock` is locked, and counts up."""
    ended = threading.Event()
    with open(folder / PARENT, "w") as file:
        lock(file)
        (folder / HOST).write_text(machine())
        thread = threading.Thread(target=_beat, args=(folder / BEAT, ended), daemon=True)
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


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ends within so many seconds."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    return process.returncode is not None


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
