"""A ledger on a disk of its own: the run's folder leads to it."""

import pytest
from small import FINITE, settings

from equipoise.errors import RunError
from equipoise.runs import database
from equipoise.runs.database import Database


@pytest.mark.long
def test_a_run_keeps_its_ledger_where_it_is_told(command, tmp_path):
    there = tmp_path / "fast disk" / "first.sqlite"
    arguments = ["run", *FINITE, *settings(ledger=there), "--out", "run"]
    assert command(*arguments).code == 0
    run = tmp_path / "run"
    assert (run / "ledger.sqlite").readlink() == there and there.is_file()
    assert "finished" in command("status", "run").out
    assert command(*arguments, "--overwrite").code == 0
    refused = command("run", *FINITE, *settings(ledger=there), "--out", "other")
    assert refused.code == 2 and "is there already" in refused.err
    assert not (tmp_path / "other").exists()
    there.rename(there.with_name("moved"))
    gone = command("status", "run")
    assert gone.code == 2 and "which is not here" in gone.err


def test_a_ledger_on_a_network_disk_needs_no_shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "network_disk", lambda path: "nfs4")
    with Database.create(tmp_path / "ledger.sqlite") as made:
        assert next(made.rows("PRAGMA journal_mode")) == ("delete",)
        assert not (tmp_path / "ledger.sqlite-shm").exists()
    with Database.open(tmp_path / "ledger.sqlite") as opened:
        assert opened.meta("schema")
    with pytest.raises(RunError):
        Database.open(tmp_path / "absent.sqlite")
