"""The command in forked processes, in which all that is slow to import is imported already, and
which die by SIGKILL at a chosen moment.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = (
    "at any time",
    "before a rename",
    "after a rename",
    "at a stage's record",
    "within a write of weights",
)


@dataclass(frozen=True)
class Moment:
    """When a process dies: after so many seconds, or at the n-th rename, record of a stage or file of
    weights, of which half is written.
    """

    kind: str
    number: float


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, or None where it was killed."""

    code: int | None
    output: str
    seconds: float


def load() -> None:
    """Import what runs need, once, for all processes that are forked from this one."""
    import torch
    import transformers

    import equipoise.api.functions
    import equipoise.api.measure_sets
    import equipoise.cli
    import equipoise.learners.answer_trainer
    import equipoise.learners.policy_trainer

    torch.set_num_threads(1)
    del transformers, equipoise


def draw(dice: random.Random, kind: str, seconds: float, renames: int) -> Moment:
    """A moment of that kind in a run of such a length."""
    if kind == "at any time":
        return Moment(kind, dice.uniform(0, 0.4 * seconds))
    return Moment(kind, dice.randint(1, max(2, renames // 4)))


def command(arguments: Sequence[str | Path], folder: Path, moment: Moment | None = None) -> Ended:
    """Run the command in `folder` in a process of its own, until it ends or `moment`."""
    log = folder / "output.txt"
    log.write_bytes(b"")  # a child that dies at once leaves none
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _run(arguments, folder, log, moment)
    if moment is not None and moment.kind == "at any time":
        while time.monotonic() - started < moment.number:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.005)
        else:
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - started
    code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return Ended(code, log.read_text(errors="replace"), seconds)


def _run(arguments: Sequence[str | Path], folder: Path, log: Path, moment: Moment | None) -> None:
    """The child: never returns."""
    code = 1
    try:
        os.chdir(folder)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        # Those of a parent that captures them would not be written here.
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
        sys.argv = ["equipoise", *map(str, arguments)]
        if moment is not None:
            _arm(moment)
        from equipoise.cli import main

        main()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0
    except BaseException:  # noqa: BLE001  a child says what it died of
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _arm(moment: Moment) -> None:
    """Have this process kill itself at the n-th rename, record of a stage, or file of weights."""
    import safetensors.torch

    from equipoise.ledger.ledger import Ledger

    counted = 0

    def counting(call: Callable[..., Any], after: bool) -> Callable[..., Any]:
        def wrapped(*values: Any, **named: Any) -> Any:
            nonlocal counted
            counted += 1
            if counted == moment.number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*values, **named)
            if counted == moment.number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    def halving(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(tensors: Any, path: Any, *rest: Any, **named: Any) -> Any:
            nonlocal counted
            counted += 1
            write(tensors, path, *rest, **named)
            if counted == moment.number:
                os.truncate(path, os.path.getsize(path) // 2)
                os.kill(os.getpid(), signal.SIGKILL)

        return wrapped

    if moment.kind == "within a write of weights":
        name = "serialize_file"
        setattr(safetensors.torch, name, halving(getattr(safetensors.torch, name)))
    elif moment.kind == "at a stage's record":
        Ledger.finish = counting(Ledger.finish, after=moment.number % 2 == 0)
    elif moment.kind != "at any time":
        after = moment.kind == "after a rename"
        os.rename = counting(os.rename, after)
        os.replace = counting(os.replace, after)
