"""Check this machine, and that the parts of a run work on it."""

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    return [run_check(name, check) for name, check in checks().items()]


def run_check(name: str, check: Callable[[], str]) -> MachineCheck:
    try:
        return MachineCheck(name, True, check())
    except Exception as error:  # noqa: BLE001  whatever goes wrong is the finding
        finding = str(error)
        if not isinstance(error, EquipoiseError):
            first, _, _ = finding.partition("\n")
            finding = f"{type(error).__name__}: {first}"
        return MachineCheck(name, False, finding)


def checks() -> dict[str, Callable[[], str]]:
    """Name -> the check, which returns what there is and raises what is wrong, in order."""
    versions = {name: partial(importlib.metadata.version, name) for name in LIBRARIES}
    return {
        "python": lambda: f"{sys.version.split()[0]} on {platform.platform()}",
        **versions,
        "plug-ins": plugins,
        "cores and memory": cores_and_memory,
        "disk": lambda: f"{shutil.disk_usage('.').free / 2**30:.1f} GiB free here",
        "this folder": this_folder,
        "locks": locks,
        "device": device,
        "ledger": new_ledger,
        "built-in model": builtin_model,
    }


def plugins() -> str:
    """The kinds of installed plug-ins, each with its room and its path."""
    listed = []
    for room, kinds in installed_kinds().items():
        listed += [f"{kind} ({room}, {path})" for kind, path in kinds.items()]
    return ", ".join(listed) or "none"


def cores_and_memory() -> str:
    """The cores that this process may use, and the machine's memory."""
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):  # Linux
        cores = len(os.sched_getaffinity(0))
    if not hasattr(os, "sysconf"):  # Windows
        return f"{cores} cores"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cores} cores, {memory:.1f} GiB"


def this_folder() -> str:
    """The current folder, which must be writable, and its network disk. Raises RunError."""
    check_writable(Path())
    finding = f"{Path.cwd()} can be written"
    kind = network_disk(Path())
    if kind:
        finding += (
            f"; it is on a network disk ({kind}): a run's ledger keeps a journal in "
            "place of a WAL, and is safest on a disk of the machine that plays it "
            "(--out)"
        )
    return finding


def locks() -> str:
    """Raises RunError where one run cannot be kept from two processes."""
    with tempfile.TemporaryFile("w+") as file:
        lock(file, wait=False)
    return "two processes cannot run one run"


def device() -> str:
    """The device on which models compute, and its memory."""
    import torch

    from equipoise.models.device import choose_device, explain_device

    memory = ""
    if choose_device().type == "cuda":
        memory = f", {torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB"
    return explain_device() + memory


def new_ledger() -> str:
    """The version of SQLite, after a ledger was made, written and read."""
    from equipoise.ledger.ledger import Ledger

    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.create(Path(folder) / "ledger.sqlite") as ledger,
    ):
        ledger.finish("check", 0, "check", {}, 0.0)
        assert ledger.stage_facts("check") == {}
    return f"SQLite {sqlite3.sqlite_version}, WAL"


def builtin_model() -> str:
    """An answer of the built-in model."""
    from equipoise.models.resources import Resources
    from equipoise.players.local import Local
    from equipoise.types import View, user

    player = Local.model_validate({"model": "builtin", "max_new_tokens": 8, "temperature": 0})
    actor = player.open(None, Resources())
    move = actor.act([View((user("What is 2 + 3?"),))], [0])[0]
    return f"answers 'What is 2 + 3?' with '{answer_of(move).text}'"
