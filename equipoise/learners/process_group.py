"""Processes that train together, started by accelerate: they stay, and take one order after
another.

An order is a learner and its training batch, in a folder that the processes share with the one that
started them; lines of metrics and the result come back through it. What they opened for one order
is still open at the next. Each watches a lock of the process that gives the orders, and ends with
it.
"""

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self, get_type_hints
from uuid import uuid4

import msgspec
import numpy as np

from equipoise.component import Component, import_object, import_path
from equipoise.errors import EquipoiseError, unpack_error
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.launch import LAUNCH, Launch
from equipoise.models.device import return_unused_memory
from equipoise.models.resources import Resources
from equipoise.system.folder import empty_folder
from equipoise.system.locks import lock, machine
from equipoise.system.subprocesses import DEVNULL, STDOUT, Process, StillRunning, start_process
from equipoise.system.yaml_text import yaml_text

BATCH = "training_batch.json"
ARRAYS = "arrays.npz"
ORDER = "order.json"  # the newest order; written in place, whole when its line ends
LINES = "lines.jsonl"  # what the first process answers to an order
LOG = "log.txt"
PARENT = "parent.lock"  # locked as long as the process that gives orders lives
HOST = "parent.host"  # its machine
BEAT = "parent.beat"  # a number that it counts up, for those on other machines
BEAT_SECONDS = 2.0
PATIENCE = 20.0  # seconds that processes are given to end by themselves

OrderKind = Literal["learn", "save_state", "end"]


class GroupLostError(EquipoiseError):
    """Processes that train together have ended, and no exception says why."""


def learn_in_processes(learner: Learner, launch: Launch, batch: TrainingBatch) -> dict[str, float]:
    """`learner.learn(batch)`, computed by the processes that stand by for it, or else by some that
    are started for it and end with it.
    """
    return_unused_memory()  # the processes are on the same accelerators
    if batch.standing is not None:
        return batch.standing.learn(learner, launch, batch)
    with ProcessGroup(launch, batch.scratch / LAUNCH) as group:
        return group.learn(learner, batch)


class StandingGroup:
    """Processes that stay from training to training; those of other settings take their place.

    At most one group stands, since each holds memory of the accelerators.
    """

    def __init__(self) -> None:
        self._group: ProcessGroup | None = None
        self._key = ""
        self._folder = Path()

    def learn(self, learner: Learner, launch: Launch, batch: TrainingBatch) -> dict[str, float]:
        """`learner.learn(batch)`; processes that were lost since the last one are started anew.

        Raises what `ProcessGroup.learn` raises; they have ended then.
        """
        key = json.dumps([import_path(type(learner)), learner.settings()], default=str)
        if key != self._key:
            self.close()
        if self._group is not None:
            try:
                return self._learn(learner, batch)
            except GroupLostError:
                batch.log({"processes_started_again": 1})
        # Beside the generations, so that no generation's end takes it away.
        self._folder = batch.scratch.with_name(f".{LAUNCH}")
        self._group, self._key = ProcessGroup(launch, self._folder), key
        return self._learn(learner, batch)

    def _learn(self, learner: Learner, batch: TrainingBatch) -> dict[str, float]:
        assert self._group is not None
        try:
            return self._group.learn(learner, batch)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes, and remove the folder that they share with this one."""
        if self._group is not None:
            self._group.close()
            self._group, self._key = None, ""
            shutil.rmtree(self._folder, ignore_errors=True)


class ProcessGroup:
    """The processes of one `launch`, until it is closed."""

    def __init__(self, launch: Launch, folder: Path) -> None:
        """Start them in a new folder in `folder`, which is emptied; all machines see it.

        Raises ModuleNotFoundError without accelerate.
        """
        if find_spec("accelerate") is None:
            raise ModuleNotFoundError("no module named 'accelerate'", name="accelerate")
        empty_folder(folder)
        # By its own name, so that processes that were still starting when the one that gave them
        # orders was killed do not take up the orders of the next one.
        self._folder = folder.resolve() / uuid4().hex
        self._number = 0
        self._folder.mkdir()
        settings = yaml_text(launch.accelerate())
        (self._folder / "accelerate.yaml").write_text(settings)
        (self._folder / ORDER).touch()
        with ExitStack() as opening:
            opening.enter_context(_show_alive(self._folder))
            log = opening.enter_context(open(self._folder / LOG, "wb"))
            self._process = start_process(
                launch.command(self._folder), stdin=DEVNULL, stdout=log, stderr=STDOUT
            )
            opening.callback(_end, self._process)
            self._open = opening.pop_all()

    def learn(self, learner: Learner, batch: TrainingBatch) -> dict[str, float]:
        """The result of `learner.learn(batch)`, computed by all of them.

        Whatever ends this call before its result ends them. Raises what the processes raise: an
        error of ours as itself, another exception as an EquipoiseError with its traceback, else
        GroupLostError with the end of their log.
        """
        return self._give_order("learn", learner, batch)

    def save_state(self, learner: Learner, batch: TrainingBatch) -> None:
        """Have them call `learner.save_state(batch)`. Raises as `learn` does."""
        self._give_order("save_state", learner, batch)

    def close(self) -> None:
        """End them."""
        if self._process.poll() is None:
            self._write_order("end")
            with suppress(StillRunning):
                self._process.wait(timeout=PATIENCE)
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _give_order(
        self, kind: OrderKind, learner: Learner, batch: TrainingBatch
    ) -> dict[str, float]:
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        write_batch(folder, learner, batch)
        lines = folder / LINES
        lines.touch()
        facts: list[dict[str, float]] = []

        def read_line(line: dict[str, Any]) -> None:
            if "facts" in line:
                facts.append(line["facts"])
            else:
                batch.log(line["log"])

        def has_ended(seconds: float) -> bool:
            if not facts:
                with suppress(StillRunning):
                    self._process.wait(timeout=seconds)
            return bool(facts) or self._process.returncode is not None

        try:
            self._write_order(kind)
            follow_lines(has_ended, lines, read_line)
            if not facts:
                raise failure(self._folder, self._process.returncode)
        except BaseException:
            self._open.close()
            raise
        shutil.rmtree(folder)
        return facts[0]

    def _write_order(self, kind: OrderKind) -> None:
        # In place: another machine sees what is in a file when it opens it, but a new name only
        # some time later.
        order = json.dumps({"number": self._number, "what": kind}) + "\n"
        (self._folder / ORDER).write_text(order)


def follow_lines(
    has_ended: Callable[[float], bool], file: Path, read: Callable[[dict[str, Any]], None]
) -> None:
    """Hand on each new line of `file` until `has_ended(seconds)`, which may wait so long."""
    done, ended = 0, False
    while not ended:
        ended = has_ended(0.1)  # before the last look, so that nothing is missed
        if file.is_file():
            whole = file.read_bytes()[done:].rpartition(b"\n")[0]
            for line in whole.splitlines():
                read(json.loads(line))
            done += len(whole) + 1 if whole else 0


def failure(folder: Path, code: int) -> EquipoiseError:
    """The exception that a process left in the folder, else a GroupLostError."""
    log = folder / LOG
    files = sorted(folder.glob("error-*.json"), key=lambda file: int(file.stem.partition("-")[2]))
    failures = [json.loads(file.read_text()) for file in files]
    for known in failures:
        if known["kind"]:
            return unpack_error(known["kind"], known["message"])
    for foreign in failures:
        if not foreign["alone"]:
            return EquipoiseError(
                f"a process of the training failed ({log}):\n{foreign['message']}"
            )
    end = "\n".join(log.read_text(errors="replace").rstrip().splitlines()[-12:])
    return GroupLostError(
        f"the training's processes ended with exit code {code}; the end of {log}:\n{end}"
    )


@contextmanager
def _show_alive(folder: Path) -> Iterator[None]:
    """While it is open, and this process lives, `parent.lock` is locked, and a number counts up."""
    ended = threading.Event()

    def beat() -> None:
        beats = 0
        while not ended.wait(BEAT_SECONDS):
            beats += 1
            (folder / BEAT).write_text(str(beats))

    with open(folder / PARENT, "w") as file:
        lock(file)
        (folder / HOST).write_text(machine())
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _end(process: Process[bytes]) -> None:
    """End the launcher and with it the group; kill it when it takes too long."""
    for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, None)):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(StillRunning):
                process.wait(timeout=patience)


# -- a learner and its training batch as files


def write_batch(folder: Path, learner: Learner, batch: TrainingBatch) -> None:
    """Write learner and batch, without `log` and `resources`, to training_batch.json and
    arrays.npz.

    Raises TypeError for a value that is neither text nor array.
    """
    arrays: dict[str, np.ndarray] = {}

    def encode(value: Any) -> Any:
        if isinstance(value, Component):
            return {"class": import_path(type(value)), "settings": value.settings()}
        if isinstance(value, Path):
            return str(value.absolute())
        if isinstance(value, np.ndarray):
            name = f"array_{len(arrays)}"
            arrays[name] = value
            return name
        raise TypeError(
            f"a training batch with a {type(value).__name__} cannot be sent to other processes"
        )

    here = ("log", "resources", "launched", "standing")
    names = [field.name for field in fields(batch) if field.name not in here]
    text = {
        "learner": learner,
        "training_batch": {name: getattr(batch, name) for name in names},
        "path": [entry or os.getcwd() for entry in sys.path],
    }
    (folder / BATCH).write_bytes(msgspec.json.encode(text, enc_hook=encode))
    np.savez(folder / ARRAYS, **arrays)  # pyright: ignore[reportArgumentType]


def read_batch(
    folder: Path, log: Callable[[dict[str, Any]], None], resources: Resources
) -> tuple[Learner, TrainingBatch]:
    """The learner and the batch in `folder`, with the `log` and the `resources` of this process.

    Modules that the writing process could import can be imported here, too.
    """
    text = msgspec.json.decode((folder / BATCH).read_bytes())
    sys.path.extend(entry for entry in text["path"] if entry not in sys.path)

    def decode(kind: type, value: Any) -> Any:
        if issubclass(kind, Component):
            return import_object(value["class"]).model_validate(value["settings"])
        if issubclass(kind, np.ndarray):
            with np.load(folder / ARRAYS) as arrays:
                return arrays[value]
        return kind(value)

    hints = get_type_hints(TrainingBatch)
    values = {
        name: msgspec.convert(value, hints[name], dec_hook=decode, strict=False)
        for name, value in text["training_batch"].items()
    }
    batch = TrainingBatch(**values, log=log, resources=resources)
    return decode(Learner, text["learner"]), batch
