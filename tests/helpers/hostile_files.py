"""What a stranger can put under a name in a folder, beside files that it must not reach."""

import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
SECTOR, PAGE = 512, 4096


class Outside:
    """Files of the user's beside a stranger's folder: a file, and a folder with one in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "precious"
        self.folder.mkdir(parents=True)
        self.file = home / "thesis.tex"
        for path in (self.file, self.folder / "inner.txt", self.folder / "1"):
            path.write_text("years of work\n" * 40)
        self._before = self.state()

    def state(self) -> dict[str, tuple[int, bytes]]:
        """Path -> (mode, contents) of all that is there."""
        return {
            str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in sorted(self.home.rglob("*"))
        }

    def changes(self) -> list[str]:
        """What was written, made or deleted since the beginning."""
        now = self.state()
        return [path for path in {*self._before, *now} if self._before.get(path) != now.get(path)]


def journal(names: Path) -> bytes:
    """A rollback journal without pages that names another file, which SQLite would delete."""
    header = struct.pack(">8sIIIII", JOURNAL_MAGIC, 0, 7, 4, SECTOR, PAGE)
    name = os.fsencode(names)
    checksum = sum(byte - 256 if byte > 127 else byte for byte in name) & 0xFFFFFFFF
    lock_page = 2**30 // PAGE + 1
    record = struct.pack(">I", lock_page) + name
    record += struct.pack(">II8s", len(name), checksum, JOURNAL_MAGIC)
    return header.ljust(SECTOR, b"\0") + record


def _link(place: Path, outside: Outside) -> None:
    place.symlink_to(outside.file)


def _folder_link(place: Path, outside: Outside) -> None:
    place.symlink_to(outside.folder)


def _dangling(place: Path, outside: Outside) -> None:
    place.symlink_to(outside.home / "not-there")


def _hard_link(place: Path, outside: Outside) -> None:
    os.link(outside.file, place)


def _fifo(place: Path, outside: Outside) -> None:
    os.mkfifo(place)


def _socket(place: Path, outside: Outside) -> None:
    before = Path.cwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(place.parent)  # a socket's path is short
        try:
            listening.bind(place.name)
        finally:
            os.chdir(before)


def _device(place: Path, outside: Outside) -> None:
    os.mknod(place, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero


KINDS: Mapping[str, Callable[[Path, Outside], None]] = {
    "a link to a file": _link,
    "a link to a folder": _folder_link,
    "a link to nothing": _dangling,
    "a hard link": _hard_link,
    "a FIFO": _fifo,
    "a socket": _socket,
    "a device": _device,
}
"""What can lie under a name instead of a file or folder: makes it there."""


def can_make_devices(place: Path) -> bool:
    """Whether this process may make a device in a folder."""
    probe = place / "probe"
    try:
        _device(probe, None)  # type: ignore[arg-type]
    except OSError:
        return False
    with suppress(FileNotFoundError):
        probe.unlink()
    return True
