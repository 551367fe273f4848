"""Where a training goes on after a crash, and the error of a full disk."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.errors import DiskFull

# A checkpoint folder holds a file of this name once everything else in it is written.
COMPLETE = "complete"
# The part of a scratch folder that processes share with the one that started them.
LAUNCH = "launch"


def resumable(scratch: Path, identity: str) -> Path | None:
    """The newest complete checkpoint of the training called `identity`.

    Deletes incomplete checkpoints and those of another training.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    name = scratch / "training.json"
    if not name.is_file() or json.loads(name.read_text()) != {"identity": identity}:
        for old in scratch.iterdir():
            if old.is_dir() and old.name != LAUNCH:
                shutil.rmtree(old)
        draft = name.with_suffix(".draft")
        draft.write_text(json.dumps({"identity": identity}))
        draft.rename(name)
    complete: list[Path] = []
    for folder in scratch.glob("checkpoint-*"):
        if (folder / COMPLETE).is_file():
            complete.append(folder)
        else:
            shutil.rmtree(folder)
    return max(complete, key=_step, default=None)


def _step(checkpoint: Path) -> int:
    """The optimizer step after which the checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turns the errors that torch, safetensors and the system raise on a full disk into
    DiskFull.
    """
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        raise DiskFull(
            f"{folder}: no space left for a model or checkpoint; free some, then resume"
        ) from error


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    signs = ("No space left", "PytorchStreamWriter failed")
    return any(sign in str(error) for sign in signs)
