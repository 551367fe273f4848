"""One of the processes of a `process_group`.

python -m equipoise.learners.training_worker FOLDER
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from traceback import walk_tb
from typing import Any, TextIO

from equipoise.errors import ConfigError, pack_error
from equipoise.learners.fine_tuning import FineTuning
from equipoise.learners.launch import world_size
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.process_group import BEAT, HOST, LINES, ORDER, PARENT, read_batch
from equipoise.models.device import return_unused_memory
from equipoise.models.progress import ignore_known_warnings
from equipoise.models.resources import Resources
from equipoise.system.locks import lock, machine

# seconds without a beat after which the other machine, or its disk, is taken for gone
SILENCE = 120.0
# modules of torch from which an error comes when another process has ended
COMMUNICATION = ("torch.distributed", "torch.autograd")
POLL = 0.05  # seconds between two looks for an order


def main(folder: Path) -> None:
    """Carry out the orders in `folder`, with the others; the first process writes."""
    ignore_known_warnings()
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    rank = int(os.environ.get("RANK", "0"))
    try:
        _serve(folder, rank)
    except Exception as error:
        kind, message = pack_error(error)
        reason = {"kind": kind, "message": message, "alone": is_left_alone(error)}
        draft = folder / f"error-{rank}.draft"
        draft.write_text(json.dumps(reason))
        draft.rename(draft.with_suffix(".json"))  # it appears complete or not at all
        raise


def _serve(folder: Path, rank: int) -> None:
    from accelerate import PartialState

    resources = Resources()  # stay open from order to order
    state = None
    for number, kind in orders(folder / ORDER):
        with open(folder / str(number) / LINES, "a") as lines:
            answers = lines if rank == 0 else None
            facts = carry_out(folder / str(number), kind, resources, answers)
            return_unused_memory()  # those who play between two orders have it
            state = PartialState()
            state.wait_for_everyone()  # all have read it, and are ready for the next
            if rank == 0:
                lines.write(json.dumps({"facts": facts}) + "\n")
    if state is not None:
        state.wait_for_everyone()  # no process leaves while another still needs it
        state.destroy_process_group()


def orders(file: Path) -> Iterator[tuple[int, str]]:
    """The number and kind of each order that appears in the file, until the last."""
    done = 0
    while True:
        text = file.read_text()
        order: dict[str, Any] = json.loads(text) if text.endswith("\n") else {}
        if order.get("what") == "end":
            return
        if order.get("number", 0) > done:
            done = order["number"]
            yield done, order["what"]
        else:
            time.sleep(POLL)


def carry_out(
    folder: Path, kind: str, resources: Resources, answers: TextIO | None
) -> dict[str, float]:
    """Read the order's learner and batch from its folder and do as it says; returns the facts.

    `answers` takes lines of metrics. Raises ConfigError for another number of processes.
    """

    def log(line: dict[str, Any]) -> None:
        if answers is not None:
            answers.write(json.dumps({"log": line}) + "\n")
            answers.flush()

    learner, batch = read_batch(folder, log, resources)
    batch = replace(batch, launched=True)
    assert isinstance(learner, FineTuning | PolicyGradient) and learner.launch is not None
    if world_size() != learner.launch.processes:
        raise ConfigError(
            f"learner.launch asks for {learner.launch.processes} processes, but accelerate started "
            f"{world_size()}; in its configuration, distributed_type has to be MULTI_GPU (on CPUs, "
            "too), FSDP or DEEPSPEED"
        )
    if kind == "learn":
        return learner.learn(batch)
    assert kind == "save_state" and isinstance(learner, PolicyGradient), kind
    learner.save_state(batch)
    return {}


def is_left_alone(error: BaseException) -> bool:
    """True for errors of torch's communication or backward passes: another process ended."""
    from torch.distributed import DistError

    if isinstance(error, DistError):
        return True
    if type(error) is not RuntimeError:
        return False
    inner = [frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)]
    own = takewhile(lambda name: name.startswith("torch."), reversed(inner))
    return any(name.startswith(COMMUNICATION) for name in own)


def _end_with_parent(folder: Path) -> None:
    """End this process when the one that gives the orders has been killed.

    A lock says so on its machine; elsewhere a file that no longer changes does.
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
