"""Where a training goes on after it was cut short, and what is said when the disk is
full.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.errors import DiskFull

COMPLETE = "complete"  # a checkpoint folder holds a file of this name once everything else in it is written
LAUNCH = "launch"  # the part of a scratch folder that belongs to whoever started the processes


def resumable(scratch: Path, identity: str) -> Path | None:
    """The newest whole checkpoint of the training called `identity`; what is cut short
    or of another one is deleted.
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
    whole: list[Path] = []
    for folder in scratch.glob("checkpoint-*"):
        if (folder / COMPLETE).is_file():
            whole.append(folder)
        else:
            shutil.rmtree(folder)
    return max(
        whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None
    )


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turns what torch, safetensors and the system say of a full disk into DiskFull."""
    try:
        yield
    except Exception as error:
        full = isinstance(error, OSError) and error.errno in (
            errno.ENOSPC,
            errno.EDQUOT,
        )
        if (
            full
            or "No space left" in str(error)
            or "PytorchStreamWriter failed" in str(error)
        ):
            raise DiskFull(
                f"{folder}: no space left for a model or checkpoint; free some, then resume"
            ) from error
        raise
