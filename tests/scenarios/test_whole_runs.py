"""Nothing of a run is lost or invented: a kill at the worst moment, damaged files, an edited
configuration, another place, another clock, another process.
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from small_runs import FINITE

import equipoise
from equipoise.errors import ConfigError, RunBusy, RunError
from equipoise.ledger.ledger import Ledger
from equipoise.models import device
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory

pytestmark = pytest.mark.long  # half a second each, most of it verbs of the command


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of a finite game, of three generations."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    equipoise.run(FINITE[0], {"generations": 3}, out=folder, progress=False)
    return folder


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    """A copy of it."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(finished, tmp_path / "run")


def weights(run: Path) -> dict[str, bytes]:
    return {
        path.parent.name: path.read_bytes()
        for path in (run / "players/policy").glob("[0-9]*/policy.json")
    }


def measured(run: Path) -> list:
    with RunDirectory.read(run) as opened:
        return [stage[:4] for stage in opened.ledger.stages("measure")]


def damage(path: Path, seed: int = 0) -> None:
    """Flip a bit of a byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[random.Random(seed).randrange(len(content) // 2, len(content))] ^= 4
    path.write_bytes(content)


# -- a kill at the worst moment


def test_a_kill_between_weights_and_record_loses_no_curve(finished, tmp_path, monkeypatch):
    """The weights have their name already, and the stage is not recorded yet."""
    finish = Ledger.finish
    folder = tmp_path / "run"

    def killed(ledger, key, *values):
        if key == "1/learn/policy":
            raise SystemExit(9)
        finish(ledger, key, *values)

    monkeypatch.setattr(Ledger, "finish", killed)
    with pytest.raises(SystemExit):
        equipoise.run(FINITE[0], {"generations": 3}, out=folder, progress=False)
    assert (folder / "players/policy/2").is_dir()
    (folder / "players/policy/.2.scratch").mkdir()  # as a kill before leaves it
    monkeypatch.setattr(Ledger, "finish", finish)
    monkeypatch.setattr(
        "equipoise.runs.train_learners._write_weights", None
    )  # it is not trained anew
    with pytest.raises(TypeError):  # but the generation after it is
        equipoise.open_run(folder).resume(progress=False)
    monkeypatch.undo()
    equipoise.open_run(folder).resume(progress=False)
    for name in ("metrics.jsonl", "config.yaml"):
        assert (folder / name).read_bytes() == (finished / name).read_bytes()
    assert weights(folder) == weights(finished)
    assert not list((folder / "players").rglob(".*"))
    with RunDirectory.read(folder) as one, RunDirectory.read(finished) as other:
        assert one.metrics() == other.metrics() != []


def test_metrics_are_written_anew_from_the_ledger(run, finished):
    (run / "metrics.jsonl").write_bytes(b"\x00\xff not JSON\n")
    equipoise.open_run(run).resume(progress=False)
    whole = (finished / "metrics.jsonl").read_bytes()
    assert (run / "metrics.jsonl").read_bytes() == whole


# -- an edited configuration


def test_an_edited_configuration_is_refused_and_says_what_changed(run, command):
    config = run / "config.yaml"
    text = config.read_text()
    edited = text.replace("generations: 3", "generations: 4").replace("seed: 0", "seed: 5")
    assert edited != text
    config.write_text(edited)
    for verb in (["resume", run], ["judge", run, "--with", "shorter"]):
        done = command(*verb)
        assert done.code == 2
        assert "generations: 4, was 3" in done.err
        assert "seed: 5, was 0" in done.err
    assert command("status", run).code == 0  # it can be read
    assert command("check", run).code == 0
    config.write_text("# a remark\n" + text)
    assert command("resume", run).code == 0


def test_what_decides_no_result_may_be_edited(tmp_path):
    settings = {
        "generations": 1,
        "players.guest": {"kind": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "m"},
    }
    made = equipoise.run(FINITE[0], settings, out=tmp_path / "run", progress=False)
    config = made.path / "config.yaml"
    config.write_text(config.read_text().replace("127.0.0.1:9", "127.0.0.1:7"))
    made.resume({"players.guest.timeout": 5}, progress=False)
    made.resume(progress=False)
    config.write_text(config.read_text().replace("model: m\n", "model: other\n"))
    with pytest.raises(ConfigError, match=r'players\.guest\.model: "other", was "m"'):
        made.resume(progress=False)


# -- damaged files


def test_a_damaged_last_generation_is_trained_again(run, finished, command):
    for path in (run / "players/policy/3/policy.json", run / "report.html"):
        damage(path)
    done = command("check", run, "--json")
    [broken] = [part for part in done.facts["parts"] if part["state"] != "whole"]
    assert done.code == 2
    assert not done.facts["whole"]
    assert broken["part"] == "players/policy/3"
    assert "checksum" in broken["note"]
    assert command("resume", run).code == 0
    assert weights(run) == weights(finished)
    assert (run / "players/policy/damaged-3").is_dir()
    assert command("check", run).code == 0
    assert measured(run) == measured(finished)


@pytest.mark.parametrize("how", ["cut", "gone", "training.json"])
def test_any_generation_can_be_mended(run, finished, command, how):
    folder = run / "players/policy/2"
    if how == "cut":
        os.truncate(folder / "policy.json", 10)
    elif how == "gone":
        (folder / "policy.json").unlink()
    else:
        (folder / how).write_bytes(b"\x80")
    done = command("check", run, "--mend")
    assert "mended: players/policy/2" in done.out
    assert command("resume", run).code == 0
    assert weights(run) == weights(finished)


def test_damaged_weights_are_never_played(run):
    from equipoise.models.resources import Resources
    from equipoise.players.population import Population
    from equipoise.types import PlayerId

    damage(run / "players/policy/1/policy.json")
    with RunDirectory.read(run) as opened:
        population = Population(opened.config.playing, run / "players", resources=Resources())
        with pytest.raises(RunError, match=r"policy/1/policy\.json: is damaged"):
            population.actor(PlayerId("policy", 1))


@pytest.mark.parametrize("part", ["pages", "head", "record", "cut"])
def test_a_damaged_ledger_is_one_message(run, command, part):
    ledger = run / "ledger.sqlite"
    if part == "record":
        with closing(sqlite3.connect(ledger)) as db:
            db.execute("UPDATE matches SET record = 'x' || record WHERE rowid < 9")
            db.execute("UPDATE stages SET facts = '{' WHERE rowid = 2")
            db.commit()
    elif part == "cut":
        os.truncate(ledger, ledger.stat().st_size // 2)
    else:
        start = 0 if part == "head" else 4096 * 3
        with ledger.open("r+b") as file:
            file.seek(start)
            file.write(b"\xa5" * (100 if part == "head" else 4096 * 12))
    for verb in (["status"], ["report"], ["resume"], ["export", "--to", "out"]):
        done = command(verb[0], run, *verb[1:])
        assert done.code == 2, (verb, done.out)
        assert "ledger" in done.err
        assert len(done.err.strip().splitlines()) == 1
    done = command("check", run)
    assert done.code == 2
    assert "damaged" in done.out
    assert command("check", run, "--mend").code == 2  # it cannot


def test_a_bit_that_flips_inside_a_record_is_noticed(run, command):
    """Of a row that can still be read, so that nothing else says it is damaged."""
    ledger = run / "ledger.sqlite"
    content = bytearray(ledger.read_bytes())
    content[content.rindex(b'"game":"matrix"') + 9] ^= 1
    ledger.write_bytes(content)
    done = command("check", run)
    assert done.code == 2
    assert "table matches: 1 rows are not as they were" in done.out
    assert command("check", run, "--mend").code == 2  # it cannot
    done = command("resume", run)
    assert done.code == 2
    assert "1 rows of matches" in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize("content", [b"\x00\xff\xfe", b"", b"- a list\n", b"a: [1\n"])
def test_a_damaged_configuration_is_one_message_and_can_be_saved(run, finished, command, content):
    (run / "config.yaml").write_bytes(content)
    for verb in ("status", "resume", "report"):
        done = command(verb, run)
        assert done.code == 2
        assert "config.yaml" in done.err
    assert command("check", run).code == 2
    assert command("check", run, "--mend").code == 0
    text = (run / "config.yaml").read_text()
    assert text == (finished / "config.yaml").read_text()


def test_a_damaged_line_of_metrics_is_one_message(run, command):
    """Of a run that is not finished, whose curves are read from the file, too."""
    with closing(sqlite3.connect(run / "ledger.sqlite")) as db:
        db.execute("DELETE FROM stages WHERE key LIKE '3/%'")
        db.commit()
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"stage": \xff}\n{"stage": "2/le')
    done = command("report", run)
    assert done.code == 2
    assert "metrics.jsonl, line " in done.err
    assert command("resume", run).code == 0
    assert command("report", run).code == 0


def test_a_killed_export_leaves_nothing_broken_under_its_name(run, command, monkeypatch):
    import pyarrow.parquet as pq

    def killed(*_, **__):
        raise SystemExit(9)

    out = run.parent / "out"
    assert command("export", run, "--to", out).code == 0
    rows = {path: pq.read_table(path).num_rows for path in out.glob("*.parquet")}
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", killed)
        assert command("export", run, "--to", out).code == 9
    for path, count in rows.items():
        assert pq.read_table(path).num_rows == count
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lives = f".files.draft.{os.getppid()}.0123456789abcdef"
    (out / f".files.draft.{gone.pid}.0123456789abcdef").mkdir()  # as SIGKILL leaves it
    (out / lives).mkdir()  # of a process that lives
    assert command("export", run, "--to", out).code == 0
    assert [path.name for path in out.glob(".files*")] == [lives]


# -- another place, another clock, another process


def test_a_run_is_resumed_in_another_place(finished, tmp_path, command, monkeypatch):
    """It was moved in the middle, and the folder that it was started in is gone."""
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    monkeypatch.chdir(home)
    with new_run(recipe_loader.load(FINITE[0], ["generations=3"]), Path("run")):
        pass
    home.rename(away)
    monkeypatch.chdir(tmp_path)
    done = command("resume", away / "run")
    assert done.code == 0
    assert f"started in {home}, which is not here" in done.err
    assert measured(away / "run") == measured(finished)
    done = command("resume", away / "run", "--directory", away)
    assert done.code == 0
    assert "not here" not in done.err
    assert command("resume", away / "run").err == ""  # it was noted
    done = command("resume", away / "run", "--directory", "nowhere")
    assert done.code == 2
    assert "is no folder" in done.err


def test_a_clock_that_goes_backwards_changes_nothing(run, finished, monkeypatch):
    """Files from the future, and a clock that runs back a day at every look."""
    with closing(sqlite3.connect(run / "ledger.sqlite")) as db:
        for table in ("stages", "players", "metrics"):
            db.execute(f"DELETE FROM {table}")
        db.commit()
    shutil.rmtree(run / "players")
    future = time.time() + 10**8
    for path in run.rglob("*"):
        os.utime(path, (future, future))
    clock = iter(range(2_000_000_000, 0, -86_400))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    equipoise.open_run(run).resume(progress=False)
    monkeypatch.undo()
    assert measured(run) == measured(finished)
    assert weights(run) == weights(finished)


def test_other_threads_are_said(tmp_path, command, monkeypatch):
    """Sums of floats, and so sampled tokens, may differ."""
    monkeypatch.chdir(tmp_path)
    settings = {"generations": 0, "prompts.count": 20, "prompts.held_out": 4, "evaluate.sets": None}
    monkeypatch.setattr(device, "explain_device", lambda: "the CPU is used, with 1 thread")
    equipoise.run("quickstart", {**settings, "evaluate.samples": 1}, out="run", progress=False)
    assert "began where" not in command("resume", "run").err
    monkeypatch.setattr(device, "explain_device", lambda: "the CPU is used, with 2 threads")
    said = command("resume", "run").err
    assert "began where the CPU is used, with 1 thread; here the CPU is used, with 2" in said
    command("resume", "run")
    devices = [f"the CPU is used, with {threads}" for threads in ("1 thread", "2 threads")]
    assert command("status", "run", "--json").facts["devices"] == devices
    assert "; then the CPU is used, with 2 threads" in " ".join(
        command("status", "run").out.split()
    )


def test_two_processes_do_not_play_one_run(run, command):
    with RunDirectory.open(run):
        done = command("resume", run)
        assert done.code == 2
        assert f"in use by another process (pid {os.getpid()})" in done.err
        assert command("status", run).code == 0
        assert command("check", run, "--mend").code == 2
    assert command("resume", run).code == 0
    assert json.loads(command("status", run, "--json").out)["finished"]


def test_lines_that_two_processes_wrote_are_mended(run, command):
    """As on a disk that shares no locks, where neither sees the other."""
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text()
    metrics.write_text(lines * 2)
    assert command("resume", run).code == 0
    assert lines
    assert metrics.read_text() == lines


def test_a_process_stops_where_another_took_its_lock_over(run):
    """As on a disk that shares no locks: the second one goes on, with no line doubled."""
    with RunDirectory.open(run) as first:
        first.metric("late", loss=1.0)
        (run / ".lock").unlink()  # so that the second finds it free
        with RunDirectory.open(run) as second:
            with pytest.raises(RunBusy, match=f"in use by another process .pid {os.getpid()}"):
                first.metric("late", loss=1.0)
            second.metric("late", loss=2.0)
            late = [each for each in second.read_metrics_file() if each["stage"] == "late"]
            assert [each["loss"] for each in late] == [2.0]


def test_a_draft_of_a_killed_creation_goes_with_the_next(tmp_path):
    """That of a process which lives stays: it may be about to put it in place."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ending = "0123456789abcdef"
    kept = [f".here.draft.{os.getppid()}.{ending}", f".there.draft.{gone.pid}.{ending}"]
    kept += [".here.draft", f".here.draft.{gone.pid}", f".here.draft.{10**20}.{ending}"]  # a user's
    for name in (*kept, f".here.draft.{gone.pid}.{ending}"):
        (tmp_path / name).mkdir()
    config = recipe_loader.load("rock_paper_scissors", ["generations=1"])
    with new_run(config, tmp_path / "here"):
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "here"])
