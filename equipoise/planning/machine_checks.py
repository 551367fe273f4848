"""Check this machine, and that the parts of a run work on it."""

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from equipoise.answer import answer_of
from equipoise.errors import EquipoiseError
from equipoise.system.locks import check_writable, lock, network_disk
from equipoise.system.plugins import installed_kinds

LIBRARIES = ("torch", "transformers", "peft", "accelerate", "datasets", "math-verify")


@dataclass(frozen=True)
class MachineCheck:
    """One check: whether it passed, and what there is, or what went wrong."""

    name: str
    ok: bool
    finding: str


def examine() -> list[MachineCheck]:
    """Check versions, cores, memory, disk, device, ledger and the built-in model."""
    return [_run_check(name, check) for name, check in _checks()]


def _run_check(name: str, check: Callable[[], str]) -> MachineCheck:
    try:
        return MachineCheck(name, True, check())
    except Exception as error:  # noqa: BLE001  whatever goes wrong is the finding
        if isinstance(error, EquipoiseError):
            return MachineCheck(name, False, str(error))
        lines = str(error).splitlines()
        message = lines[0] if lines else ""
        return MachineCheck(name, False, f"{type(error).__name__}: {message}")


def _checks() -> Iterator[tuple[str, Callable[[], str]]]:
    yield "python", lambda: f"{sys.version.split()[0]} on {platform.platform()}"
    for library in LIBRARIES:
        yield library, lambda library=library: importlib.metadata.version(library)
    yield "plug-ins", _plugins
    yield "cores and memory", _cores_and_memory
    yield "disk", lambda: f"{shutil.disk_usage('.').free / 2**30:.1f} GiB free here"
    yield "this folder", _this_folder
    yield "locks", _locks
    yield "device", _device
    yield "ledger", _ledger
    yield "built-in model", _builtin_model


def _plugins() -> str:
    listed = [
        f"{kind} ({room}, {path})"
        for room, kinds in installed_kinds().items()
        for kind, path in kinds.items()
    ]
    return ", ".join(listed) or "none"


def _cores_and_memory() -> str:
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):  # Linux
        cores = len(os.sched_getaffinity(0))
    if not hasattr(os, "sysconf"):  # Windows
        return f"{cores} cores"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cores} cores, {memory:.1f} GiB"


def _this_folder() -> str:
    check_writable(Path())
    finding = f"{Path.cwd()} can be written"
    if kind := network_disk(Path()):
        finding += (
            f"; it is on a network disk ({kind}): a run's ledger keeps a journal in "
            "place of a WAL, and is safest on a disk of the machine that plays it "
            "(--out)"
        )
    return finding


def _locks() -> str:
    """Raises RunError where one run cannot be kept from two processes."""
    with tempfile.TemporaryFile("w+") as file:
        lock(file, wait=False)
    return "two processes cannot run one run"


def _device() -> str:
    import torch

    from equipoise.models.device import choose_device, explain_device

    memory = ""
    if choose_device().type == "cuda":
        memory = f", {torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB"
    return explain_device() + memory


def _ledger() -> str:
    from equipoise.ledger.ledger import Ledger

    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.create(Path(folder) / "ledger.sqlite") as ledger,
    ):
        ledger.finish("check", 0, "check", {}, 0.0)
        assert ledger.stage_facts("check") == {}
    return f"SQLite {sqlite3.sqlite_version}, WAL"


def _builtin_model() -> str:
    from equipoise.models.resources import Resources
    from equipoise.players.local import Local
    from equipoise.types import View, user

    player = Local.model_validate({"model": "builtin", "max_new_tokens": 8, "temperature": 0})
    actor = player.open(None, Resources())
    move = actor.act([View((user("What is 2 + 3?"),))], [0])[0]
    return f"answers 'What is 2 + 3?' with '{answer_of(move).text}'"
