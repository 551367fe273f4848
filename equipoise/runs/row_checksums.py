"""A checksum in each row of the ledger, so that a bit that flips on the disk is noticed where it
leaves a row that can still be read.

The last column of a table, `checksum`, is the CRC-32 of the row's other values. It is against
accidents: who edits a row can write its checksum, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from zlib import crc32


def checksum(values: Iterable[str | bytes | float | None]) -> int:
    """CRC-32 of a row's values, the same for what is given to SQLite and what it gives back: a
    column of real numbers makes 1.0 of 1, and text may be read as bytes.
    """
    parts = [v.encode() if isinstance(v, str) else _as_bytes(v) for v in values]
    return crc32(b"\x1f".join(parts))


def _as_bytes(value: bytes | float | None) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else repr(float(value)).encode()


def damaged_rows(db: sqlite3.Connection, table: str) -> list[int]:
    """The numbers (rowid) of a table's rows whose checksum is another."""
    query = f"SELECT rowid, * FROM {table} ORDER BY rowid"
    with _text_as_bytes(db):
        rows = db.execute(query)
        return [rowid for rowid, *values, kept in rows if checksum(values) != kept]


@contextmanager
def _text_as_bytes(db: sqlite3.Connection) -> Iterator[None]:
    """Meanwhile text is given as it is on the disk, also where that is no UTF-8."""
    before, db.text_factory = db.text_factory, bytes
    try:
        yield
    finally:
        db.text_factory = before
