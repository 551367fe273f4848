"""The Python door: what `import equipoise` offers, and what a run gives to read."""

import os
import pickle
import subprocess
import sys
from importlib.util import find_spec

import pyarrow
import pytest

import equipoise
from equipoise.api import play_out as playing
from equipoise.api.handle import PARTS, Run
from equipoise.errors import ConfigError, RunError, Stopped
from equipoise.judges.pointwise import Pointwise
from equipoise.ledger import frames
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory

SMALL = {
    "generations": 1,
    "prompts": {"per_generation": 12, "held_out": 8},
    "evaluate.samples": 5,  # of each match the answers of all five seats
    "learner.epochs": 0.5,
}


class Polite(Pointwise):
    """1 where the answer says please."""

    kind: str = "polite"

    def score(self, prompt, text):
        return {"score": float("please" in text.lower()), "length": float(len(text))}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door") / "run"
    return equipoise.run("quickstart", SMALL, out=folder, progress=False)


@pytest.mark.long
def test_importing_is_light_and_run_is_both_package_and_function():
    code = (
        "import sys, equipoise; equipoise.recipes(); assert callable(equipoise.run)\n"
        "import equipoise.runs.loop\n"
        "from equipoise.runs.config import RunConfig\n"
        "assert callable(equipoise.run) and callable(equipoise.recipes)\n"
        "assert equipoise.runs.loop.league and equipoise.open_run\n"
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'datasets')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_pickles_by_name():
    assert pickle.loads(pickle.dumps(equipoise.run)) is equipoise.run
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        equipoise.rum  # noqa: B018


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ({"policy.temperature": 0.5}, ["policy.temperature=0.5"]),
        ({"loss": "dpo"}, ["loss=dpo"]),
        ({"loss": {"eta": 0.2}}, ["loss.eta=0.2"]),
        ({"prompts": {"held_out": 9}}, ["prompts.held_out=9"]),
        ({"policy": {"max_new_tokens": 8}}, ["players.policy.max_new_tokens=8"]),
        ({"evaluate": {"samples": 3}}, ["evaluate.samples=3"]),
    ],
    ids=str,
)
def test_settings_mean_what_the_command_means(settings, texts):
    own = recipe_loader.load("quickstart", settings)
    assert own == recipe_loader.load("quickstart", texts)
    assert own == recipe_loader.load({"extends": "quickstart", **_nested(settings)})


def _nested(settings):
    """The settings without dots and with players below `players`, as YAML has them."""
    nested = {}
    for key, value in settings.items():
        name, _, inner = key.partition(".")
        value = {inner: value} if inner else value
        nested |= {"players": {name: value}} if name == "policy" else {name: value}
    return nested


def test_a_fault_names_the_setting():
    with pytest.raises(ConfigError, match=r"settings\['loss'\].*did you mean 'eta'"):
        recipe_loader.load("quickstart", {"loss": {"etta": 1}})
    with pytest.raises(ConfigError, match=r"settings\['loss.eta'\]: loss.eta"):
        recipe_loader.load("quickstart", {"loss.eta": "much"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["quickstart"],), "mapping.* list"),
        (("quickstart", "generations=2"), "'generations=2': must be a mapping"),
    ],
)
def test_arguments_of_another_type(arguments, words):
    with pytest.raises(ConfigError, match=words):
        equipoise.plan(*arguments)


@pytest.mark.long
def test_a_part_that_no_run_has(run):
    for rows in (run.matches, run.judgements):
        with pytest.raises(ConfigError, match=r"heldout: .*train or held_out"):
            rows("heldout")


def test_a_part_may_be_given_as_itself_or_its_class():
    by_class = recipe_loader.load("quickstart", {"judge": Polite})
    by_instance = recipe_loader.load("quickstart", {"judge": Polite.model_validate({})})
    assert by_class == by_instance
    assert by_class.judge.kind == f"{__name__}:Polite"


@pytest.mark.long
def test_the_run_says_what_it_is(run):
    assert repr(run).startswith("Run 'quickstart' in ")
    assert "finished, 1 of 1 generations; policy@1 scores" in repr(run)
    assert "<td>policy@1</td>" in run._repr_html_()
    assert run.status()["finished"]
    assert run.config.generations == 1
    assert run.report() == run.path / "report.html"
    assert repr(equipoise.open_run(run.path)) == repr(run)
    with pytest.raises(RunError, match="no run here"):
        equipoise.open_run(run.path / "players")


@pytest.mark.long
def test_the_frames_agree_with_each_other_and_with_what_was_measured(run):
    pytest.importorskip("pandas")
    measures, judgements = run.measures(), run.judgements("held_out")
    judgements = judgements[judgements.judge == "clerk"]  # another test has it judged anew
    assert list(measures.player) == ["policy@0", "policy@1"]
    assert (measures.score_low <= measures.score).all()
    assert (measures.score <= measures.score_high).all()
    by_player = judgements.groupby("player").score.mean()
    assert dict(by_player) == pytest.approx(dict(zip(measures.player, measures.score, strict=True)))
    matches = run.matches()
    assert set(matches.split) == {"train", "held_out", "benchmark"}
    both = matches.merge(judgements, on=["match", "seat"])
    assert len(both) == len(judgements) == len(run.matches("held_out"))
    assert (both.answer_x == both.answer_y).all()
    assert set(run.matches("held_out", generation=1).player) == {"policy@1"}
    pairs = run.pairs()
    assert len(pairs)
    assert (pairs.score_chosen > pairs.score_rejected).all()
    ratings = run.ratings()
    assert set(ratings.by) == {"league"}
    assert set(ratings.player) == {"policy@0", "policy@1"}


@pytest.mark.long
def test_without_pandas_they_are_tables_and_without_both_one_message(run, monkeypatch):
    absent = {"pandas"}
    monkeypatch.setattr(
        frames, "find_spec", lambda name: None if name in absent else find_spec(name)
    )
    table = run.measures()
    assert isinstance(table, pyarrow.Table)
    assert table["player"].to_pylist() == ["policy@0", "policy@1"]
    assert run.matches("test").num_rows == 0
    absent.add("pyarrow")
    with pytest.raises(ValueError, match="pip install pandas pyarrow"):
        run.pairs()


@pytest.mark.long
def test_an_own_judge_and_an_own_rating_look_anew(run):
    rejudgement = run.rejudge(Polite, generation=1, progress=False)
    assert rejudgement.matches == 8
    assert set(rejudgement.scores) == {"policy@1"}
    judgements = run.judgements("held_out", 1)
    assert set(judgements.judge) == {"clerk", rejudgement.judge}
    assert "utility_length" in judgements
    rerating = run.rerate("elo", {"k": 8}, of="league")
    assert {rating.name for rating in rerating.ratings[0]} == {"policy@0", "policy@1"}
    with pytest.raises(ConfigError, match=r"--of both: .*matches or league"):
        run.rerate(of="both")
    with pytest.raises(ConfigError, match="--part some: must be train"):
        run.rejudge("clerk", part="some")


@pytest.mark.long
def test_reading_runs_no_code_of_the_configuration(run, tmp_path):
    foreign = tmp_path / "run"
    foreign.mkdir()
    for name in ("config.yaml", "ledger.sqlite"):
        (foreign / name).write_bytes((run.path / name).read_bytes())
    text = (foreign / "config.yaml").read_text()
    assert "kind: clerk\n" in text
    (foreign / "config.yaml").write_text(text.replace("kind: clerk\n", "kind: not_here:Judge\n"))
    opened = equipoise.open_run(foreign)
    assert "policy@1 scores" in repr(opened)
    count = sum(len(run.judgements(part)) for part in PARTS)
    assert len(opened.judgements()) == count
    assert opened.config.judge.kind == "not_here:Judge"  # a stand-in
    assert opened.status()["finished"]
    with pytest.raises(ConfigError, match="cannot import 'not_here:Judge'"):
        equipoise.open_run(foreign, trust=True).config  # noqa: B018


@pytest.mark.long
def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    settings = {"generations": 3}
    league = playing.league
    monkeypatch.setattr(playing, "league", stop)
    with pytest.raises(Stopped, match=r"equipoise\.open_run\(.*\)\.resume\(\)"):
        equipoise.run("rock_paper_scissors", settings, tmp_path / "run", progress=False)
    monkeypatch.setattr(playing, "league", league)
    run = Run(tmp_path / "run")
    assert "unfinished, 0 of 3" in repr(run)
    assert "finished, 3 of 3" in repr(run.resume(progress=False))
    assert len(run.measures()) == 4
    with RunDirectory.open(run.path):
        assert ": running," in repr(run)
        with pytest.raises(RunError, match="in use by another process"):
            run.resume()


@pytest.mark.long
def test_out_is_what_the_command_gives(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = equipoise.run("rock_paper_scissors", {"generations": 1})
    assert run.path == tmp_path / "runs" / "rock_paper_scissors"
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\r" not in shown
    named = equipoise.run({"extends": "rock_paper_scissors", "name": "own"}, ["generations=1"])
    assert named.path == tmp_path / "runs" / "own"
    assert os.path.relpath(named.path) in repr(named)
