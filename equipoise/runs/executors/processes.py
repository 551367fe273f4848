"""Worker processes on this machine: one a device."""

import os
import threading
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from equipoise.runs.executors.base import Executor
from equipoise.runs.executors.worker import receive, send
from equipoise.runs.executors.worker_pool import WorkerLostError, WorkerPool
from equipoise.system.subprocesses import (
    PIPE,
    Process,
    StillRunning,
    child_environment,
    python_command,
    start_process,
)

LOOK = 5.0  # seconds between two looks at a worker
STOPPED = 12  # looks in a row at a worker that a signal stopped, after which it is given up


class Processes(Executor):
    """Worker processes here, each with an accelerator in turn, or a share of the cores."""

    kind: Literal["processes"] = "processes"
    processes: int = Field(2, ge=1, description="how many; one a device")

    def open(self) -> WorkerPool:
        return WorkerPool(lambda i: _Process(self._environment(i)), self.processes)

    def _environment(self, i: int) -> dict[str, str]:
        changed = child_environment()
        devices = _devices()
        if devices:
            changed["CUDA_VISIBLE_DEVICES"] = devices[i % len(devices)]
        else:
            share = max(1, len(os.sched_getaffinity(0)) // self.processes)
            changed.setdefault("OMP_NUM_THREADS", str(share))
        return changed


def _devices() -> list[str]:
    """The accelerators that this process may use, by the names that CUDA knows."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return [name.strip() for name in named.split(",")]
    import torch

    return [str(i) for i in range(torch.cuda.device_count())]


class _Process:
    """One process; another is started where it ended."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._environ = environ
        self._process: Process[bytes] | None = None

    def do(self, order: bytes) -> bytes:
        """Hand the order over, and wait for the result."""
        if self._process is None:
            command = python_command("equipoise.runs.executors.worker")
            self._process = start_process(command, self._environ, stdin=PIPE, stdout=PIPE)
            threading.Thread(target=end_where_stopped, args=(self._process,), daemon=True).start()
        process = self._process
        try:
            send(_open(process.stdin), order)
            result = receive(_open(process.stdout))
        except (BrokenPipeError, ConnectionError) as error:
            raise WorkerLostError(self._end(process)) from error
        if result is None:
            raise WorkerLostError(self._end(process))
        return result

    def _end(self, process: Process[bytes]) -> str:
        self._process = None
        process.kill()
        return f"worker process {process.pid} ended with exit code {process.wait()}"

    def close(self) -> None:
        """Kill it: what it does can be done again."""
        if self._process is not None:
            self._process.kill()


def end_where_stopped(process: Process[bytes]) -> None:
    """Watch a process to its end, and kill it once it was seen stopped (SIGSTOP) `STOPPED` times in
    a row; whoever waits for it then learns that it is lost, in place of waiting for ever.

    Where both were stopped together, as by Ctrl-Z, this does not look in the meantime.
    """
    seen = 0
    while True:
        try:
            process.wait(LOOK)
            return
        except StillRunning:
            seen = seen + 1 if is_stopped(process.pid) else 0
        if seen >= STOPPED:
            process.kill()


def is_stopped(pid: int) -> bool:
    """True for a process that a signal stopped, as far as this system shows it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] == "T"


def _open(pipe: Any) -> Any:
    assert pipe is not None
    return pipe
