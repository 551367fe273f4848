"""A power cut, imitated at its worst: of every file only what was forced to the disk (fsync) is
left, and of every folder only the names that were.

A run is played with a small recorder of fsyncs preloaded; from its records the disk is made as it
would be found after a cut at any moment.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_runs import FINITE

import equipoise
from equipoise.runs.damage import examine
from equipoise.runs.directory import RunDirectory

GENERATIONS = 4
CUTS = 14  # moments that are tried, evenly spread over the run


@dataclass(frozen=True)
class Synced:
    """A file or folder at the moment when it was forced to the disk."""

    kind: str
    id: str
    path: Path
    content: bytes


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    """The recorder as a library to preload."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler here to build the recorder of fsyncs, or no Linux")
    library = tmp_path_factory.mktemp("recorder") / "synced.so"
    source = Path(__file__).with_name("synced.c")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the recorder of fsyncs cannot be built here: {done.stderr[:200]}")
    return library


@pytest.fixture(scope="module")
def played(recorder, tmp_path_factory):
    """(the folder that a run was played in, what was forced to its disk, in order)."""
    home = tmp_path_factory.mktemp("played")
    records = tmp_path_factory.mktemp("records")
    command = ["-m", "equipoise", "run", FINITE[0], "--out", "run"]
    subprocess.run(
        [sys.executable, *command, "-s", f"generations={GENERATIONS}"],
        cwd=home,
        check=True,
        capture_output=True,
        env={**os.environ, "LD_PRELOAD": str(recorder), "SYNCED": str(records)},
    )
    return home, [read(path) for path in sorted(records.iterdir())]


def read(path: Path) -> Synced:
    head, _, content = path.read_bytes().partition(b"\n")
    kind, identity, place = head.decode().split(" ", 2)
    return Synced(kind, identity, Path(place), content)


def restore(synced: list[Synced], home: Path, to: Path) -> None:
    """Write what is left of `home` when only this was forced to the disk."""
    files = {each.id: each.content for each in synced if each.kind == "file"}
    folders = {each.id: each.content for each in synced if each.kind == "dir"}
    [root] = {each.id for each in synced if each.path == home} or {""}

    def fill(folder: Path, identity: str) -> None:
        folder.mkdir(parents=True)
        for line in folders.get(identity, b"").decode().splitlines():
            kind, inner, name = line.split(" ", 2)
            if kind == "dir":
                fill(folder / name, inner)
            else:
                (folder / name).write_bytes(files.get(inner, b""))

    fill(to, root)


def results(run: Path) -> list:
    with RunDirectory.read(run) as opened:
        measured = [stage[:4] for stage in opened.ledger.stages("measure")]
        return [measured, opened.metrics()]


@pytest.mark.long
def test_the_run_opens_and_goes_on_after_a_cut_at_any_moment(played, tmp_path):
    home, synced = played
    begun = 0
    for n in range(CUTS):
        cut = (n + 1) * len(synced) // CUTS
        disk = tmp_path / str(cut)
        restore(synced[:cut], home, disk)
        run = disk / "run"
        if not run.exists():
            continue  # it had not begun
        begun += 1
        damaged = [part for part in examine(run) if part.state == "damaged"]
        assert not damaged, (cut, damaged)
        recorded = equipoise.open_run(run).status()["records"]
        equipoise.open_run(run).resume(progress=False)
        assert results(run) == results(home / "run"), cut
        assert recorded is not None
        for generation in range(1, GENERATIONS + 1):
            weights = f"run/players/policy/{generation}/policy.json"
            assert (disk / weights).read_bytes() == (home / weights).read_bytes(), cut
    assert begun > CUTS // 2


@pytest.mark.long
def test_nothing_recorded_is_lost_by_a_cut(played, tmp_path):
    """Each stage that the run recorded is on the disk before the next one begins: a cut after the
    last fsync loses no record, and no weights.
    """
    home, synced = played
    restore(synced, home, tmp_path / "disk")
    run = tmp_path / "disk" / "run"
    assert results(run) == results(home / "run")
    assert all(part.state != "damaged" for part in examine(run))
    assert (run / "report.html").read_bytes() == (home / "run/report.html").read_bytes()
