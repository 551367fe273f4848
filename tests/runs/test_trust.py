"""A stranger's run is read without executing anything of theirs, and played only with consent;
one's own run is never asked about.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small import FINITE, settings

import equipoise
from equipoise.errors import RunError

pytestmark = pytest.mark.long  # half a second each, most of it the run

MINE = """
from pathlib import Path
from equipoise.ratings.elo import Elo
Path(__file__).with_name("executed").touch()

class Mine(Elo):
    kind: str = "mine"

def answer(view, seed):
    return "rock"
"""
ENDPOINT = "{kind: endpoint, base_url: 'http://127.0.0.1:9/v1', model: m, api_key_env: A_KEY}"


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A finished run with parts of its user's and a key, and the folder it began in."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine.py").write_text(MINE)
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    parts = settings(
        training_ratings="mine:Mine",
        players__guest="{kind: scripted, call: 'mine:answer'}",
        players__paid=ENDPOINT,
    )
    made = equipoise.run(
        FINITE[0],
        [part for part in (*FINITE[1:], *parts) if part != "-s"],
        out="run",
        progress=False,
    )
    (home / "executed").unlink()
    monkeypatch.delitem(sys.modules, "mine")
    return made.path


def as_a_stranger(run: Path, monkeypatch) -> Path:
    """The run in another folder, which has modules of its own, and another user."""
    there = run.parents[1] / "there"
    there.mkdir()
    shutil.copytree(run, there / "run")
    for name in ("mine", "msgspec", "yaml", "typer"):
        (there / f"{name}.py").write_text(MINE)
    monkeypatch.chdir(there)
    monkeypatch.setenv("XDG_STATE_HOME", str(there / "state"))
    return there / "run"


def test_reading_executes_nothing_of_the_runs(begun, command, monkeypatch):
    run = as_a_stranger(begun, monkeypatch)
    before = len(sys.path)
    for verb in (
        ["status", run],
        ["report", run],
        ["export", run, "--to", "parquet"],
        ["check", run],
    ):
        done = command(*verb)
        assert done.code == 0, done.err
    command("rate", run, "--by", "bradley_terry")
    assert not (run.parent / "executed").exists()
    assert not (begun.parent / "executed").exists()
    assert "mine" not in sys.modules and len(sys.path) == before


@pytest.mark.parametrize(
    "how", ["module", pytest.param("script", marks=pytest.mark.slow)]
)  # slow: the console script, which Python gives no current folder
def test_the_current_folder_is_not_on_the_import_path(begun, monkeypatch, how):
    run = as_a_stranger(begun, monkeypatch)
    script = Path(sys.executable).with_name("equipoise")
    if how == "script" and not script.exists():
        pytest.skip("the package is not installed here")
    start = [sys.executable, "-m", "equipoise"] if how == "module" else [script]
    done = subprocess.run([*start, "status", run], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (run.parent / "executed").exists()


def test_a_strangers_run_is_played_with_consent_alone(begun, command, monkeypatch):
    run = as_a_stranger(begun, monkeypatch)
    shutil.rmtree(begun.parent)
    for verb in (
        ["resume", run, "--directory", "."],
        ["judge", run, "--with", "gold"],
        ["serve", run, "--port", "0"],
        ["chat", run],
        ["evaluate", run, "--on", "gsm8k"],
        ["red-team", "crossplay", run, run],
        ["best-response", f"{run}@policy"],
    ):
        done = command(*verb)
        assert done.code == 2 and "--trust" in done.err
        for named in ("mine:Mine", "mine:answer", "the key in A_KEY to 127.0.0.1:9"):
            assert named in done.err
        assert "secret" not in done.err
    assert not (run.parent / "executed").exists()
    done = command("resume", run, "--directory", ".", "--trust")
    assert done.code == 0 and "mine:Mine" in done.err  # named before it is imported
    assert (run.parent / "executed").exists()
    assert command("resume", run).code == 0  # what was agreed to is remembered


def test_ones_own_run_is_not_asked_about(begun, command, monkeypatch):
    monkeypatch.chdir(begun.parent)
    done = command("resume", "run")
    assert done.code == 0 and "note: sends the key in A_KEY to 127.0.0.1:9" in done.err


def test_a_run_that_was_changed_on_the_way_is_a_strangers(begun, monkeypatch):
    """Another host for the same key, which an edited configuration may have."""
    config = begun / "config.yaml"
    config.write_text(config.read_text().replace("127.0.0.1:9", "127.0.0.2:9"))
    with pytest.raises(RunError, match=r"A_KEY to 127\.0\.0\.2:9"):
        equipoise.open_run(begun).resume(progress=False)
    where = "players.paid.base_url"
    same = {where: "http://127.0.0.1:9/v1"}
    equipoise.open_run(begun, trust=True).resume(same, progress=False)
    equipoise.open_run(begun).resume(progress=False)


def test_a_recipe_says_what_it_runs_before_it_does(command, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text("raise SystemExit(7)\n")
    done = command("plan", *FINITE, "-s", "training_ratings=mine:Mine")
    assert done.code == 7
    assert "note: runs code that is not Equipoise's: mine:Mine" in done.err
