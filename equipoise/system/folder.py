"""A directory held open, through which everything in it is read and written.

    with Folder.open(Path("runs/first")) as run:
        run.check()                                 # nothing in it leads out of it
        run.write("config.yaml", text)              # whole or not at all, also after a power cut
        with run.inner("people", make=True) as people, people.open_to_append("votes.jsonl") as file:
            ...

A folder may be a stranger's. A link in it leads to another file, a hard link is another file, a
FIFO never ends, a device does something when it is opened. So nothing of these is opened: every
name is looked up in the directory that is held (`dir_fd`), is never followed, and must be a plain
file with one name, or a folder. A link is removed, never what it leads to.

What is written goes into a draft beside its place, of a name that nobody can foretell and that was
not there. The draft's contents are forced to the disk (fsync) before it is renamed, and so is the
folder's list of names afterwards. Drafts that a killed process left go with the next one.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from equipoise.errors import RunError
from equipoise.system.files import disk_errors, sync, sync_tree, write_checksums

LARGEST = 2**28  # bytes of a file that is read at once
DEEPEST = 40  # folders in one another
DRAFT = r"\.draft\.(?P<process>\d+)\.[0-9a-f]{16}"
"""The ending of a draft's name: the process that writes it, and what nobody can foretell."""
REFUSED = {errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.ENOTDIR, errno.EISDIR}


def kind_of(facts: os.stat_result) -> str:
    """Say what is no plain file or folder, "" for what is one."""
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = stat.S_IFMT(facts.st_mode)
    if kind == stat.S_IFREG and facts.st_nlink > 1:
        return f"a file with {facts.st_nlink} names (hard links)"
    if kind in (stat.S_IFREG, stat.S_IFDIR):
        return ""
    return kinds.get(kind, "no file")


class Folder:
    """A handle on a directory; a context manager. `path` is for messages and for libraries."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def open(cls, path: Path, *, make: bool = False) -> Folder:
        """The folder that the user named, by whatever links; `make`: and those above it.

        Raises FileNotFoundError and NotADirectoryError.
        """
        if make:
            make_folder(path)
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def inner(self, *names: str, make: bool = False) -> Folder:
        """A folder in this one, which no link leads to; `make`: made where it is missing."""
        folder = Folder(self.path, os.dup(self._handle))
        for name in names:
            try:
                below = folder._inner(name, make)
            finally:
                folder.close()
            folder = below
        return folder

    def _inner(self, name: str, make: bool) -> Folder:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        if make and not self.has(name):
            with disk_errors(self.path):
                os.mkdir(name, dir_fd=self._handle)
                os.fsync(self._handle)
        try:
            return Folder(self.path / name, os.open(name, flags, dir_fd=self._handle))
        except OSError as error:
            if error.errno in REFUSED:
                raise self._refusal(name, self._kind(name) or "no folder") from error
            raise

    def close(self) -> None:
        """Let go of the directory."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what is there

    def names(self) -> list[str]:
        """Everything in the folder, in order."""
        return sorted(os.listdir(self._handle))

    def has(self, name: str) -> bool:
        """True if something of this name is there, a link included."""
        return self._facts(name) is not None

    def is_folder(self, name: str) -> bool:
        """True if it is a folder, and no link to one."""
        facts = self._facts(name)
        return facts is not None and stat.S_ISDIR(facts.st_mode)

    def size(self, name: str) -> int:
        """The bytes of a plain file, 0 where there is none. Raises RunError for anything else."""
        facts = self._facts(name)
        if facts is None:
            return 0
        kind = kind_of(facts) or ("a folder" if stat.S_ISDIR(facts.st_mode) else "")
        if kind:
            raise self._refusal(name, kind)
        return facts.st_size

    def check(self, *, but: Collection[str] = (), of: str = "a run") -> None:
        """Raises RunError, which names it, where anything below is no plain file or folder.

        `but`: names in the folder itself that are looked at elsewhere; `of`: what it is the folder
        of, for the message.
        """
        foreign = [(name, kind) for name, kind in self._foreign(DEEPEST) if name not in but]
        if not foreign:
            return
        (name, kind), *others = foreign
        more = f" (and {len(others):,} more)" if others else ""
        raise RunError(
            f"{self.path / name}: is {kind}{more}; {of} holds plain files and folders alone, so "
            "nothing in it was opened. Take it out, or put what it stands for in its place"
        )

    def _foreign(self, deepest: int) -> Iterator[tuple[str, str]]:
        """(path below this folder, what it is) of all that is no plain file or folder."""
        with os.scandir(self._handle) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            facts = entry.stat(follow_symlinks=False)
            if kind := kind_of(facts):
                yield entry.name, kind
            if not stat.S_ISDIR(facts.st_mode):
                continue
            if not deepest:
                yield entry.name, f"below {DEEPEST} other folders"
                continue
            try:
                with self._inner(entry.name, make=False) as below:
                    for name, kind in below._foreign(deepest - 1):
                        yield f"{entry.name}/{name}", kind
            except PermissionError:
                yield entry.name, "a folder that cannot be looked through"

    def _facts(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _kind(self, name: str) -> str:
        facts = self._facts(name)
        return "" if facts is None else kind_of(facts)

    def _refusal(self, name: str, kind: str) -> RunError:
        return RunError(
            f"{self.path / name}: is {kind}; a plain file or folder is wanted here, so it was "
            "not opened. Take it out"
        )

    # -- files

    def _file(self, name: str, how: str, rights: int = 0o666, buffering: int = -1) -> IO[Any]:
        """A plain file, opened as `open(name, how)` does. Raises RunError for anything else."""

        def opener(_: str, flags: int) -> int:
            return self._open(name, flags, rights)

        return open(self.path / name, how, buffering, opener=opener)

    def _open(self, name: str, flags: int, rights: int) -> int:
        if kind := self._kind(name):
            raise self._refusal(name, kind)  # a device would notice that it is opened
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(name, flags, rights, dir_fd=self._handle)
        except OSError as error:
            if error.errno in REFUSED:
                raise self._refusal(name, self._kind(name) or "a folder") from error
            raise
        facts = os.fstat(handle)
        kind = kind_of(facts) or ("a folder" if stat.S_ISDIR(facts.st_mode) else "")
        if kind:
            os.close(handle)
            raise self._refusal(name, kind)
        return handle

    def open_to_read(self, name: str) -> IO[bytes]:
        """A file to read. Raises FileNotFoundError, and RunError for what is no plain file."""
        return self._file(name, "rb")

    def open_to_append(self, name: str) -> IO[bytes]:
        """A file to read and to write at its end, unbuffered, made where it is missing."""
        return self._file(name, "a+b", buffering=0)

    def create(self, name: str, rights: int) -> None:
        """Make an empty file. Raises RunError where something of the name is there."""
        try:
            self._file(name, "xb", rights).close()
        except FileExistsError as error:
            raise RunError(f"{self.path / name}: is there already; name another file") from error

    def holds(self, name: str, content: bytes) -> bool:
        """True if a plain file of this name has just this content."""
        is_as_large = self.has(name) and self.size(name) == len(content)
        return is_as_large and self.read(name, len(content)) == content

    def read_end(self, name: str, most: int) -> bytes:
        """The last bytes of a file, none where it is missing."""
        if not self.has(name):
            return b""
        with self.open_to_read(name) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            return file.read(most)

    def read(self, name: str, most: int = LARGEST) -> bytes:
        """The contents of a file. Raises FileNotFoundError, and RunError beyond `most` bytes."""
        with self.open_to_read(name) as file:
            is_larger = os.fstat(file.fileno()).st_size > most
            content = b"" if is_larger else file.read(most + 1)
        if is_larger or len(content) > most:
            raise RunError(
                f"{self.path / name}: is damaged (it has more than the {most:,} bytes that such "
                "a file may have)"
            )
        return content

    @contextmanager
    def new_file(self, name: str) -> Iterator[IO[bytes]]:
        """A new file, which takes its place when it is whole and on the disk."""
        self._sweep(name)
        draft = draft_name(name)
        try:
            with self._file(draft, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            self.rename(draft, name)
        except BaseException as error:
            if isinstance(error, OSError) and error.filename in (None, draft):
                error.filename = str(self.path / name)  # the place that its reader knows
            self.remove(draft)
            raise

    def write(self, name: str, content: str | bytes) -> None:
        """Put a file in place of another one, whole or not at all."""
        if isinstance(content, str):
            content = content.encode()
        with self.new_file(name) as file:
            file.write(content)

    # -- folders

    @contextmanager
    def draft_of(self, name: str, mode: int = 0o777) -> Iterator[Path]:
        """A new folder beside the place `name`, removed at the end unless it was renamed."""
        draft = self.begin_draft(name, mode)
        try:
            yield self.path / draft
        finally:
            self.remove(draft)

    def begin_draft(self, name: str, mode: int = 0o777) -> str:
        """The name of a new folder, which stays until it is renamed or swept by a later one."""
        self._sweep(name, own=True)
        draft = draft_name(name)
        os.mkdir(draft, mode, dir_fd=self._handle)
        return draft

    def write_folder(self, name: str, write: Callable[[Path], None], *, begun: bool = True) -> None:
        """Make a folder whole or not at all, in place of an older one. Raises DiskFull.

        `write` is given a new, empty folder; if not `begun`, the place of one that it makes itself,
        so that nothing stands there through the hours before.
        """
        with disk_errors(self.path / name, "free some, then try again"):
            if begun:
                draft = self.begin_draft(name)
            else:
                self._sweep(name, own=True)
                draft = draft_name(name)
            try:
                write(self.path / draft)
                self.publish(draft, name)
            finally:
                self.remove(draft)

    def publish(self, draft: str, name: str) -> None:
        """Rename a folder that is written to its place, with the checksums of its files."""
        write_checksums(self.path / draft)
        sync_tree(self.path / draft)
        self.remove(name)
        self.rename(draft, name)

    def rename(self, name: str, new: str) -> None:
        """Rename what is written and synced, and have the new name on disk, too."""
        os.replace(name, new, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        os.fsync(self._handle)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; of a link, the link alone."""
        facts = self._facts(name)
        if facts is None:
            return
        if stat.S_ISDIR(facts.st_mode):
            shutil.rmtree(name, dir_fd=self._handle)
        else:
            os.unlink(name, dir_fd=self._handle)

    def set_aside(self, name: str) -> Path:
        """Rename a damaged folder `3` to `damaged-3`, or the next name that is free."""
        names = [f"damaged-{name}", *(f"damaged-{name}-{n}" for n in range(2, 100))]
        aside = next(each for each in names if not self.has(each))
        self.rename(name, aside)
        return self.path / aside

    def _sweep(self, name: str, own: bool = False) -> None:
        """Remove drafts of `name` that killed processes left; `own`: this process's, too."""
        pattern = re.compile(re.escape(f".{name}") + DRAFT)
        for each in self.names():
            draft = pattern.fullmatch(each)
            if draft and _has_ended(int(draft["process"]), own):
                self.remove(each)


def _has_ended(process: int, own: bool) -> bool:
    if process == os.getpid():
        return own
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OverflowError, OSError):  # no process's number, or another user's process
        return False
    return False


def draft_name(name: str) -> str:
    """A new name for what is to be called `name` once it is whole."""
    return f".{name}.draft.{os.getpid()}.{secrets.token_hex(8)}"


# -- where the user names a path


def empty_folder(path: Path) -> None:
    """Make a new folder at `path`, in place of whatever is there; of a link, the link goes."""
    with Folder.open(path.parent, make=True) as parent:
        parent.remove(path.name)
        with parent.inner(path.name, make=True):
            pass


def write_text(path: Path, text: str) -> None:
    """Put a file in place of another one, whole or not at all."""
    with Folder.open(path.parent) as folder:
        folder.write(path.name, text)


@contextmanager
def new_files(path: Path) -> Iterator[Path]:
    """A folder to write files into, which are put into `path` when all are whole.

    Raises DiskFull, and leaves none of them.
    """
    with (
        disk_errors(path, "nothing of it was written; free some, then try again"),
        Folder.open(path) as folder,
        folder.draft_of("files") as draft,
    ):
        yield draft
        sync_tree(draft)
        for file in sorted(draft.iterdir()):
            folder.rename(f"{draft.name}/{file.name}", file.name)


def write_folder(path: Path, write: Callable[[Path], None], *, begun: bool = True) -> None:
    """Make the folder `path` whole or not at all, in place of an older one. Raises DiskFull.

    If not `begun`, `write` makes the new folder itself, when it has what to write.
    """
    path = path.resolve()  # beside what a link leads to
    with Folder.open(path.parent, make=True) as parent:
        parent.write_folder(path.name, write, begun=begun)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, and have their names on disk."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)
