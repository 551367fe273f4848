"""What is whole of a run's folder, and what can be saved: one part after another is damaged."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from equipoise.errors import RunError
from equipoise.runs import damage
from equipoise.runs.damage import Finding, examine, mend
from equipoise.runs.directory import RunDirectory
from equipoise.system.folder import write_folder
from equipoise.types import PlayerId


@pytest.fixture
def run(recorded_folder, tmp_path):
    """A run with weights of two generations, one of which was trained in memory."""
    folder = shutil.copytree(recorded_folder("people"), tmp_path / "run")
    for name in ("1", "10", ".state/2"):
        place = folder / "players" / "poet" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        write_folder(place, lambda draft: (draft / "weights.bin").write_text("weights"))
    (folder / "players" / "poet" / "notes").mkdir()
    return folder


def states(folder):
    return {found.part: found.state for found in examine(folder)}


WHOLE = {
    "config.yaml": "whole",
    "ledger.sqlite": "whole",
    "players/poet/.state/2": "whole",
    "players/poet/1": "whole",
    "players/poet/10": "whole",
    "metrics.jsonl": "whole",
}


def execute(folder, *statements):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db, db:
        for statement in statements:
            db.execute(statement)


def test_a_whole_run(run, tmp_path):
    assert states(run) == WHOLE
    assert mend(run) == []
    with pytest.raises(RunError, match=r"no run here \(config.yaml and ledger.sqlite are"):
        examine(tmp_path)


def test_weights_are_damaged_unchecked_or_gone(run):
    poet = run / "players" / "poet"
    (poet / "1" / "weights.bin").write_text("weight5")
    (poet / "10" / "weights.bin").unlink()
    for name in (p.name for p in (poet / ".state" / "2").iterdir() if p.name != "weights.bin"):
        (poet / ".state" / "2" / name).unlink()
    found = {each.part: each for each in examine(run)}
    assert found["players/poet/.state/2"] == Finding(
        "players/poet/.state/2", "unchecked", "has no checksums"
    )
    for part in ("players/poet/1", "players/poet/10"):
        assert found[part].state == "damaged"
        assert "weights.bin" in found[part].note
        assert found[part].note.endswith(". check --mend sets it aside, and resume makes it again")
        assert str(run) not in found[part].note
    assert mend(run) == [
        "players/poet/1: set aside as damaged-1; resume makes it again",
        "players/poet/10: set aside as damaged-10; resume makes it again",
    ]
    assert sorted(p.name for p in poet.iterdir()) == [
        *(".state", "damaged-1", "damaged-10", "notes")
    ]
    assert "players/poet/1" not in states(run)
    assert mend(run) == []


def test_generations_that_are_gone_are_missing_unless_others_hold_them(run):
    players = run / "players"
    for name in ("ann", "ben", "cat"):
        (players / name).mkdir()
    (players / "ann" / ".state").mkdir()
    (players / "ben" / "damaged-3").mkdir()
    found = [
        [*damage.missing_weights(run, PlayerId(who, 3))] for who in ("ann", "ben", "cat", "poet")
    ]
    assert found == [
        [],
        [Finding("players/ben/3", "missing", "was set aside; resume makes it again")],
        [Finding("players/cat/3", "missing", "its folder is gone")],
        [],
    ]


def test_a_configuration_is_written_anew_from_the_ledger(run):
    text = (run / "config.yaml").read_text()
    for broken, state in ((None, "missing"), ("name: [", "damaged")):
        (run / "config.yaml").unlink()
        if broken:
            (run / "config.yaml").write_text(broken)
        found = examine(run)[0]
        assert (found.part, found.state) == ("config.yaml", state)
        assert found.note.endswith("check --mend writes it anew from the ledger")
        assert mend(run) == ["config.yaml: written anew from the ledger"]
        assert states(run) == WHOLE
    changed = text.replace("seed: 0", "seed: 1")
    assert changed != text
    (run / "config.yaml").write_text(changed)
    assert examine(run)[0] == Finding(
        "config.yaml", "unchecked", "differs from what the run began with; resume says where, "
        "if it matters",
    )  # fmt: skip
    assert mend(run) == []


def test_records_that_cannot_be_read_are_counted(run):
    execute(run, "UPDATE matches SET record = '{' WHERE rowid IN (2, 3)")
    found = {each.part: each for each in examine(run)}
    notes = [each.note for each in examine(run) if each.part == "ledger.sqlite, table matches"]
    assert notes[0].startswith("10 rows can be read, 2 cannot (")
    assert notes[1:] == ["2 rows are not as they were written (rows 2, 3)"]
    assert "players/poet/1" not in found, "weights are looked at in a whole ledger alone"
    with pytest.raises(RunError, match=r"table matches: is damaged; 10 rows can"):
        mend(run)


def test_many_changed_rows_are_named_in_part(run):
    execute(run, "UPDATE judgements SET split = 'x' WHERE rowid <= 7")
    [found] = [f for f in examine(run) if f.part == "ledger.sqlite, table judgements"]
    assert found.note == "7 rows are not as they were written (rows 1, 2, 3, 4, 5, …)"


def test_a_ledger_that_is_gone_or_none(run):
    (run / "ledger.sqlite").write_bytes(b"no database " * 400)
    found = {each.part: each.state for each in examine(run)}
    assert found["ledger.sqlite"] == "damaged"
    assert found["config.yaml"] == "whole"
    for file in run.glob("ledger.sqlite*"):
        file.unlink()
    assert examine(run) == [
        Finding("config.yaml", "whole"),
        Finding("ledger.sqlite", "missing", "nothing of the run can be read without it"),
    ]
    (run / "config.yaml").unlink()
    with pytest.raises(RunError, match="no run here"):
        examine(run)


def test_metrics_that_cannot_be_read_and_a_run_in_use(run):
    lines = json.dumps({"stage": "0/learn", "loss": 0.5})
    (run / "metrics.jsonl").write_text(f"{lines}\nnothing\n{lines}\n")
    assert states(run)["metrics.jsonl"] == "damaged"
    with RunDirectory.read(run) as opened, pytest.raises(RunError, match="line 2: is damaged"):
        opened.read_metrics_file()
    with RunDirectory.hold_lock(run), pytest.raises(RunError):
        mend(run)
