"""Where a run's ledger lies: in its folder, or on another disk that a link there leads to."""

from __future__ import annotations

import shutil
from pathlib import Path

from equipoise.errors import RunError
from equipoise.runs.config import RunConfig
from equipoise.system.locks import check_writable

LEDGER = "ledger.sqlite"


def ledger_elsewhere(config: RunConfig, folder: Path) -> Path | None:
    """Where the ledger of a new run in `folder` is made, if not there.

    Raises RunError where something else is there already, or nothing can be written.
    """
    if config.ledger is None:
        return None
    there = Path(config.ledger).expanduser().absolute()
    if there.exists() and (folder / LEDGER).resolve() != there.resolve():
        raise RunError(f"ledger: {there} is there already; name another file")
    check_writable(there.parent)
    there.parent.mkdir(parents=True, exist_ok=True)
    return there


def delete(folder: Path) -> None:
    """Delete a run, and its ledger where that lies elsewhere."""
    ledger = folder / LEDGER
    if ledger.is_symlink():
        there = ledger.readlink()
        for ending in ("", "-wal", "-shm", "-journal"):
            there.with_name(there.name + ending).unlink(missing_ok=True)
    shutil.rmtree(folder)
