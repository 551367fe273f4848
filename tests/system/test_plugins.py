"""Kinds that installed packages add by entry points."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic_core import PydanticCustomError
from small_runs import SMALL

import equipoise
from equipoise.errors import ConfigError, RunError
from equipoise.judges.base import Judge
from equipoise.judges.rules import Call
from equipoise.planning import machine_checks
from equipoise.players.base import Player
from equipoise.system.plugins import installed_kinds

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "plugin"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages; forget() after a change in it."""
    folder = tmp_path / "site"
    folder.mkdir()
    known = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    installed_kinds.cache_clear()
    yield folder
    installed_kinds.cache_clear()
    for name in set(sys.modules) - known:
        if name.startswith(("equipoise_terse", "installed_")):
            del sys.modules[name]


def install(site: Path, name: str, groups: dict[str, dict[str, str]], code: str = "") -> None:
    """A package of one module as an installer leaves it."""
    info = site / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    text = "".join(
        f"[{group}]\n" + "".join(f"{kind} = {path}\n" for kind, path in kinds.items())
        for group, kinds in groups.items()
    )
    (info / "entry_points.txt").write_text(text)
    (site / f"{name}.py").write_text(code)
    installed_kinds.cache_clear()


@pytest.mark.long
def test_the_example_is_installed_played_read_without_it_and_asked_about(
    site, command, tmp_path, monkeypatch
):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", site, PLUGIN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.copy(PLUGIN / "terse.yaml", tmp_path)
    played = command("run", "terse.yaml", *SMALL, "--out", "run", "--json")
    assert played.code == 0, played.err
    paths = {
        "judge": "equipoise_terse.judge:Terse",
        "game": "equipoise_terse.game:SecondThoughts",
        "loss": "equipoise_terse.loss:Hinge",
    }
    for path in paths.values():
        assert f"note: runs code that is not Equipoise's: {path}" in played.err
    recorded = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert {key: recorded[key]["kind"] for key in paths} == paths
    assert recorded["judge"]["words"] == 1
    assert played.facts["records"]["pairs"] > 0

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a stranger"))
    with pytest.raises(RunError) as asked:
        equipoise.open_run("run").resume(progress=False)
    assert all(path in str(asked.value) for path in paths.values())

    shutil.rmtree(site)
    installed_kinds.cache_clear()
    assert command("status", "run").code == command("export", "run", "--to", "out").code == 0
    done = command("plan", "terse.yaml")
    assert done.code == 2
    assert "unknown kind 'terse'" in done.err


POLITE = """
from equipoise.judges.pointwise import Pointwise

class Polite(Pointwise):
    kind: str = "polite"
    word: str = "please"

    def score(self, prompt, text):
        return {"score": float(self.word in text)}

def short(prompt, text):
    return -len(text)
"""


def test_a_kind_is_short_for_its_import_path(site):
    install(site, "installed_one", {"equipoise.Judge": {"polite": "installed_one:Polite"}}, POLITE)
    judge = Judge.build({"kind": "polite", "word": "thank"})
    assert judge.settings() == {"kind": "installed_one:Polite", "word": "thank"}
    assert Judge.build(judge.settings()) == judge
    assert Judge.known_kinds()["polite"] == "installed_one:Polite"
    assert "polite" not in Player.known_kinds()


def test_a_function_is_a_judge(site):
    install(site, "installed_one", {"equipoise.Judge": {"short": "installed_one:short"}}, POLITE)
    judge = Judge.build("short")
    assert isinstance(judge, Call)
    assert judge.function == "installed_one:short"


def test_our_own_kinds_cannot_be_taken(site):
    install(site, "installed_one", {"equipoise.Judge": {"exact": "installed_one:Polite"}}, POLITE)
    assert type(Judge.build("exact")).__module__ == "equipoise.judges.rules"


def test_a_kind_of_two_packages_is_refused_with_both_paths(site):
    for name in ("installed_one", "installed_two"):
        install(site, name, {"equipoise.Judge": {"polite": f"{name}:Polite"}}, POLITE)
    with pytest.raises(PydanticCustomError, match="installed_one:Polite or installed_two:Polite"):
        Judge.build("polite")
    assert Judge.build("installed_two:Polite").kind == "installed_two:Polite"


def test_a_plug_in_that_cannot_be_imported_says_why(site):
    group = {"equipoise.Judge": {"broken": "installed_one:Polite"}}
    install(site, "installed_one", group, "raise ValueError('no such key')")
    with pytest.raises(PydanticCustomError, match=r"cannot import.*no such key"):
        Judge.build("broken")
    with pytest.raises(ConfigError, match="did you mean 'broken'"):
        equipoise.plan("quickstart", {"judge": "brokn"})


def test_the_doctor_names_them(site):
    assert machine_checks.plugins() == "none"
    install(site, "installed_one", {"equipoise.Judge": {"polite": "installed_one:Polite"}}, POLITE)
    assert machine_checks.plugins() == "polite (Judge, installed_one:Polite)"
