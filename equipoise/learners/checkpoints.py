"""Where a training goes on after a crash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from equipoise.system.files import sync, sync_tree, write_text

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
    if _identity(name) != identity:
        for old in scratch.iterdir():
            if old.is_dir() and old.name != LAUNCH:
                shutil.rmtree(old)
        write_text(name, json.dumps({"identity": identity}))
    complete: list[Path] = []
    for folder in scratch.glob("checkpoint-*"):
        if (folder / COMPLETE).is_file():
            complete.append(folder)
        else:
            shutil.rmtree(folder)
    return max(complete, key=_step, default=None)


def mark_complete(checkpoint: Path) -> None:
    """Say that everything in a checkpoint is written, once it is on the disk."""
    sync_tree(checkpoint)
    (checkpoint / COMPLETE).touch()
    sync(checkpoint)


def _identity(name: Path) -> str | None:
    """Which training the checkpoints are of; None where the file does not say it, for what a crash
    left of a checkpoint is not used.
    """
    try:
        return json.loads(name.read_bytes())["identity"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _step(checkpoint: Path) -> int:
    """The optimizer step after which the checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])
