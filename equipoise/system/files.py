"""Force files to the disk, and tell later whether they are as they were written.

A folder that was written whole has `checksums.sha256`, one line a file as `sha256sum --check` reads
it. How files are written is in `system.folder`.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from equipoise.errors import DISK_FULL, DiskFull, RunError

CHECKSUMS = "checksums.sha256"
UNCHECKED = frozenset({CHECKSUMS, "README.md"})  # a card is written anew at any time


def user_cache() -> Path:
    """The folder of what may be made again, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equipoise"


def sync(path: Path) -> None:
    """Force a file, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Force a folder with all that is in it to the disk."""
    for place in folder.rglob("*"):
        sync(place)
    sync(folder)


# -- checksums


def write_checksums(folder: Path) -> None:
    """Write the checksums of a folder's files beside them."""
    lines = [f"{_digest(folder / name)}  {name}\n" for name in _checked_files(folder)]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def faults(folder: Path) -> list[str]:
    """Differences from the folder's checksums, one message a file; none where it has none."""
    listed = folder / CHECKSUMS
    if not listed.is_file():
        return []
    messages = []
    for line in listed.read_bytes().decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        path = folder / name
        leaves = PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts
        if len(digest) != 64 or not name or leaves:
            messages.append(f"{listed}: is damaged")
        elif not path.is_file():
            messages.append(f"{path}: is missing")
        elif _digest(path) != digest:
            messages.append(f"{path}: is damaged (its checksum is another)")
    return messages or ([] if listed.stat().st_size else [f"{listed}: is damaged"])


def check_whole(folder: Path) -> None:
    """Raises RunError where a file of the folder is missing or damaged."""
    if messages := faults(folder):
        raise RunError(f"{messages[0]}; `equipoise check` says what else, and what can be saved")


def _checked_files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in UNCHECKED:
            yield path.relative_to(folder).as_posix()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """The contents of a JSON file. Raises RunError for one that is missing or damaged."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError) as error:
        raise RunError(f"{path}: is missing or damaged ({error})") from error


# -- full disks


@contextmanager
def disk_errors(
    folder: Path, advice: str = "free some; a run goes on with `equipoise resume`"
) -> Iterator[None]:
    """Turn torch's, pyarrow's and the system's errors on a full disk into DiskFull."""
    try:
        yield
    except Exception as error:
        if not is_full(error):
            raise
        raise DiskFull(f"{folder}: no space left to write into; {advice}") from error


def is_full(error: Exception) -> bool:
    """True where the disk had no space to give, as the system or a library says it."""
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return True
    signs = ("No space left", "File too large", "PytorchStreamWriter failed")
    return any(sign in str(error) for sign in signs)
