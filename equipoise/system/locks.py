"""File locks, which the system frees however a process ends, and other checks of a run's disk."""

import os
import platform
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from equipoise.errors import RunError, clean
from equipoise.system.folder import Folder

LONGEST = 1000  # bytes of a lock file that are read
PATIENCE = 60.0  # seconds until a lock's holder counts as stopped
PAUSE = 0.01  # seconds between two attempts
UNSUPPORTED = (
    "this system has no file locks of the kind that keeps two processes from one run "
    "(Python's module fcntl is missing, as on Windows); use Linux, macOS, or WSL 2 on "
    "Windows"
)


def lock(file: IO[Any], *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file, alone or `shared` with others.

    Raises BlockingIOError where another process holds it and `wait` is false, RunError where it
    holds it for more than PATIENCE, and where the system or the disk has no locks.
    """
    check_locks()
    import fcntl

    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if not wait:
                raise
            if time.monotonic() > until:
                raise RunError(
                    f"{file.name}: has been locked by another process for {PATIENCE:g} s, which "
                    "may be stopped (Ctrl-Z, SIGSTOP); let it go on, or end it"
                ) from error
            time.sleep(PAUSE)
        except OSError as error:
            raise RunError(
                f"{file.name}: cannot be locked on this disk ({error.strerror}), so two "
                "processes could play one run; use another disk, or mount this one with locks"
            ) from error


@contextmanager
def hold_lock(
    folder: Folder, busy: Callable[[str], RunError], name: str = ".lock"
) -> Iterator[Callable[[], None]]:
    """Hold the lock file `name` of a folder, naming this process; raises `busy(holder)`.

    Yields a check that raises it too, once another process has taken the lock over: on a disk that
    shares no locks, neither sees the other's.
    """
    own = f"pid {os.getpid()}\n{secrets.token_hex(8)}".encode()

    def check() -> None:
        now = folder.read(name, LONGEST) if folder.has(name) else b""
        if now not in (b"", own):
            raise busy(_holder(now))

    with folder.open_to_append(name) as file:
        for attempt in range(10):  # who only looks holds it for a moment
            try:
                lock(file, wait=False)
                break
            except BlockingIOError as error:
                if attempt == 9:
                    file.seek(0)
                    raise busy(_holder(file.read(LONGEST))) from error
                time.sleep(0.02)
        file.truncate(0)
        file.write(own)
        yield check


def _holder(text: bytes) -> str:
    """The process that a lock file names."""
    line = text.partition(b"\n")[0].decode(errors="replace").strip()
    return clean(line) or "unknown"


def check_locks() -> None:
    """Raises RunError on a system without such locks."""
    try:
        import fcntl  # noqa: F401  only asked whether it is there
    except ImportError as error:
        raise RunError(UNSUPPORTED) from error


def check_writable(folder: Path) -> None:
    """Raise RunError where nothing can be written in `folder` or the nearest above it."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryDirectory(prefix=".equipoise.", dir=place):
            pass
    except OSError as error:
        raise RunError(f"{place}: cannot be written ({error.strerror})") from error


def check_place(folder: Path) -> None:
    """Raise RunError where `folder.write_folder` could not put a folder in its place.

    Nor may it be a link to a folder with files in it, which can be a stranger's.
    """
    place = folder.resolve()
    if folder.is_symlink() and place.is_dir() and any(place.iterdir()):
        raise RunError(
            f"{folder}: is a link to {place}, which is not empty; to have that folder replaced, "
            "name it itself"
        )
    if place.is_mount() or place == Path.cwd():
        raise RunError(f"{folder}: cannot be replaced as a whole; name a new folder in it")
    check_writable(place.parent)


NETWORK_DISKS = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "wekafs",
    }
)
BOOT = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/self/mounts")


def machine() -> str:
    """An id equal for processes under one kernel, which see each other's file locks."""
    return BOOT.read_text().strip() if BOOT.exists() else platform.node()


def network_disk(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of network disk that a path lies on; "" for a local or unknown one."""
    if not mounts.exists():
        return ""
    place = path.absolute().resolve()
    kinds: dict[Path, str] = {}
    for line in mounts.read_text().splitlines():
        _, where, kind, *_ = line.split()
        # Blanks in a mount's path are written in octal.
        kinds[Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), where))] = kind
    for folder in (place, *place.parents):
        if folder in kinds:
            return kinds[folder] if kinds[folder] in NETWORK_DISKS else ""
    return ""
