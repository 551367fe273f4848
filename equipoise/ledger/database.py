"""The SQLite file of a run (WAL): one process writes; anyone may read.

    meta        schema number; the directory the run was started in, the command that did
                it, the version of Equipoise
    prompts     what was played, and to which split and generation it belongs
    matches     every match with its turns
    judgements  what each judge made of a match; `judged`: whether it has scores
    pairs       the pairs of answers that a learner was taught
    episodes    a learner's moves with their rewards
    logprobs    answer log-probabilities (nats) and token counts, by (player, text)
    replies     what endpoints replied, by the hash of the question, and requests that
                brought no answer; each is written before it is sent, at its highest charge
    players     lineage
    metrics     the lines of metrics that a stage logged, written with its row
    stages      what is finished; the last line written for a stage
    benchmark_scores  what each answer to a benchmark's items scored, by the stage that
                measured it

`record` and `facts` are JSON: the msgspec form of the types in `equipoise.types`. Ids are hashes of
what made the record, so writing a record again inserts nothing. Rows keep the order of writing
(rowid), and have checksums (`row_checksums`).

A ledger may be a stranger's. It opens with these tables and indexes and nothing else: no view, no
trigger, no extension. Its columns hold what they should, and reading it takes time by its size. It
and SQLite's files beside it are plain files, and none of them names another one (`check_files`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, Self, TypeVar
from urllib.parse import quote
from zlib import crc32

import msgspec

from equipoise.errors import DiskFull, RunError, shorten
from equipoise.system.folder import Folder
from equipoise.system.locks import network_disk

SCHEMA = 5

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER);
CREATE TABLE prompts (
    id TEXT, split TEXT NOT NULL, generation INTEGER NOT NULL, record TEXT NOT NULL,
    checksum INTEGER, UNIQUE (id, split, generation));
CREATE TABLE matches (
    id TEXT UNIQUE, generation INTEGER NOT NULL, split TEXT NOT NULL,
    prompt TEXT NOT NULL, record TEXT NOT NULL, checksum INTEGER);
CREATE INDEX matches_by_part ON matches (split, generation);
CREATE TABLE judgements (
    id TEXT UNIQUE, match TEXT NOT NULL, judge TEXT NOT NULL,
    generation INTEGER NOT NULL, split TEXT NOT NULL, judged INTEGER NOT NULL,
    record TEXT NOT NULL, checksum INTEGER);
CREATE INDEX judgements_by_match ON judgements (match);
CREATE INDEX judgements_by_part ON judgements (split, generation, judged);
CREATE INDEX judgements_missing ON judgements (judged) WHERE judged = 0;
CREATE TABLE pairs (
    id TEXT, generation INTEGER NOT NULL, learner TEXT NOT NULL, record TEXT NOT NULL,
    checksum INTEGER, UNIQUE (generation, learner, id));
CREATE TABLE episodes (
    id TEXT, generation INTEGER NOT NULL, learner TEXT NOT NULL, record TEXT NOT NULL,
    checksum INTEGER, UNIQUE (learner, id));
CREATE TABLE logprobs (
    player TEXT, encoding TEXT, text TEXT, total REAL NOT NULL, tokens INTEGER NOT NULL,
    checksum INTEGER, UNIQUE (player, encoding, text));
CREATE TABLE replies (
    key TEXT PRIMARY KEY, account TEXT NOT NULL, tokens INTEGER NOT NULL,
    cost REAL NOT NULL, record TEXT NOT NULL, checksum INTEGER);
CREATE TABLE players (
    name TEXT, generation INTEGER, parent TEXT, learner TEXT NOT NULL,
    facts TEXT NOT NULL, checksum INTEGER, PRIMARY KEY (name, generation));
CREATE TABLE metrics (
    stage TEXT, line INTEGER, record TEXT NOT NULL, checksum INTEGER,
    UNIQUE (stage, line));
CREATE TABLE stages (
    key TEXT PRIMARY KEY, generation INTEGER NOT NULL, stage TEXT NOT NULL,
    facts TEXT NOT NULL, seconds REAL NOT NULL, checksum INTEGER);
CREATE TABLE benchmark_scores (
    stage TEXT, item TEXT, sample INTEGER, record TEXT NOT NULL,
    checksum INTEGER, UNIQUE (stage, item, sample));
"""

TEXTS = frozenset(
    "key value id split record prompt match judge learner player encoding text account name "  # noqa: SIM905
    "parent stage facts item".split()
)  # columns
BOUNDS = {
    "generation": 10**7,
    "judged": 1,
    "tokens": 10**12,
    "cost": 10**12,
    "line": 10**9,
    "sample": 10**9,
    "seconds": 10**10,
}  # columns of numbers, from 0 to this
LONGEST = 2**27  # bytes of one value
AHEAD = 64  # rows that are read at once
TICK = 1_000_000  # SQLite's steps between two looks at how many they are
STEPS = 4  # that a query may take for each byte of the file; looking at all pages takes 0.3

AT_ONCE = 500  # values that fit one statement
FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
UNWRITABLE = FULL | {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
BESIDE = ("", "-wal", "-shm", "-journal")  # the endings of SQLite's files
JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # where a journal ends with a file's name
FOLDER = "folder"  # the note of the run's folder, where the ledger lies elsewhere

T = TypeVar("T")


class Database:
    """The tables of one run; opened by `create` or `open`, and a context manager."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._columns: dict[str, list[str]] = {}  # by table
        self.path = path

    @classmethod
    def create(cls, path: Path, *, mode: int = 0o600, **meta: str) -> Self:
        """New, empty tables at `path`, with `meta` about the run; `mode`: who may read the file.

        Raises RunError where a file is there.
        """
        with Folder.open(path.parent) as folder:
            folder.create(path.name, mode)
        check_files(path)
        database = cls(_connect(path), path)
        with database.transaction() as db:
            for statement in TABLES.split(";"):
                db.execute(statement)
            database._insert("meta", {"schema": str(SCHEMA), **meta}.items())
        return database

    @classmethod
    def open(cls, path: Path, *, reading: bool = False) -> Self:
        """The tables at `path`; `reading`: read only, on any disk.

        Raises RunError when the file is absent, is no ledger, or has another schema.
        """
        place = place_of(path)
        check_files(place)
        if reading:
            return cls(connect_to_read(place), path)
        with closing(connect_to_read(place)):  # nothing is written into what is no ledger
            pass
        return cls(_connect(place), path)

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Read all as of one moment; not on a network disk, where that would hold writers up."""
        if not network_disk(self.path):
            self._db.execute("BEGIN")
        yield

    def close(self) -> None:
        """Close the file; what was added is on disk already."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def meta(self, key: str, absent: str = "") -> str:
        """The note of the run under `key`, or `absent` where there is none."""
        query = "SELECT value FROM meta WHERE key = ?"
        with damaged_records(self.path.parent):
            row = self._db.execute(query, (key,)).fetchone()
        return row[0] if row else absent

    # -- writing

    def note(self, key: str, value: str) -> None:
        """Keep a note of the run under `key`, in place of an older one."""
        self._insert("meta", [(key, value)], replacing="key")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; the outermost of nested ones commits. Raises DiskFull."""
        if self._db.in_transaction:
            yield self._db
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) and _code(error) in FULL:
                raise DiskFull(
                    f"{self.path}: cannot write ({error}); free some space, then "
                    f"`equipoise resume {self.path.parent}`"
                ) from error
            raise

    @contextmanager
    def _unsynced(self) -> Iterator[None]:
        """Write without waiting for the disk, but inside a transaction: a power cut may lose it."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def _insert(
        self, table: str, rows: Iterable[tuple[Any, ...]], replacing: str | None = None
    ) -> None:
        """Add rows with checksums; those there stay, or take new values by the key `replacing`."""
        columns = self._columns_of(table)
        marks = ",".join("?" * len(columns))
        how = "INSERT OR IGNORE" if replacing is None else "INSERT"
        query = f"{how} INTO {table} VALUES ({marks})"
        if replacing is not None:
            values = ", ".join(f"{name} = excluded.{name}" for name in columns)
            query += f" ON CONFLICT ({replacing}) DO UPDATE SET {values}"
        with self.transaction() as db:
            db.executemany(query, ((*row, checksum(row)) for row in rows))

    def _change(self, table: str, column: str, value: str, row: tuple[Any, ...]) -> None:
        """Put `row` in the place of the one whose `column` has this value, unless another is it."""
        values = ", ".join(f"{name} = ?" for name in self._columns_of(table))
        query = f"UPDATE OR IGNORE {table} SET {values} WHERE {column} = ?"
        with self.transaction() as db:
            db.execute(query, (*row, checksum(row), value))

    def _columns_of(self, table: str) -> list[str]:
        if table not in self._columns:
            query = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
            self._columns[table] = [name for (name,) in self._db.execute(query, (table,))]
        return self._columns[table]

    # -- reading

    def check_rows(self) -> None:
        """Raises RunError for a row that is not as it was written."""
        for table in self._tables():
            if rows := damaged_rows(self._db, table):
                raise RunError(
                    f"{self.path}: is damaged ({len(rows):,} rows of {table}, the first "
                    f"row {rows[0]}); `equipoise check {self.path.parent}` says what is "
                    "whole and what can be saved"
                )

    def _tables(self) -> list[str]:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        return [name for (name,) in self._db.execute(query)]

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a reading query."""
        # A cursor itself would be closed with this generator, after its database.
        yield from map(tuple, self._db.execute(query, values))

    def records(self, kind: type[T], query: str, values: Sequence[Any] = ()) -> Iterator[T]:
        """The records of the one column that a query reads."""
        decode = msgspec.json.Decoder(kind).decode
        for (record,) in self._db.execute(query, values):
            yield decode(record)

    def _rows_among(
        self, query: str, ids: Iterable[str], values: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a query, in which `{ids}` stands for a part of the ids, after `values`."""
        known = list(ids)
        for start in range(0, len(known), AT_ONCE):
            part = known[start : start + AT_ONCE]
            marks = ",".join("?" * len(part))
            cursor = self._db.execute(query.format(ids=marks), (*values, *part))
            yield from map(tuple, cursor)


def to_json(record: Any) -> str:
    """A record or facts as they are written."""
    return msgspec.json.encode(record).decode()


def journal_mode(path: Path) -> str:
    """The journal mode: WAL, which needs shared memory, or on a network disk a rollback journal."""
    return "DELETE" if network_disk(path) else "WAL"


def _connect(path: Path) -> sqlite3.Connection:
    try:
        db = _Connection(path, isolation_level=None, timeout=30)
        db.guard(path)
        db.execute(f"PRAGMA journal_mode = {journal_mode(path)}")
        # What is recorded survives a power cut, too: each transaction is synced.
        db.execute("PRAGMA synchronous = FULL")
    except sqlite3.DatabaseError as error:
        if _code(error) in FULL:
            raise DiskFull(f"{path}: cannot write ({error}); free some space") from error
        raise RunError(f"{path}: cannot open the ledger ({error})") from error
    return db


@contextmanager
def damaged_records(folder: Path) -> Iterator[None]:
    """Turn what SQLite and msgspec raise for a damaged ledger into a RunError."""
    try:
        yield
    except (sqlite3.DatabaseError, msgspec.DecodeError, RecursionError) as error:
        if _code(error) == sqlite3.SQLITE_BUSY:
            raise RunError(
                f"{folder / 'ledger.sqlite'}: another process reads or writes it; nothing is lost, "
                f"`equipoise resume {folder}` goes on"
            ) from error
        raise RunError(
            f"{folder / 'ledger.sqlite'}: is damaged ({error}); `equipoise check "
            f"{folder}` says what is whole and what can be saved"
        ) from error


def place_of(path: Path) -> Path:
    """The place of a ledger: `path`, or where its link leads to a ledger that was made for the run.

    The ledger says itself which run that is: anybody can make a link to a file of the user's.
    Raises RunError for another link, and where nothing is.
    """
    if not path.is_symlink():
        if not path.exists():
            raise RunError(f"{path}: no ledger here; is {path.parent} a run directory?")
        return path
    there = path.absolute().parent / path.readlink()
    if not os.path.lexists(there):
        raise RunError(
            f"{path}: the ledger is kept at {there}, which is not here; "
            "it lies on a disk of the machine that played the run"
        )
    home = noted(there, FOLDER)
    here = str(path.parent.resolve())
    has_moved = bool(home) and not (Path(home) / path.name).is_symlink()
    if home != here and not has_moved:
        raise RunError(
            f"{path}: is a link to {there}, which is not this run's ledger; it was not opened. "
            "Take the link out"
        )
    return there


def check_files(path: Path) -> None:
    """Raises RunError unless the ledger and SQLite's files beside it are plain files, of which none
    names another: a journal of several databases does, and SQLite deletes what it names.
    """
    try:
        with Folder.open(path.parent) as folder:
            for ending in BESIDE:
                folder.size(f"{path.name}{ending}")
            journal = f"{path.name}-journal"
            if folder.read_end(journal, len(JOURNAL_END)) == JOURNAL_END:
                raise RunError(
                    f"{path.parent / journal}: names another file, which SQLite would delete; "
                    "Equipoise writes no such journal, so the ledger was not opened. Take it out"
                )
    except OSError as error:
        raise RunError(f"{path}: cannot open the ledger ({error.strerror})") from error


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection to a ledger that writes nothing to the tables, wherever they lie.

    Raises RunError for a file that is none, or holds other tables than `TABLES`.
    """
    check_files(path)
    try:
        db = _connect_to_read(path)
    except (sqlite3.DatabaseError, OSError) as error:
        is_other = _code(error) == sqlite3.SQLITE_NOTADB
        what = "not an Equipoise ledger" if is_other else "cannot open the ledger"
        raise RunError(f"{path}: {what} ({error})") from error
    try:
        _check_schema(db, path)
        return db
    except BaseException:
        db.close()
        raise


def noted(path: Path, key: str) -> str:
    """A note in the ledger at `path`, "" where there is none; no file beside it is touched."""
    try:
        check_files(path)
        if not path.exists():
            return ""
        with closing(_read_at(path, "immutable=1")) as db:
            _check_schema(db, path)
            return Database(db, path).meta(key)
    except (RunError, sqlite3.DatabaseError):
        return ""


def _check_schema(db: sqlite3.Connection, path: Path) -> None:
    """Raises RunError unless the file holds what `TABLES` makes, and is of this version."""
    try:
        query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
        rows = db.execute(query).fetchmany(len(_schema()) + 10)
        found = {name: (kind, name, table, _spaced(sql)) for kind, name, table, sql in rows}
        schema = None
        if "meta" in found and found["meta"] == _schema()["meta"]:
            (schema,) = db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() or (0,)
    except (sqlite3.DatabaseError, RecursionError) as error:
        raise RunError(f"{path}: not an Equipoise ledger ({error})") from error
    if schema is None:
        raise RunError(f"{path}: not an Equipoise ledger (it has no such table: meta)")
    if schema != str(SCHEMA):
        raise RunError(
            f"{path}: written by another version of Equipoise (ledger schema {schema}, this "
            f"one reads {SCHEMA}); use that version, or start a new run"
        )
    other = [row for name, row in found.items() if _schema().get(name) != row]
    other += [row for name, row in _schema().items() if name not in found]
    if other:
        names = ", ".join(f"{kind} {name}" for kind, name, *_ in other[:3])
        raise RunError(
            f"{path}: is damaged, or not written by Equipoise alone (other than it makes: "
            f"{shorten(names)}); it is not opened"
        )


@cache
def _schema() -> dict[str, tuple[str, ...]]:
    """name -> (type, name, table, SQL) of all that a ledger holds."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
        return {row[1]: (*row[:3], _spaced(row[3])) for row in db.execute(query)}


def _spaced(sql: str | None) -> str:
    return " ".join(str(sql).split())


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing, and rolls nothing back.

    Beside a process that writes, SQLite needs its small files next to the tables. Where they cannot
    be made (a disk for reading alone, or a full one), nobody writes: the tables are read as they
    are. What a killed process left in a journal is taken up in a private copy.
    """
    with Folder.open(path.parent) as folder:
        in_all = folder.size(path.name)
        in_journal = folder.size(f"{path.name}-journal")
        in_wal = folder.size(f"{path.name}-wal")
    if not in_all:
        raise RunError(f"{path}: not an Equipoise ledger (file is not a database)")
    # A connection for reading alone refuses a journal that is to be rolled back.
    db = _read_at(path, "mode=ro" if in_journal else "mode=rw")
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        return db
    except sqlite3.OperationalError as error:
        db.close()
        if _code(error) not in UNWRITABLE:
            raise
    if not in_journal and not in_wal:
        return _read_at(path, "immutable=1")
    return _read_a_copy(path)


def _read_a_copy(path: Path) -> sqlite3.Connection:
    """A connection to a copy of the tables with what the journals hold."""
    with tempfile.TemporaryDirectory(prefix="equipoise.") as copies:
        with Folder.open(path.parent) as folder:
            names = [f"{path.name}{ending}" for ending in BESIDE if ending != "-shm"]
            sizes = [folder.size(name) for name in names]
            if sum(sizes) > shutil.disk_usage(copies).free:
                raise RunError(
                    f"{path}: a process was killed while it wrote, and there is no room for the "
                    f"copy of {sum(sizes):,} bytes in which to read it; TMPDIR names a larger disk"
                )
            for name in names:
                if folder.has(name):
                    with folder.open_to_read(name) as file, Path(copies, name).open("xb") as copy:
                        shutil.copyfileobj(file, copy, 2**20)
        copy = Path(copies, path.name)
        check_files(copy)
        db = _read_at(copy, "mode=rw")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        db.execute("PRAGMA query_only = ON")
        return db  # its files are open, and go with it


def _read_at(path: Path, how: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{how}"
    db = _Connection(address, uri=True, isolation_level=None, timeout=30)
    db.guard(path)
    return db


class _Connection(sqlite3.Connection):
    """A connection that a file's contents cannot make execute, or read without end."""

    path: Path

    def guard(self, path: Path) -> None:
        """Set the limits; before the first query."""
        self.path = path.resolve()
        self.execute("PRAGMA trusted_schema = OFF")
        self.execute("PRAGMA cell_size_check = ON")
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)

    def execute(self, query: str, values: Any = ()) -> _Cursor:
        """Run a query with a cursor that looks at what it reads."""
        return self.cursor(_Cursor).execute(query, values)

    def executemany(self, query: str, rows: Any) -> sqlite3.Cursor:
        """Write rows: what is ours, however much, is under no limit."""
        self.set_progress_handler(None, 0)
        return super().executemany(query, rows)

    def begin(self) -> None:
        """A query begins: it may take as many steps as a file of this size calls for."""
        looks = repeat(False, 20 + STEPS * self.size() // TICK)
        # No Python, in which Ctrl-C would be raised, for SQLite to swallow.
        self.set_progress_handler(chain(looks, repeat(True)).__next__, TICK)

    def size(self) -> int:
        """The bytes of the file and of its journal."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


class _Cursor(sqlite3.Cursor):
    """Gives rows whose columns hold what `TEXTS` and `BOUNDS` say."""

    _names: Sequence[str] = ()
    _rows = 0
    _most = 0

    def execute(self, query: str, values: Any = ()) -> Self:
        """Run a query."""
        assert isinstance(self.connection, _Connection)
        self.connection.begin()
        try:
            super().execute(query, values)
        except sqlite3.OperationalError as error:
            _raise_interrupted(error)
        self._names = [name for name, *_ in self.description or ()]
        return self

    def __iter__(self) -> Any:
        while rows := self._next(AHEAD):
            yield from rows

    def fetchone(self) -> Any:
        """The next row, None after the last."""
        rows = self._next(1)
        return rows[0] if rows else None

    def _next(self, count: int) -> list[Any]:
        """The next rows. Raises DatabaseError for what is out of place."""
        assert isinstance(self.connection, _Connection)
        try:
            rows = self.fetchmany(count)
        except sqlite3.OperationalError as error:
            _raise_interrupted(error)
        self._rows += len(rows)
        if self._rows > self._most:
            self._most = 1_000 + self.connection.size() // 4
            if self._rows > self._most:
                raise sqlite3.DatabaseError("a table has more rows than the file can hold")
        if self.connection.text_factory is not bytes:
            for name, values in zip(self._names, zip(*rows, strict=True), strict=False):
                _check_column(name, values)
        return rows


def _raise_interrupted(error: sqlite3.OperationalError) -> NoReturn:
    if _code(error) == sqlite3.SQLITE_INTERRUPT:
        raise sqlite3.DatabaseError("reading it does not end") from error
    raise error


def _check_column(name: str, values: Iterable[Any]) -> None:
    """Raises DatabaseError for a value that has no place in a column of this name."""
    if name in TEXTS:
        kinds: tuple[type, ...] = (str, NoneType) if name == "parent" else (str,)
    elif name in ("cost", "seconds", "total"):
        kinds = (int, float)
    elif name in BOUNDS:
        kinds = (int,)
    else:
        return
    most: Any = BOUNDS.get(name)
    for value in values:
        bounded = most is None or (isinstance(value, int | float) and 0 <= value <= most)
        if not (bounded and isinstance(value, kinds)):
            raise sqlite3.DatabaseError(f"{shorten(repr(value), 40)} is no {name}")


def _code(error: BaseException) -> int:
    """SQLite's code of an error, 0 for another's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def checksum(values: Iterable[str | bytes | float | None]) -> int:
    """CRC-32 of a row, the same for 1 and 1.0, text and bytes: SQLite may give back either."""
    parts = [v.encode() if isinstance(v, str) else _as_bytes(v) for v in values]
    return crc32(b"\x1f".join(parts))


def _as_bytes(value: bytes | float | None) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else repr(float(value)).encode()


def damaged_rows(db: sqlite3.Connection, table: str) -> list[int]:
    """The numbers (rowid) of a table's rows whose checksum is another."""
    query = f"SELECT rowid, * FROM {table} ORDER BY rowid"
    before = -(2**63) - 1
    other = []
    with _text_as_bytes(db):
        for rowid, *values, kept in db.execute(query):
            if rowid <= before:
                raise sqlite3.DatabaseError(f"the rows of {table} are not in order")
            before = rowid
            if checksum(values) != kept:
                other.append(rowid)
    return other


@contextmanager
def _text_as_bytes(db: sqlite3.Connection) -> Iterator[None]:
    """Give text as it is on the disk, also where that is no UTF-8."""
    before, db.text_factory = db.text_factory, bytes
    try:
        yield
    finally:
        db.text_factory = before
