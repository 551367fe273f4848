"""Runs that are made longer: what they record is what a run of the new length records."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from small_runs import FINITE, SMALL

import equipoise
from equipoise.api import extending
from equipoise.api.play_out import kept
from equipoise.errors import ConfigError, NoSignal
from equipoise.runs.directory import RunDirectory
from equipoise.system.folder import Folder, write_text

pytestmark = pytest.mark.long  # whole runs

TABLES = "prompts matches judgements pairs episodes logprobs players metrics benchmark_scores"
WEIGHTS = ("policy.json", "model.safetensors", "adapter_model.safetensors")


def records(run: Path, order: bool = True) -> dict[str, list]:
    """Every row of a run but what its stages took."""
    with closing(sqlite3.connect(run / "ledger.sqlite")) as db:
        rows = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES.split()}
        rows["stages"] = db.execute("SELECT key, generation, stage, facts FROM stages").fetchall()
    return rows if order else {table: sorted(map(str, found)) for table, found in rows.items()}


def weights(run: Path) -> dict[str, bytes]:
    found = [path for path in (run / "players").rglob("*") if path.name in WEIGHTS]
    return {str(path.relative_to(run)): path.read_bytes() for path in found}


def changes(run: Path) -> list[dict]:
    with RunDirectory.read(run) as opened:
        return json.loads(opened.ledger.meta(extending.CHANGES, "[]"))


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    """An undisturbed run of six generations of a finite game."""
    folder = tmp_path_factory.mktemp("six") / "run"
    equipoise.run(FINITE[0], {"generations": 6}, out=folder, progress=False)
    return folder


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three") / "run"
    equipoise.run(FINITE[0], {"generations": 3}, out=folder, progress=False)
    return folder


@pytest.fixture
def run(three, tmp_path, monkeypatch):
    """A copy of a finished run of three."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(three, tmp_path / "run")


def test_a_finished_run_goes_on(run, six, command):
    done = command("resume", run, "-s", "generations=6")
    assert done.code == 0
    assert done.err == ""
    assert weights(run) == weights(six)
    assert len(weights(run)) >= 6
    unordered = {"prompts"}  # those of the added generations come after what was played
    ours, whole = records(run), records(six)
    for table in ours:
        if table not in unordered:
            assert ours[table] == whole[table], table
    assert sorted(ours["prompts"]) == sorted(whole["prompts"])
    for name in ("config.yaml", "metrics.jsonl"):
        assert (run / name).read_bytes() == (six / name).read_bytes()
    assert changes(run) == [{"setting": "generations", "was": 3, "now": 6}]
    assert command("status", run, "--json").facts["finished"]
    assert command("resume", run).code == 0  # what was changed is no edit
    assert command("check", run).code == 0


@pytest.mark.parametrize(("place", "reached"), [("_note", 3), ("write", 6)])
def test_a_kill_in_between_leaves_the_old_run_or_the_new(run, six, place, reached, monkeypatch):
    """In the middle of the ledger's transaction, or before config.yaml is written."""

    def killed(*values):
        raise SystemExit(9)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(extending if place == "_note" else Folder, place, killed)
        equipoise.open_run(run).resume({"generations": 6}, progress=False)
    assert "generations: 3" in (run / "config.yaml").read_text()
    made = equipoise.open_run(run).resume(progress=False)
    assert made.config.generations == reached
    made.resume({"generations": 6}, progress=False)
    assert weights(run) == weights(six)
    assert records(run, order=False) == records(six, order=False)


def test_prompts_are_dealt_to_added_generations_as_to_all(tmp_path):
    """A language model's run, of whose prompts each generation has its own."""
    overrides = [text for text in SMALL if text != "-s"]
    settings = [text for text in overrides if not text.startswith("generations")]
    long, short = tmp_path / "long", tmp_path / "short"
    equipoise.run("quickstart", [*settings, "generations=2"], out=long, progress=False)
    made = equipoise.run("quickstart", [*settings, "generations=1"], out=short, progress=False)
    made.resume({"generations": 2}, progress=False)
    assert weights(short) == weights(long)
    assert len(weights(long)) == 2
    ours, whole = records(short, order=False), records(long, order=False)
    assert ours.keys() == whole.keys()
    for table in ours.keys() - {"metrics"}:  # they have tokens per second
        assert ours[table] == whole[table], table


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("generations=2", "has 3 generations and can only get more"),
        ("max_unjudged=0.1", "max_unjudged is 0.2 and can only rise"),
        ("seed=3", "seed=3: cannot change.*every choice so far came from it.*generations"),
        ("commit_every=3", "sampled together"),
        ("evaluate.every=3", "would not be comparable"),
        ("evaluate.sets={a: {}}", "equipoise evaluate RUN --on"),
        ("loss.ratio=0.3", "what is recorded depends on it"),
        ("keep=0.5", "keep"),
    ],
)
def test_what_changes_recorded_results_is_refused(run, setting, message, monkeypatch):
    before = (run / "config.yaml").read_bytes()
    with pytest.raises(ConfigError, match=message):
        equipoise.open_run(run).resume([setting], progress=False)
    assert (run / "config.yaml").read_bytes() == before
    assert changes(run) == []


def test_a_stop_says_what_is_kept(run):
    with RunDirectory.read(run) as opened:
        assert kept(opened) == (
            " (24 matches, 24 judgements, 3 trained generations, the last finished stage is 3/measure)"
        )


def _rows(folder: Path, count: int, name: str = "row") -> Path:
    path = folder / "prompts.jsonl"
    rows = [json.dumps({"prompt": f"{name} {n}", "answer": "a"}) for n in range(count)]
    write_text(path, "\n".join(rows) + "\n")
    return path


def _scripted(folder: Path, **settings) -> dict:
    return {
        "generations": 1,
        "players": {"a": {"kind": "scripted", "text": "a"}},
        "prompts": {
            "kind": "files",
            "path": str(folder / "prompts.jsonl"),
            "per_generation": 2,
            "held_out": 2,
        },
        "game": "answers",
        "judge": "exact",
        **settings,
    }


@pytest.mark.parametrize(
    ("rows", "name", "message"),
    [
        (5, "row", "have played the prompts.*need 4, but 3 are.*Add -s prompts.reuse=true, and"),
        (6, "other", "prompts: their source is not as it was.*held-out part"),
    ],
)
def test_added_generations_need_prompts_of_the_same_source(tmp_path, rows, name, message):
    _rows(tmp_path, 5)
    made = equipoise.run(_scripted(tmp_path), out=tmp_path / "run", progress=False)
    _rows(tmp_path, rows, name)
    with pytest.raises(ConfigError, match=message):
        made.resume(["generations=2"], progress=False)
    assert made.config.generations == 1
    assert changes(tmp_path / "run") == []
    made.resume(progress=False)


def trained_on(run: Path) -> list[list[str]]:
    with RunDirectory.read(run) as opened:
        texts = []
        for t in range(opened.config.generations):
            prompts = opened.ledger.prompts("train", t)
            texts.append([prompt.messages[-1].content for prompt in prompts])
        return texts


def test_a_run_that_used_its_prompts_up_plays_them_again_where_it_is_told_to(tmp_path, command):
    _rows(tmp_path, 5)
    out = tmp_path / "run"
    made = equipoise.run(_scripted(tmp_path), out=out, progress=False)
    with pytest.raises(ConfigError, match="can only become true, and only with more generations"):
        made.resume(["prompts.reuse=true"], progress=False)
    done = command("resume", out, "-s", "generations=3", "-s", "prompts.reuse=true")
    assert done.code == 0, done.err
    first, second, third = trained_on(out)
    assert len(first) == len(second) == len(third) == 2
    assert len({*first, *second, *third}) == 3
    assert command("resume", out).code == 0, "the change is what the run has now"
    with RunDirectory.read(out) as run:
        held_out = {prompt.messages[-1].content for prompt in run.ledger.prompts("held_out")}
    assert held_out.isdisjoint({*first, *second, *third})


def test_a_run_that_took_what_is_there_goes_on_with_the_same_prompts_and_says_so(tmp_path, command):
    _rows(tmp_path, 6)
    settings = _scripted(tmp_path)
    settings["prompts"] |= {"per_generation": 100, "held_out": 1, "shrink": True}
    equipoise.run(settings, out=tmp_path / "run", progress=False)
    done = command("resume", tmp_path / "run", "-s", "generations=2")
    assert done.code == 0, done.err
    noted = " ".join(done.err.split())
    assert "those that are added play them again, newly shuffled" in noted
    first, second = trained_on(tmp_path / "run")
    assert sorted(first) == sorted(second)
    assert len(first) == 5
    assert command("resume", tmp_path / "run").code == 0


def test_a_test_that_was_seen_and_a_measurement_off_the_beat_are_noted(tmp_path, capsys):
    _rows(tmp_path, 12)
    settings = _scripted(tmp_path)
    settings["prompts"]["test"] = 2
    settings["evaluate"] = {"kind": "held_out", "every": 2}
    made = equipoise.run(settings, out=tmp_path / "run", progress=False)
    made.resume({"generations": 2}, progress=False)
    noted = " ".join(capsys.readouterr().err.split())
    assert "generation 1 was measured as the last one" in noted
    assert "the test prompts were played after generation 1 already" in noted
    with RunDirectory.read(tmp_path / "run") as run:
        assert [stage.key for stage in run.ledger.stages("select")] == ["1/select", "select"]


def none_of_thirds(prompt, text):
    """A judge that says nothing of a prompt that ends with 0, 3, 6 or 9."""
    return None if prompt.endswith(("0", "3", "6", "9")) else float(len(text))


def test_a_stage_with_too_much_unjudged_goes_on_with_a_larger_share(tmp_path):
    _rows(tmp_path, 12)
    judge = {"kind": "call", "function": f"{__name__}:none_of_thirds"}
    settings = _scripted(tmp_path, judge=judge, max_unjudged=0.1)
    folder = tmp_path / "run"
    with pytest.raises(NoSignal, match="max_unjudged"):
        equipoise.run(settings, out=folder, progress=False)
    equipoise.open_run(folder).resume({"max_unjudged": 1.0}, progress=False)
    assert changes(folder) == [{"setting": "max_unjudged", "was": 0.1, "now": 1.0}]


def test_fewer_answers_at_once_after_memory_ran_out(command, tmp_path):
    """A run of a model goes on with another batch size; what is recorded stays, and it is said."""
    run = tmp_path / "run"
    assert command("run", "quickstart", "--out", run, *SMALL, "-s", "policy.batch_size=8").code == 0
    before = records(run)["matches"]
    done = command("resume", run, "-s", "generations=2", "-s", "policy.batch_size=3")
    assert done.code == 0, done.err
    assert "policy.batch_size: what is recorded stays" in " ".join((done.out + done.err).split())
    with RunDirectory.read(run) as opened:
        assert opened.config.players["policy"].batch_size == 3
    assert records(run)["matches"][: len(before)] == before
    assert [change for change in changes(run) if "batch_size" in str(change)]
    with RunDirectory.open(run) as opened, pytest.raises(ConfigError, match="cannot change once"):
        extending.change_settings(opened, ["learner.batch_size=3"])
