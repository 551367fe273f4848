"""A ledger on a disk of its own: the run's folder leads to it."""

import sqlite3

import pytest
from small_runs import FINITE, settings

from equipoise.errors import RunError
from equipoise.ledger import database
from equipoise.ledger.database import Database


@pytest.mark.long
def test_a_run_keeps_its_ledger_where_it_is_told(command, tmp_path):
    there = tmp_path / "fast disk" / "first.sqlite"
    arguments = ["run", *FINITE, *settings(ledger=there), "--out", "run"]
    assert command(*arguments).code == 0
    run = tmp_path / "run"
    assert (run / "ledger.sqlite").readlink() == there
    assert there.is_file()
    assert "finished" in command("status", "run").out
    assert command(*arguments, "--overwrite").code == 0
    refused = command("run", *FINITE, *settings(ledger=there), "--out", "other")
    assert refused.code == 2
    assert "is there already" in refused.err
    assert not (tmp_path / "other").exists()
    there.rename(there.with_name("moved"))
    gone = command("status", "run")
    assert gone.code == 2
    assert "which is not here" in gone.err


def test_a_ledger_on_a_network_disk_needs_no_shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "network_disk", lambda path: "nfs4")
    with Database.create(tmp_path / "ledger.sqlite") as made:
        assert next(made.rows("PRAGMA journal_mode")) == ("delete",)
        assert not (tmp_path / "ledger.sqlite-shm").exists()
    with Database.open(tmp_path / "ledger.sqlite") as opened:
        assert opened.meta("schema")
    with pytest.raises(RunError):
        Database.open(tmp_path / "absent.sqlite")


def test_what_is_written_is_under_no_limit_of_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "TICK", 100)  # of SQLite's steps
    with Database.create(tmp_path / "ledger.sqlite") as made:
        made._insert("meta", ((str(i), "x") for i in range(2000)))
        assert next(made.rows("SELECT count(*) FROM meta"))[0] > 2000


def test_a_ledger_that_another_process_holds_is_not_told_as_damaged(tmp_path):
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    busy = pytest.raises(RunError, match="another process reads or writes it")
    with busy, database.damaged_records(tmp_path):
        raise error


def test_who_reads_a_run_that_is_played_sees_one_moment(tmp_path):
    with Database.create(tmp_path / "ledger.sqlite") as written:
        with Database.open(tmp_path / "ledger.sqlite", reading=True) as seen, seen.moment():
            before = list(seen.rows("SELECT key FROM meta"))
            written._insert("meta", [("late", "x")])
            assert list(seen.rows("SELECT key FROM meta")) == before
        with Database.open(tmp_path / "ledger.sqlite", reading=True) as seen:
            assert len(list(seen.rows("SELECT key FROM meta"))) == len(before) + 1
