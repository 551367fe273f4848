"""A file of records, one JSON line each, to which a line is added as a whole: it is on disk before
`add` returns, and what a killed process left half written is dropped.

It lies beside the ledger, so that people can vote and play while a run goes on: the driver is the
ledger's only writer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Generic, TypeVar

import msgspec

from equipoise.errors import DiskFull, RunError
from equipoise.system.locks import lock

FOLDER = "people"  # below the run's
T = TypeVar("T", bound=msgspec.Struct)


class Journal(Generic[T]):
    """The records of one kind in one file; several processes may add to it."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(kind)

    def add(self, record: T) -> None:
        """Put a record at the end. Raises DiskFull, and RunError where the file cannot be
        written.
        """
        line = msgspec.json.encode(record) + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                lock(file)
                end = _whole(file)
                file.truncate(end)
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError as error:
                    file.truncate(end)
                    raise DiskFull(
                        f"{self.path}: cannot write ({error.strerror}); free some space"
                    ) from error
        except PermissionError as error:
            raise RunError(f"{self.path}: cannot be written ({error})") from error

    def read(self) -> list[T]:
        """Every whole record, in order. Raises RunError for a damaged one."""
        if not self.path.is_file():
            return []
        records = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], 1):
            try:
                records.append(self._decoder.decode(line))
            except msgspec.MsgspecError as error:
                raise RunError(
                    f"{self.path}, line {number}: is damaged ({error}); take the line "
                    "out to go on without it"
                ) from error
        return records


def _whole(file: IO[bytes]) -> int:
    """Where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
