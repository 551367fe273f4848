"""A stranger's run is read without executing anything of theirs, and played only with consent;
one's own run is never asked about.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
import yaml
from run_verbs import DOORS, READERS, WITHOUT_RUNS
from small_runs import FINITE, settings

import equipoise
from equipoise import cli
from equipoise.api.handle import ask_for_trust
from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.sets.base import Benchmark
from equipoise.judges.base import Judge
from equipoise.ledger.ledger import Ledger
from equipoise.players.local import Local
from equipoise.report import best_responses
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.sets import as_trained
from equipoise.runs.open_run import OpenRun
from equipoise.serve.settings import game_of
from equipoise.system.effects import with_whole_paths
from equipoise.system.plugins import plugin_table

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
    assert "mine" not in sys.modules
    assert len(sys.path) == before


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
    (run / "players" / "policy" / "1" / "adapter_config.json").write_text("{}")
    for options in DOORS.values():
        done = command(*(str(option).format(run=run) for option in options))
        assert done.code == 2
        assert "--trust" in done.err
        for named in (
            "mine:Mine",
            "mine:answer",
            "the key in A_KEY to http://127.0.0.1:9, unencrypted",
        ):
            assert named in done.err
        assert "secret" not in done.err
    assert not (run.parent / "executed").exists()
    done = command("resume", run, "--directory", ".", "--trust")
    # named before it is imported
    assert done.code == 0
    assert "mine:Mine" in done.err
    assert (run.parent / "executed").exists()
    assert command("resume", run).code == 0  # what was agreed to is remembered


def test_ones_own_run_is_not_asked_about(begun, command, monkeypatch):
    monkeypatch.chdir(begun.parent)
    done = command("resume", "run")
    assert done.code == 0
    assert "note: sends texts and the key in A_KEY to http://127.0.0.1:9" in done.err


def test_a_run_that_was_changed_on_the_way_is_a_strangers(begun, monkeypatch):
    """Another host for the same key, which an edited configuration may have."""
    config = begun / "config.yaml"
    config.write_text(config.read_text().replace("127.0.0.1:9", "127.0.0.2:9"))
    with pytest.raises(RunError, match=r"A_KEY to http://127\.0\.0\.2:9"):
        equipoise.open_run(begun).resume(progress=False)
    where = "players.paid.base_url"
    same = {where: "http://127.0.0.1:9/v1"}
    equipoise.open_run(begun, trust=True).resume(same, progress=False)
    equipoise.open_run(begun).resume(progress=False)


def test_a_recipe_says_what_it_runs_before_it_does(command, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text("raise SystemExit(7)\n")
    done = command("plan", *FINITE, "-s", "training_ratings=mine:Mine")
    assert done.code == 2
    assert "SystemExit" in done.err
    assert "note: runs code that is not Equipoise's: mine:Mine" in done.err


def alter(run: Path, **changes: object) -> Path:
    """The run with these settings in its configuration and its ledger, as from the start."""
    recorded = yaml.safe_load((run / "config.yaml").read_text())
    for key, value in changes.items():
        *path, last = key.split("__")
        inner = recorded
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = value
    (run / "config.yaml").write_text(yaml.safe_dump(recorded, sort_keys=False))
    with Ledger.open(run / "ledger.sqlite") as ledger:
        ledger.note("settings", json.dumps(recorded))
    return run


@pytest.fixture
def harmless(tmp_path, monkeypatch):
    """A finished run without any effect."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    options = {"generations": 1}
    return equipoise.run(FINITE[0], options, out="run", progress=False).path


LAUNCH = {"num_processes": 1, "deepspeed_config_file": "theirs.json"}
LEARNER = {"kind": "preference", "launch": {"config": LAUNCH}}
MEETS = {"num_processes": 2, "main_process_ip": "evil", "main_process_port": 29500}
MEETING = {"kind": "preference", "launch": {"config": MEETS}}
WRITER = {"kind": "scripted", "text": "well"}
WRITERS = {
    "kind": "two_writers",
    "writer": WRITER,
    "matrix_writer": WRITER,
    "matrix_text": "../secret.txt",
}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learner": MEETING}, "joins the processes at evil:29500 (learner.launch.config"),
        ({"players__guest": WRITERS}, "reads {there}/secret.txt (players.guest.matrix_text)"),
        ({"learner": LEARNER}, "passes on to accelerate: " + json.dumps(LAUNCH)),
        (
            {"prompts": {"kind": "files", "path": "../secret.txt"}},
            "reads the data {there}/secret.txt (prompts.path)",
        ),
        ({"judge": {"kind": "call", "function": "os:system"}}, "Equipoise's: os:system"),
        (
            {"judge": {"kind": "call", "function": "equipoise.py:answer"}},
            "Equipoise's: equipoise.py:answer",
        ),
        ({"ledger": "/dev/shm/ledger"}, "writes /dev/shm/ledger (ledger)"),
        ({"report_to": ["tensorboard"]}, "to the tracker tensorboard (report_to)"),
    ],
    ids=[
        "rendezvous",
        "template",
        "launch",
        "file",
        "function",
        "function in a file",
        "ledger",
        "tracker",
    ],
)
def test_a_strangers_run_asks_about_every_effect(harmless, monkeypatch, changes, named):
    (harmless.parents[1] / "secret.txt").write_text("my secret")
    run = alter(as_a_stranger(harmless, monkeypatch), **changes)
    with pytest.raises(RunError, match="was not begun here by you") as refused:
        equipoise.open_run(run).resume(progress=False)
    assert named.replace("{there}", str(harmless.parents[1])) in str(refused.value)
    assert not (run.parent / "executed").exists()


def test_the_game_of_a_strangers_run_reads_nothing(harmless, monkeypatch):
    run = alter(as_a_stranger(harmless, monkeypatch), game={"kind": "assistance", "text": "../s"})
    with pytest.raises(RunError, match=r"reads .*/s \(game.text\)"):
        game_of(str(run), trust=False)


def test_a_league_is_rated_anew_with_consent_alone(begun, command, monkeypatch):
    run = alter(as_a_stranger(begun, monkeypatch), evaluate={"kind": "held_out"})
    done = command("rate", run, "--of", "league")
    assert done.code == 2
    assert "--trust" in done.err


def test_another_run_is_read_for_its_owner_alone(harmless, monkeypatch):
    """A run may name its exploiters' runs, and a stranger's could name any."""
    asked = []
    monkeypatch.setattr(best_responses, "is_run", lambda place: asked.append(place) or False)
    pointer = harmless / best_responses.FOLDER / f"policy@1.a{best_responses.POINTER}"
    pointer.parent.mkdir()
    pointer.write_text("/elsewhere")
    with RunDirectory.read(harmless) as run:
        assert list(best_responses.best_responses(run)) == []
    assert len(asked) == 1
    there = as_a_stranger(harmless, monkeypatch)
    with RunDirectory.read(there) as run:
        assert list(best_responses.best_responses(run)) == []
    assert len(asked) == 1


def test_players_open_from_any_folder_as_they_are_named(tmp_path, monkeypatch):
    (tmp_path / "home" / "mine").mkdir(parents=True)
    (tmp_path / "there" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "there")
    named = Local(model="mine")
    assert with_whole_paths(named, tmp_path / "home").model == str(tmp_path / "home" / "mine")
    for model in ("owner/name", "builtin/beginner"):
        assert with_whole_paths(Local(model=model), tmp_path / "home").model == model


def test_judges_open_from_any_folder_as_they_are_named(harmless, monkeypatch):
    """The files that a question to the user names are opened, not the current folder's."""
    model = {"kind": "local", "model": "weights"}
    judge = {"kind": "rubric", "model": model, "text": "mine.txt"}
    panel = {"kind": "panel", "judges": {"first": judge, "second": "gold"}}
    there = harmless.parent / "there"
    for folder in (harmless.parent, there):
        (folder / "weights").mkdir(parents=True)
        (folder / "mine.txt").write_text("{prompt} {answer}")
    alter(harmless, judge=judge)
    with RunDirectory.read(harmless) as run:
        named = run.config.judge
        assert run.from_anywhere(named) is named
        assert as_trained(run)["judge"] == named.settings()
        monkeypatch.chdir(there)
        whole = Judge.model_validate(as_trained(run)["judge"])
        for each in (whole, run.from_anywhere(Judge.model_validate(panel)).judges["first"]):
            assert each.text == str(harmless.parent / "mine.txt")
            assert each.model.model == str(harmless.parent / "weights")
        run.config.players["policy"] = Local(model="weights")
        opened = OpenRun(run).population.players["policy"]
        assert opened.model == str(harmless.parent / "weights")


def test_a_strangers_run_without_effects_is_not_asked_about(harmless, command, monkeypatch):
    run = as_a_stranger(harmless, monkeypatch)
    done = command("resume", run)
    assert done.code == 0, done.err


def test_a_file_of_ones_own_and_a_keyless_endpoint_are_named_together(begun, monkeypatch):
    endpoint = {"kind": "endpoint", "base_url": "https://elsewhere/v1", "model": "m"}
    run = as_a_stranger(begun, monkeypatch)
    alter(run, prompts__path="~/.netrc", prompts__kind="files", players__paid=endpoint)
    monkeypatch.setenv("HOME", "/home/me")
    with pytest.raises(RunError) as refused:
        equipoise.open_run(run).resume(progress=False)
    assert "reads the data /home/me/.netrc (prompts.path)" in str(refused.value)
    assert "sends texts to https://elsewhere\n" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"base_url": "https://127.0.0.1:9/v1"}, "the key in A_KEY to https://127.0.0.1:9\n"),
        ({"replicas": ["http://127.0.0.3:9"]}, "A_KEY to http://127.0.0.3:9, unencrypted"),
        ({"api_key_env": "OTHER"}, "the key in OTHER to http://127.0.0.1:9"),
    ],
    ids=["scheme", "replica", "variable"],
)
def test_where_a_key_goes_is_signed_with_its_scheme(begun, change, note):
    alter(begun, **{f"players__paid__{key}": value for key, value in change.items()})
    with pytest.raises(RunError, match="was not begun here by you") as refused:
        equipoise.open_run(begun).resume(progress=False)
    assert note in str(refused.value)


def test_what_lies_in_the_runs_folder_is_no_effect_and_a_link_is_refused(harmless, monkeypatch):
    run = as_a_stranger(harmless, monkeypatch)
    mine = run.parent / "mine.txt"
    mine.write_text("my secret")
    (run / "own.txt").write_text("theirs")
    paths = [str(mine), str(run / "own.txt")]
    alter(run, prompts={"kind": "files", "path": paths})
    with pytest.raises(RunError) as refused:
        equipoise.open_run(run).resume(progress=False)
    assert f"reads {mine} (prompts.path)" in str(refused.value)
    assert "own.txt" not in str(refused.value)
    (run / "prompts.txt").symlink_to(mine)
    with pytest.raises(RunError, match=r"prompts\.txt: is a link"):
        equipoise.open_run(run).resume(progress=False)


def test_a_runs_own_configuration_reads_no_other_file(harmless, monkeypatch):
    run = as_a_stranger(harmless, monkeypatch)
    config = run / "config.yaml"
    before = config.read_text()
    config.write_text(f"extends: {run.parent}/secret.yaml\n{before}")
    with pytest.raises(ConfigError, match="extends"):
        equipoise.open_run(run).status()
    config.write_text(before)
    alter(run, learner={"kind": "preference", "launch": {"config": "secret.yaml"}})
    (run.parent / "secret.yaml").write_text("num_processes: 1\n")
    with pytest.raises(ConfigError, match="names no file"):
        equipoise.open_run(run).resume(progress=False)


def test_a_set_that_the_ledger_names_is_read_again_with_consent_alone(harmless, monkeypatch):
    answers = harmless.parent / "answers.jsonl"
    judge = {"kind": "call", "function": "theirs:score"}
    settings = {"kind": "alpaca_eval", "path": str(answers), "judge": judge}
    with RunDirectory.read(harmless) as run:  # which is one's own
        assert run.recorded_part(Benchmark, settings, "set").kind == "alpaca_eval"
    there = as_a_stranger(harmless, monkeypatch)
    with RunDirectory.read(there) as run, pytest.raises(RunError) as refused:
        run.recorded_part(Benchmark, settings, "set")
    assert f"reads {answers} (path)" in str(refused.value)
    with RunDirectory.read(there, trust=True) as run:
        run.recorded_part(Benchmark, settings, "set")
    assert "theirs" not in sys.modules


def test_ones_own_run_asks_nothing_and_says_little(tmp_path, command, monkeypatch):
    """Files of one's own, in a folder that was moved since."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    lines = (json.dumps({"prompt": f"question {i}"}) for i in range(20))
    (home / "prompts.jsonl").write_text("\n".join(lines))
    options = settings(
        generations=0,
        prompts="{kind: files, path: prompts.jsonl, held_out: 4}",
        judge="shorter",
        game="answers",
        players__policy="{kind: scripted, text: well}",
    )
    begun = command("run", "quickstart", *options, "--out", "run")
    assert begun.code == 0 and "reads" not in begun.err, begun.err
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert "reads the data " in command("resume", "run").err
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    done = command("resume", "run")
    assert done.code == 0 and "reads" not in done.err, done.err


def test_every_verb_is_known_to_take_a_run_or_not():
    doors = {options[0] if options[0] != "red-team" else options[1] for options in DOORS.values()}
    games = [verb for verbs in plugin_table("COMMANDS").values() for verb in verbs]
    assert {*cli.VERBS, *games} == doors | {*READERS} | {*WITHOUT_RUNS}


def test_a_person_at_a_terminal_is_asked_once_about_a_strangers_run(begun, monkeypatch, capsys):
    run, asked, answers = as_a_stranger(begun, monkeypatch), [], iter([True, False])

    def confirm(question, err):
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(typer, "confirm", confirm)
    terminal = SimpleNamespace(isatty=lambda: True)
    # nobody sits there
    assert ask_for_trust(run, False) is False
    assert not asked
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", terminal.isatty, raising=False)
    assert ask_for_trust(run, True) is True
    assert not asked
    assert ask_for_trust(run.parent / "none", False) is False
    assert not asked
    assert [ask_for_trust(run, False) for _ in range(2)] == [True, False]
    assert asked == ["Do you trust it?"] * 2
    monkeypatch.setenv("XDG_STATE_HOME", str(begun.parents[1] / "state"))
    # one's own
    assert ask_for_trust(begun, False) is False
    assert len(asked) == 2
    assert f"{run} was not begun here by you. It\n  " in capsys.readouterr().err
