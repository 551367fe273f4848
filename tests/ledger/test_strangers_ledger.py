"""A ledger that somebody made to do harm: it is refused, or read as what it holds; no code of it
runs, nothing hangs, and a fault is one message.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest
from small_runs import FINITE

from equipoise.errors import RunError
from equipoise.ledger.database import checksum, connect_to_read
from equipoise.ledger.ledger import Ledger
from equipoise.runs.directory import RunDirectory

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
FOREIGN = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON stages BEGIN DELETE FROM matches; END",
    "view": "CREATE VIEW v AS SELECT 1",
    "table": "CREATE TABLE extra (a)",
    "index": "CREATE INDEX extra ON matches (abs(generation))",
    "virtual table": "CREATE VIRTUAL TABLE extra USING fts5(a)",
    "generated column": "ALTER TABLE pairs ADD COLUMN more AS (zeroblob(1000000000))",
    "no table": "DROP TABLE pairs",
    "endless view": f"DROP TABLE matches; CREATE VIEW matches AS {ENDLESS} i AS id, 0 AS generation, "
    "'train' AS split, '' AS prompt, '{}' AS record, 0 AS checksum FROM n",
    "endless notes": f"DROP TABLE meta; CREATE VIEW meta AS {ENDLESS} 'schema' AS key, "
    "'5' AS value, 0 AS checksum FROM n WHERE i < 0",
}


@pytest.fixture(scope="module")
def finite_run(tmp_path_factory):
    from fixtures.finished_runs import play

    folder = tmp_path_factory.mktemp("finite") / "run"
    return play(folder, FINITE[0], [*FINITE[1:], "generations=1"])


@pytest.fixture
def stranger(finite_run, tmp_path, monkeypatch):
    """A copy of that run, for a user who did not begin it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return shutil.copytree(finite_run, tmp_path / "run")


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
def test_tables_other_than_ours_are_not_opened(command, stranger, statements):
    with closing(sqlite3.connect(stranger / "ledger.sqlite")) as db:
        db.executescript(statements)
    before = (stranger / "ledger.sqlite").read_bytes()
    done = command("check", "run")
    assert done.code == 2 and "whole      ledger" not in done.out, done.out
    for verb in ("status", "report", "resume", "rate"):
        done = command(verb, "run")
        assert done.code == 2 and len(done.err.splitlines()) == 1, done.err
        assert "not written by Equipoise" in done.err or "not an Equipoise" in done.err
    assert (stranger / "ledger.sqlite").read_bytes() == before


def test_a_database_of_another_program_is_left_as_it_is(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (a)")
    before = path.read_bytes()
    with pytest.raises(RunError, match="not an Equipoise ledger"):
        Ledger.open(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def circle(path):
    """Have a table's inner page name one leaf again and again, page upon page."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        row = db.execute("SELECT record FROM matches LIMIT 1").fetchone()
        for number in range(3_000):
            record = (f"m{number}", 0, "train", "p", row[0])
            db.execute("INSERT INTO matches VALUES (?, ?, ?, ?, ?, ?)", (*record, checksum(record)))
        db.commit()
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'matches'").fetchone()
    with open(path, "r+b") as file:
        file.seek((root - 1) * 4096)
        page = bytearray(file.read(4096))
        assert page[0] == 5  # an inner page of a table
        cells = int.from_bytes(page[3:5], "big")
        places = [int.from_bytes(page[12 + 2 * n : 14 + 2 * n], "big") for n in range(cells)]
        for place in places:
            page[place : place + 4] = root.to_bytes(4, "big")
        file.seek((root - 1) * 4096)
        file.write(page)


def test_a_table_that_goes_round_in_a_circle(command, stranger):
    circle(stranger / "ledger.sqlite")
    done = command("check", "run")
    assert done.code == 2
    assert "damaged    ledger.sqlite" in done.out
    for verb in ("resume", "report"):
        done = command(verb, "run")
        assert done.code == 2 and "is damaged" in done.err, done.err


def test_more_rows_than_the_file_can_hold(stranger):
    """By a query that gives many rows of few, as a table with repeated pages would."""
    with closing(connect_to_read(stranger / "ledger.sqlite")) as db:
        several = "matches a, matches b, matches c, matches d, matches e, matches f"
        with pytest.raises(sqlite3.DatabaseError, match="more rows"):
            for _ in db.execute(f"SELECT a.id FROM {several}"):
                pass


@pytest.mark.long
def test_a_query_without_end_is_broken_off(stranger):
    with closing(connect_to_read(stranger / "ledger.sqlite")) as db:
        with pytest.raises(sqlite3.DatabaseError, match="does not end"):
            db.execute(f"{ENDLESS} count(*) FROM n")
        assert db.execute("SELECT count(*) FROM stages").fetchone()[0]  # and only this one


def test_ctrl_c_during_a_long_query_is_no_damage(stranger):
    with closing(connect_to_read(stranger / "ledger.sqlite")) as db:
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                db.execute(f"{ENDLESS.replace('n)', 'n LIMIT 1000000)')} count(*) FROM n")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_nothing_is_attached_or_executed(stranger, tmp_path):
    with closing(connect_to_read(stranger / "ledger.sqlite")) as db:
        with pytest.raises(sqlite3.DatabaseError, match="attached"):
            db.execute(f"ATTACH '{tmp_path / 'other'}' AS other")
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            db.execute("SELECT load_extension('x')")
        assert db.execute("PRAGMA trusted_schema").fetchone() == (0,)


def put(folder, table, column, value, where="1"):
    """Set a column of one row, with the checksum that belongs to it."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db, db:
        (row,) = db.execute(f"SELECT min(rowid) FROM {table} WHERE {where}").fetchone()
        db.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?", (value, row))
        *values, _ = db.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchone()
        db.execute(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", (checksum(values), row))


@pytest.mark.parametrize(
    "table, column, value, where",
    [
        ("stages", "facts", "[]", "stage = 'judge'"),
        ("stages", "facts", "{}", "stage = 'judge'"),
        ("stages", "facts", '{"learn": 3}', "stage = 'turn'"),
        ("stages", "facts", '{"a":' * 5_000, "stage = 'judge'"),
        ("stages", "seconds", float("inf"), "1"),
        ("stages", "generation", 2**60, "1"),
        ("stages", "generation", "one", "1"),
        ("stages", "key", b"\xff", "1"),
        ("matches", "record", "[]", "1"),
        ("players", "facts", "7", "1"),
        ("metrics", "record", "[]", "1"),
    ],
)
def test_odd_values_with_right_checksums(command, stranger, table, column, value, where):
    put(stranger, table, column, value, where)
    done = command("check", "run")
    assert done.code == 2 and f"damaged    ledger.sqlite, table {table}" in done.out, done.out
    for verb in ("status", "report"):
        done = command(verb, "run")
        assert done.code in (0, 2) and done.err.count("\n") <= 1, done.err
    if table == "stages":
        assert done.code == 2
        assert "is damaged" in done.err


def test_records_that_do_not_fit_together_are_one_message(stranger):
    said = pytest.raises(RunError, match=r"do not fit together \(KeyError: 'absent'")
    with said, RunDirectory.read(stranger):
        raise KeyError("absent")
    with pytest.raises(KeyError), RunDirectory.open(stranger):  # a fault of playing is our own
        raise KeyError("absent")


ODD = [
    None,
    -1,
    2**62,
    1e308,
    float("inf"),
    "",
    "[]",
    "{}",
    "1e999",
    b"\xff",
    "policy@9999",
    "[" * 9999,
]
INNER = [None, -1, 1e300, [], {}, "", "x", True, 2**70, {"mean": "x"}, [1, "a"], "policy@-1"]


def changed(text, dice):
    """A record in which one value is another, or gone."""
    record = json.loads(text)
    places = [(record, key) for key in record]
    for holder, key in places:
        inner = holder[key]
        keys = (
            inner
            if isinstance(inner, dict)
            else range(len(inner) if isinstance(inner, list) else 0)
        )
        places += [(inner, each) for each in keys]
    if not places:
        return "null"
    holder, key = dice.choice(places)
    if dice.random() < 0.3 and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = dice.choice(INNER)
    return json.dumps(record)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(int(os.environ.get("EQUIPOISE_FUZZ", "12"))))
def test_any_value_anywhere_is_at_most_one_message(command, stranger, seed):
    """EQUIPOISE_FUZZ=1000 tries as many."""
    dice = random.Random(seed)
    with closing(sqlite3.connect(stranger / "ledger.sqlite")) as db:
        tables = [
            name
            for (name,) in db.execute(
                "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'"
            )
        ]
        filled = [t for t in tables if db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]]
        table = dice.choice(filled)
        *columns, _ = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        column = dice.choice(columns)
        rows = db.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    row, before = dice.choice(rows)
    value = dice.choice(ODD)
    if column in ("record", "facts") and dice.random() < 0.8:
        value = changed(before, dice)
    try:
        put(stranger, table, column, value, f"rowid = {row}")
    except sqlite3.IntegrityError:
        return  # NULL where there is none
    for verb, *options in (
        ["check"],
        ["status"],
        ["report"],
        ["export", "--to", "tables"],
        ["rate"],
    ):
        done = command(verb, "run", *options)
        assert done.code in (0, 2), (table, column, value, done.err)
