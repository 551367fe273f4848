"""Training in several processes: a lesson is written down, accelerate starts them on
it, their words are passed on.

The processes share a folder with the one that started them: the lesson going in;
metrics, errors and the result coming out. They live no longer than it: each watches a
lock that it holds.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np
import yaml
from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from equipoise import errors
from equipoise.component import Component, Settings, imported, nearest
from equipoise.errors import EquipoiseError
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.checkpoints import LAUNCH

PATIENCE = 20.0  # seconds that processes are given to end by themselves
# What the launcher of another job leaves in the environment of this process, and would
# be mistaken for its own.
FOREIGN = ("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "GROUP_", "ROLE_", "LOCAL_")
FOREIGN_NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Launch(Settings):
    """How the processes of a training are started."""

    config: dict[str, Any] | None = Field(
        None,
        description="accelerate's configuration: ddp, fsdp2, deepspeed_zero3, a YAML file, or what is in one",
    )
    num_processes: int | None = Field(
        None,
        ge=1,
        description="processes over all machines, in place of the configuration's own number",
    )
    prefix: list[str] = Field(
        default_factory=list,
        description="words before the command, such as srun and its options, that start it once on each machine",
    )

    @field_validator("config", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        packaged = {
            file.name.removesuffix(".yaml"): file
            for file in (files("equipoise.learners") / "accelerate").iterdir()
        }
        file = packaged.get(value, Path(value).expanduser())
        if not file.is_file():
            hint = nearest(value, list(packaged))
            raise PydanticCustomError(
                "no_file",
                "no such file: '{name}'; {hint}",
                {"name": value, "hint": hint},
            )
        try:
            found = yaml.safe_load(file.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise PydanticCustomError(
                "yaml",
                "{name}: not YAML: {error}",
                {"name": value, "error": str(error)},
            ) from error
        return found

    @model_validator(mode="after")
    def _numbered(self) -> Launch:
        if self.config is None and self.num_processes is None:
            raise PydanticCustomError(
                "launch", "needs a config (ddp, fsdp2, …) or num_processes"
            )
        if not isinstance(self.processes, int) or self.processes < 1:
            raise PydanticCustomError(
                "launch",
                "the configuration has no num_processes; give launch.num_processes",
            )
        return self

    @property
    def processes(self) -> int:
        """How many processes there are, over all machines."""
        return self.num_processes or (self.config or {}).get("num_processes", 0)

    def accelerate(self) -> dict[str, Any]:
        """The configuration that accelerate is given."""
        own = (
            self.config
            if self.config is not None
            else Launch.model_validate({"config": "ddp"}).config
        )
        return {**(own or {}), "num_processes": self.processes}

    def command(self, folder: Path) -> list[str]:
        """The command that starts every process of one machine on the lesson in
        `folder`.
        """
        config = self.accelerate()
        port = (
            ["--main_process_port", "0"] if not config.get("main_process_port") else []
        )  # 0: one that is free
        return [
            *self.prefix,
            *(
                sys.executable,
                "-m",
                "accelerate.commands.launch",
                "--config_file",
                str(folder / "accelerate.yaml"),
            ),
            *port,
            *("-m", "equipoise.learners.worker", str(folder)),
        ]


class Launchable(Learner):
    """A learner that trains in this process, or in several that are started for it. It
    defines `learn_here`.
    """

    launch: Launch | None = Field(
        None, description="train in several processes; null: in this one"
    )

    def learn(self, training_batch: TrainingBatch) -> dict[str, float]:
        """`learn_here`, in this process or in those that `launch` asks for."""
        return (
            self.learn_here(training_batch)
            if self.launch is None
            else learn(self.launch, self, training_batch)
        )

    def learn_here(self, training_batch: TrainingBatch) -> dict[str, float]:
        """Write the next generation into `training_batch.output`; return the numbers that
        sum the training up.

        Every process of the training calls it with the same lesson.
        """
        raise TypeError(f"{type(self).__name__} must define learn_here()")


def learn(
    launch: Launch, learner: Learner, training_batch: TrainingBatch
) -> dict[str, float]:
    """What `learner.learn_here(training_batch)` returns, computed by several processes;
    metrics arrive while they work.

    Raises what the processes raise where it is an error of ours, else EquipoiseError
    with the end of their log. Whatever ends this call ends them.
    """
    if find_spec("accelerate") is None:
        raise ModuleNotFoundError("no module named 'accelerate'", name="accelerate")
    folder = (training_batch.scratch / LAUNCH).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "accelerate.yaml").write_text(
        yaml.safe_dump(launch.accelerate(), sort_keys=False)
    )
    write(folder, learner, training_batch)
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
            _follow(process, folder / "metrics.jsonl", training_batch.log)
        finally:
            _end(process)
    return _outcome(folder, process.returncode)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for new processes: `given` without what another job's launcher
    has left in it.
    """
    return {
        name: value
        for name, value in given.items()
        if not name.startswith(FOREIGN) and name not in FOREIGN_NAMES
    }


def write(folder: Path, learner: Learner, training_batch: TrainingBatch) -> None:
    """Write down `learner` and all of `training_batch` but its `log`: text in
    lesson.json, arrays in arrays.npz.
    """
    arrays: dict[str, np.ndarray] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Component):
            kind = type(value)
            return {
                "class": f"{kind.__module__}:{kind.__qualname__}",
                "settings": value.settings(),
            }
        if isinstance(value, Path):
            return str(value.absolute())
        if isinstance(value, np.ndarray):
            name = f"array_{len(arrays)}"
            arrays[name] = value
            return name
        raise TypeError(
            f"a lesson cannot hold a {type(value).__name__} and be sent to other processes"
        )

    parts = {
        field.name: getattr(training_batch, field.name)
        for field in fields(training_batch)
        if field.name != "log"
    }
    text = {
        "learner": learner,
        "lesson": parts,
        "path": [entry or os.getcwd() for entry in sys.path],
    }
    (folder / "lesson.json").write_bytes(msgspec.json.encode(text, enc_hook=plain))
    np.savez(folder / "arrays.npz", **arrays)  # pyright: ignore[reportArgumentType]


def read(
    folder: Path, log: Callable[[dict[str, Any]], None]
) -> tuple[Learner, TrainingBatch]:
    """What `write` wrote. Modules that its process could import are importable here,
    too.
    """
    text = msgspec.json.decode((folder / "lesson.json").read_bytes())
    sys.path.extend(entry for entry in text["path"] if entry not in sys.path)

    def built(kind: type, value: Any) -> Any:
        if issubclass(kind, Component):
            return imported(value["class"]).model_validate(value["settings"])
        if issubclass(kind, np.ndarray):
            with np.load(folder / "arrays.npz") as arrays:
                return arrays[value]
        return kind(value)

    hints = get_type_hints(TrainingBatch)
    parts = {
        name: msgspec.convert(value, hints[name], dec_hook=built, strict=False)
        for name, value in text["lesson"].items()
    }
    return built(Learner, text["learner"]), TrainingBatch(**parts, log=log)


@contextmanager
def _alive(folder: Path) -> Iterator[None]:
    """While it is open, and this process lives, `parent.lock` is locked."""
    with open(folder / "parent.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _follow(
    process: subprocess.Popen[bytes], file: Path, log: Callable[[dict[str, Any]], None]
) -> None:
    """Hand on each line that appears in `file` until the process has ended."""
    done, ended = 0, False
    while not ended:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
        ended = (
            process.returncode is not None
        )  # before the last look, so that nothing is missed
        if file.is_file():
            whole = file.read_bytes()[done:].rpartition(b"\n")[0]
            for line in whole.splitlines():
                log(json.loads(line))
            done += len(whole) + 1 if whole else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group: the launcher ends its processes when asked to, and is killed
    when it takes too long.
    """
    for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, None)):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=patience)


def _outcome(folder: Path, code: int) -> dict[str, float]:
    """The result that the first process left; raises the error that another left, or
    tells of a crash.
    """
    if (folder / "result.json").is_file():
        return json.loads((folder / "result.json").read_text())
    found = sorted(
        folder.glob("error-*.json"), key=lambda file: int(file.stem.partition("-")[2])
    )
    log = folder / "log.txt"
    for told in (json.loads(file.read_text()) for file in found):
        if told["kind"]:
            raise vars(errors)[told["kind"]](told["message"])
    if found:
        raise EquipoiseError(
            f"a process of the training failed: {json.loads(found[0].read_text())['message']} ({log})"
        )
    end = "\n".join(log.read_text(errors="replace").rstrip().splitlines()[-12:])
    raise EquipoiseError(
        f"the training's processes ended with exit code {code}; the end of {log}:\n{end}"
    )
