"""One of the processes that `learners.processes` starts: `python -m
equipoise.learners.worker FOLDER`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from equipoise.errors import ConfigError, sent
from equipoise.learners.batch_files import read
from equipoise.learners.launch import world_size
from equipoise.learners.processes import BEAT, HOST, PARENT, Launchable
from equipoise.locks import lock
from equipoise.machines import machine

# seconds without a beat after which the other machine, or its disk, is taken for gone
SILENCE = 120.0


def main(folder: Path) -> None:
    """Learn the training batch in `folder` together with the other processes.

    The first of them writes metrics and the result.
    """
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    rank = int(os.environ.get("RANK", "0"))
    try:
        facts = _learn(folder)
    except Exception as error:
        kind, message = sent(error)
        _write(folder / f"error-{rank}.json", {"kind": kind, "message": message})
        raise
    if rank == 0:
        _write(folder / "result.json", facts)


def _learn(folder: Path) -> dict[str, float]:
    from accelerate import PartialState

    # only the first process is given lines
    with open(folder / "metrics.jsonl", "a") as metrics:

        def log(line: dict[str, Any]) -> None:
            metrics.write(json.dumps(line) + "\n")
            metrics.flush()

        learner, batch = read(folder, log)
        assert isinstance(learner, Launchable) and learner.launch is not None
        if world_size() != learner.launch.processes:
            raise ConfigError(
                f"learner.launch asks for {learner.launch.processes} processes, but "
                f"accelerate started {world_size()}; in its configuration, "
                "distributed_type has to be MULTI_GPU (on CPUs, too), FSDP or "
                "DEEPSPEED"
            )
        facts = learner.learn_here(batch)
    state = PartialState()
    state.wait_for_everyone()  # no process leaves while another still needs it
    state.destroy_process_group()
    return facts


def _write(file: Path, value: Any) -> None:
    """`file` appears complete or not at all."""
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(value))
    draft.rename(file)


def _end_with_parent(folder: Path) -> None:
    """End this process when the one that was to read the result has been killed.

    On its machine a lock says so; a lock may not be seen from another machine, where a
    file that no longer changes says so.
    """
    if (folder / HOST).read_text() == machine():
        wait_for_lock(folder / PARENT)
    else:
        wait_for_silence(folder / BEAT)
    os._exit(1)


def wait_for_lock(held: Path) -> None:
    """Return once nobody locks the file."""
    with open(held) as file:
        while True:
            try:
                lock(file, shared=True, wait=False)
            except BlockingIOError:
                time.sleep(0.5)
            else:
                return


def wait_for_silence(beat: Path, patience: float = SILENCE) -> None:
    """Return once the file has not changed for `patience` seconds of this clock."""
    last, since = "", time.monotonic()
    while time.monotonic() - since < patience:
        try:
            now = beat.read_text()
        except OSError:  # not there yet, or for the moment
            now = last
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(min(1.0, patience / 10))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
