"""`equipoise doctor`: what this machine has, and whether the parts work here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

from equipoise.cli.options import Json, show

LIBRARIES = ("torch", "transformers", "peft", "accelerate", "datasets", "math-verify")


def doctor(json: Json = False) -> None:
    """Check this machine: versions, cores, memory, disk, device, ledger, built-in
    model.
    """
    from rich.console import Console
    from rich.table import Table

    checks = [(name, *_tried(check)) for name, check in _checks()]
    if json:
        show([{"check": name, "ok": ok, "found": found} for name, ok, found in checks])
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, ok, found in checks:
            table.add_row("[green]ok[/]" if ok else "[red]no[/]", name, found)
        Console().print(table)
    if not all(ok for _, ok, _ in checks):
        raise typer.Exit(1)


def _tried(check: Callable[[], str]) -> tuple[bool, str]:
    """A check's finding; what it raises is the finding of a check that failed."""
    try:
        return True, check()
    except Exception as error:  # noqa: BLE001  a diagnosis reports whatever goes wrong, and the exit code says so
        return (
            False,
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        )


def _checks() -> Iterator[tuple[str, Callable[[], str]]]:
    yield "python", lambda: f"{sys.version.split()[0]} on {platform.platform()}"
    for library in LIBRARIES:
        yield library, lambda library=library: importlib.metadata.version(library)
    yield "cores and memory", _size
    yield "disk", lambda: f"{shutil.disk_usage('.').free / 2**30:.1f} GiB free here"
    yield "device", _device
    yield "ledger", _ledger
    yield "built-in model", _model


def _size() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores, {memory:.1f} GiB"


def _device() -> str:
    import torch

    from equipoise.models.device import choose_device, explain_device

    memory = ""
    if choose_device().type == "cuda":
        memory = f", {torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB"
    return explain_device() + memory


def _ledger() -> str:
    from equipoise.run.ledger import Ledger

    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.create(Path(folder) / "ledger.sqlite") as ledger,
    ):
        ledger.finish("check", 0, "check", {}, 0.0)
        assert ledger.finished("check") == {}
    return f"SQLite {sqlite3.sqlite_version}, WAL"


def _model() -> str:
    from equipoise.models.resources import Resources
    from equipoise.players.local import Local
    from equipoise.types import View, user

    actor = Local.model_validate(
        {"model": "builtin", "max_new_tokens": 8, "temperature": 0}
    ).open(None, Resources())
    move = actor.act([View((user("What is 2 + 3?"),))], [0])[0]
    return f"answers 'What is 2 + 3?' with '{move.text}'"
