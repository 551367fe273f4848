"""One of the processes that `learners.launch` has started: `python -m
equipoise.learners.worker FOLDER`.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from equipoise import errors
from equipoise.errors import ConfigError
from equipoise.learners.gradient import world_size
from equipoise.learners.launch import Launchable, read


def main(folder: Path) -> None:
    """Learn the lesson in `folder` together with the other processes; the first writes
    metrics and the result.
    """
    threading.Thread(
        target=_end_with_parent, args=(folder / "parent.lock",), daemon=True
    ).start()
    rank = int(os.environ.get("RANK", "0"))
    try:
        facts = _learn(folder)
    except Exception as error:
        ours = [
            kind.__name__
            for kind in type(error).__mro__
            if kind.__module__ == errors.__name__
        ]
        message = str(error) if ours else f"{type(error).__name__}: {error}"
        _write(
            folder / f"error-{rank}.json",
            {"kind": ours[0] if ours else None, "message": message},
        )
        raise
    if rank == 0:
        _write(folder / "result.json", facts)


def _learn(folder: Path) -> dict[str, float]:
    from accelerate import PartialState

    with open(
        folder / "metrics.jsonl", "a"
    ) as metrics:  # only the first process is given lines

        def log(line: dict[str, Any]) -> None:
            metrics.write(json.dumps(line) + "\n")
            metrics.flush()

        learner, training_batch = read(folder, log)
        assert isinstance(learner, Launchable) and learner.launch is not None
        if world_size() != learner.launch.processes:
            raise ConfigError(
                f"learner.launch asks for {learner.launch.processes} processes, but accelerate started {world_size()}; "
                "in its configuration, distributed_type has to be MULTI_GPU (on CPUs, too), FSDP or DEEPSPEED"
            )
        facts = learner.learn_here(training_batch)
    state = PartialState()
    state.wait_for_everyone()  # none leaves while another still needs it
    state.destroy_process_group()
    return facts


def _write(file: Path, value: Any) -> None:
    """`file` appears complete or not at all."""
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(value))
    draft.rename(file)


def _end_with_parent(lock: Path) -> None:
    """End this process once nobody holds the lock: whoever reads its results has been
    killed.
    """
    with open(lock) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.5)
            else:
                os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
