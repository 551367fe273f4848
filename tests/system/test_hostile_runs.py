"""A stranger's run in which names are links, FIFOs, devices or journals that name other files: each
verb refuses it by that name, and reaches nothing outside. A soak does so for every name that the
verbs open (`python -m tests.soak names`).
"""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hostile_files import KINDS, Outside, can_make_devices, journal
from small_runs import FINITE

from equipoise.errors import RunError
from equipoise.ledger.ledger import Ledger
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory

READING = [["status"], ["report"], ["check"], ["export", "--to", "out"], ["rate"]]
VERBS = [*READING, ["check", "--mend"], ["resume"]]
NAMES = [
    "ledger.sqlite",
    "ledger.sqlite-wal",
    "ledger.sqlite-journal",
    "config.yaml",
    "metrics.jsonl",
    ".lock",
    "report.html",
    "players",
    "players/policy",
    "people/votes.jsonl",
    "logs",
]


@pytest.fixture(scope="module")
def finite_run(tmp_path_factory):
    from fixtures.finished_runs import play

    folder = tmp_path_factory.mktemp("finite") / "run"
    return play(folder, FINITE[0], [*FINITE[1:], "generations=1"])


@pytest.fixture
def run(finite_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(finite_run, tmp_path / "run")


@pytest.fixture
def outside(tmp_path):
    return Outside(tmp_path / "outside")


@pytest.fixture(autouse=True)
def patience():
    """What hangs is an error."""

    def stop(number, frame):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def put(kind: str, place: Path, outside: Outside) -> None:
    """Put such a thing in the place of what is there."""
    if kind == "a device" and not can_make_devices(place.parents[1]):
        pytest.skip("this user may not make devices")
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    KINDS[kind](place, outside)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_journal_that_names_a_file_deletes_nothing(command, run, outside, verb):
    (run / "ledger.sqlite-journal").write_bytes(journal(outside.file))
    done = command(verb[0], "run", *verb[1:])
    assert outside.changes() == []
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "ledger.sqlite-journal: names another file" in done.err + done.out


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["a link to a file", "a link to a folder", "a FIFO"])
def test_each_name_is_refused_by_every_verb(command, run, outside, name, kind):
    put(kind, run / name, outside)
    before = sorted(os.listdir(run))
    for verb in VERBS:
        done = command(verb[0], "run", *verb[1:])
        assert done.code == 2 and f"run/{name}: is a" in done.err, (verb, done.err)
        assert done.err.count("\n") == 1, done.err
    assert outside.changes() == []
    assert sorted(os.listdir(run)) == before


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_refused(command, run, outside, kind):
    put(kind, run / "logs" / "other.txt", outside)
    done = command("status", "run")
    assert done.code == 2
    assert "run/logs/other.txt: is a" in done.err
    assert outside.changes() == []


@pytest.mark.parametrize(
    "name",
    [".report.html.draft", ".config.yaml.draft", ".metrics.jsonl.draft", "players/policy/.2.draft"],
)
def test_a_link_under_the_name_of_a_draft_is_not_followed(command, run, outside, name):
    put("a link to a file", run / name, outside)
    for verb in (["report"], ["resume", "-s", "generations=2"]):
        done = command(verb[0], "run", *verb[1:])
        assert done.code == 2
        assert f"{name}: is a link" in done.err
    assert outside.changes() == []


def test_a_ledger_of_another_run_is_not_opened_by_a_link(command, run, outside):
    other = shutil.copytree(run, outside.home / "mine") / "ledger.sqlite"
    before = other.read_bytes()
    (run / "ledger.sqlite").unlink()
    (run / "ledger.sqlite").symlink_to(other)
    for verb in VERBS:
        done = command(verb[0], "run", *verb[1:])
        assert done.code == 2
        assert "which is not this run's ledger" in done.err + done.out
    assert other.read_bytes() == before


# -- a run of one's own after a kill

KILLED = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
db.execute("PRAGMA cache_size = 5")
db.execute("BEGIN IMMEDIATE")
db.execute("INSERT INTO meta VALUES ('late', 'kept', 0)")
if sys.argv[2] == "WAL":
    db.execute("COMMIT")
else:  # more than the memory holds, so that half of it is in the tables
    for number in range(400):
        db.execute("INSERT INTO meta VALUES (?, ?, 0)", (f"late {number}", "x" * 900))
os._exit(0)
"""


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_ones_own_journals_are_taken_up_after_a_kill(run, mode):
    ledger = run / "ledger.sqlite"
    subprocess.run([sys.executable, "-c", KILLED, ledger, mode], check=True)
    ending = {"WAL": "-wal", "DELETE": "-journal"}[mode]
    left = run / f"ledger.sqlite{ending}"
    before = left.read_bytes()
    assert before
    kept = "kept" if mode == "WAL" else ""
    with RunDirectory.read(run) as opened:
        assert opened.ledger.meta("late") == kept
        assert opened.ledger.counts()["matches"]
    if mode == "DELETE":  # whoever only reads leaves it to the one who writes
        assert left.read_bytes() == before
    with Ledger.open(ledger) as opened:
        assert opened.meta("late") == kept
        opened.check_rows() if mode == "DELETE" else None
    assert not left.exists()
    with closing(sqlite3.connect(ledger)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.long
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_journal_that_was_cut_off_is_read_as_far_as_it_goes(command, run, share):
    subprocess.run([sys.executable, "-c", KILLED, run / "ledger.sqlite", "WAL"], check=True)
    left = run / "ledger.sqlite-wal"
    os.truncate(left, int(share * left.stat().st_size))
    assert command("status", "run").code == 0
    assert command("resume", "run").code == 0


def test_what_a_process_writes_is_read_meanwhile(run):
    with Ledger.open(run / "ledger.sqlite") as writing:
        writing.note("late", "1")
        with RunDirectory.read(run) as reading:
            assert reading.ledger.meta("late") == "1"
        writing.note("late", "2")
        with RunDirectory.read(run) as reading:
            assert reading.ledger.meta("late") == "2"


# -- rights


def finite(**more):
    return recipe_loader.load(FINITE[0], {"generations": 1, **more})


def rights(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))[2:]


def test_a_new_run_is_its_owners_alone(tmp_path):
    before = os.umask(0o022)
    try:
        with new_run(finite(), tmp_path / "own") as run:
            run.files.write("report.html", "page")
            own = [rights(run.folder), rights(run.folder / "ledger.sqlite")]
        with new_run(finite(readable_by_others=True), tmp_path / "shared") as run:
            shared = [rights(run.folder), rights(run.folder / "ledger.sqlite")]
    finally:
        os.umask(before)
    assert own == ["700", "600"]
    assert shared == ["755", "644"]


def test_a_ledger_that_is_there_is_not_taken_over(tmp_path):
    (tmp_path / "ledger.sqlite").write_bytes(b"")
    with pytest.raises(RunError, match="is there already"):
        Ledger.create(tmp_path / "ledger.sqlite")
