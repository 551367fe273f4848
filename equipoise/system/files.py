"""Files and folders that appear whole or not at all, also after a power cut, and that can be
checked later.

What is written goes into a draft beside its place; the draft's contents are forced to the disk
(fsync) before it is renamed, and so is the folder's list of names afterwards. A folder also gets
`checksums.sha256`, one line a file as `sha256sum --check` reads it.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

from equipoise.errors import DiskFull, RunError

CHECKSUMS = "checksums.sha256"
UNCHECKED = frozenset({CHECKSUMS, "README.md"})  # a card is written anew at any time


# -- writing


def write_text(path: Path, text: str) -> None:
    """Put a file in place of another one, whole or not at all."""
    with new_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A draft to write a new file into; at the end it is synced and put in place."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        yield draft
        sync(draft)
        replace(draft, path)
    except OSError as error:
        if error.filename in (None, str(draft)):  # the place that its reader knows
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def draft_of(path: Path) -> Path:
    """This process's draft beside `path`; those that killed processes left there are removed."""
    own = path.with_name(f".{path.name}.draft.{os.getpid()}")
    shutil.rmtree(own, ignore_errors=True)
    for draft in path.parent.glob(f".{escape(path.name)}.draft.*"):
        try:
            os.kill(int(draft.suffix[1:]), 0)
        except ProcessLookupError:
            shutil.rmtree(draft, ignore_errors=True)
        except (ValueError, OverflowError, OSError):  # another file, or another user's process
            continue
    return own


@contextmanager
def new_files(folder: Path) -> Iterator[Path]:
    """A draft to write files into, which are put into `folder` when all are whole.

    Raises DiskFull, and leaves none of them.
    """
    draft = draft_of(folder / "files")
    try:
        with disk_errors(folder, "nothing of it was written; free some, then try again"):
            draft.mkdir()
            yield draft
            sync_tree(draft)
            for file in sorted(draft.iterdir()):
                file.replace(folder / file.name)
            sync(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def user_cache() -> Path:
    """The folder of what may be made again, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equipoise"


def write_folder(folder: Path, write: Callable[[Path], None], begun: bool = True) -> None:
    """Make `folder` whole or not at all, in place of an older one. Raises DiskFull.

    `begun`: whether `write` is given a folder that is there; otherwise it makes it.
    """
    folder = folder.resolve()  # beside what a link leads to
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with disk_errors(folder, "free some, then try again"):
            make_folder(draft if begun else draft.parent)
            write(draft)
            publish(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, and have their names on disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def publish(draft: Path, folder: Path) -> None:
    """Rename a folder that is written to its place, with the checksums of its files."""
    write_checksums(draft)
    sync_tree(draft)
    shutil.rmtree(folder, ignore_errors=True)
    replace(draft, folder)


def write_checksums(folder: Path) -> None:
    """Write the checksums of a folder's files beside them."""
    lines = [f"{_digest(folder / name)}  {name}\n" for name in _checked_files(folder)]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def replace(draft: Path, path: Path) -> None:
    """Rename what is written and synced, and have the new name on disk, too."""
    draft.replace(path)
    sync(path.parent)


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


def set_aside(folder: Path) -> Path:
    """Rename a damaged folder `3` to `damaged-3`, or the next name that is free."""
    names = [f"damaged-{folder.name}", *(f"damaged-{folder.name}-{n}" for n in range(2, 100))]
    aside = next(p for p in map(folder.with_name, names) if not p.exists())
    replace(folder, aside)
    return aside


# -- checking


def faults(folder: Path) -> list[str]:
    """Differences from the folder's checksums, one message a file; none where it has none."""
    listed = folder / CHECKSUMS
    if not listed.is_file():
        return []
    messages = []
    for line in listed.read_bytes().decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        path = folder / name
        if len(digest) != 64 or not name:
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
        if not _is_full(error):
            raise
        raise DiskFull(f"{folder}: no space left to write into; {advice}") from error


def _is_full(error: Exception) -> bool:
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if isinstance(error, OSError) and error.errno in full:
        return True
    signs = ("No space left", "File too large", "PytorchStreamWriter failed")
    return any(sign in str(error) for sign in signs)
