"""Tasks of lm-eval as a set of a recipe and of `equipoise evaluate`, by a small stand-in for the
library; and, where lm-eval is installed, by lm-eval itself.
"""

import sys

import pytest

import equipoise
from equipoise.errors import ConfigError
from equipoise.evaluation.sets.base import Benchmark
from equipoise.evaluation.sets.lm_eval_set import LmEvalSet
from equipoise.ledger.benchmark_results import results
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.results import set_criterion
from equipoise.runs.named_sets.set_plan import plan_sets
from equipoise.types import PlayerId

ARC = {"kind": "lm_eval", "tasks": ["arc_easy"], "limit": 20, "part": "dev"}


def recipe(sets, **more):
    """Two players that stay as they are; everyone is asked the sets."""
    return {
        "name": "measured",
        "generations": 0,
        "players": {"policy": {"kind": "local", "model": "builtin", "device": "cpu"}},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": "answers",
        "judge": "exact",
        "evaluate": {"kind": "sets", "sets": sets},
        **more,
    }


def recorded(run):
    with RunDirectory.read(run.path) as directory:
        return results(directory.ledger)


@pytest.mark.long
def test_a_recipe_names_tasks_as_sets(lm_eval_library):
    several = {"kind": "lm_eval", "tasks": "arc_*", "num_fewshot": 2}
    run = equipoise.run(recipe({"easy": ARC, "both": several}), out="run", progress=False)
    found = {result.name: result for result in recorded(run)}
    assert sorted(found) == ["both/arc_challenge", "both/arc_easy", "easy"]
    easy = found["easy"]
    assert (easy.player, easy.benchmark, easy.part) == ("policy@0", "arc_easy", "dev")
    assert (easy.headline, easy.score.mean, easy.n) == ("acc", 0.5, 5)
    assert easy.source.startswith("lm_eval ")
    assert easy.settings["limit"] == 20
    assert found["both/arc_easy"].settings["num_fewshot"] == 2
    assert set(run.benchmarks()["set"]) == set(found)
    assert "both/arc_challenge" in run.report().read_text()
    with RunDirectory.read(run.path) as directory:
        named_set = directory.config.evaluate.sets["easy"]
        criterion = set_criterion(directory.ledger, "easy", named_set)
    assert criterion.chosen == PlayerId("policy")


@pytest.mark.long
def test_on_and_harness_measure_the_same(lm_eval_library, monkeypatch):
    given = {"kind": "lm_eval", "tasks": ["arc_easy"], "limit": 3}
    run = equipoise.evaluate("builtin", given, out="run", progress=False)
    [by_set] = recorded(run)
    assert by_set.name == "arc_easy"
    [by_harness] = run.evaluate_by_harness(given)
    assert by_harness.metrics == by_set.metrics

    def refuse(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(LmEvalSet, "measure", refuse)
    assert run.evaluate(given, progress=False) == [by_set]
    monkeypatch.undo()


@pytest.mark.long
def test_a_sweep_of_a_set_is_a_table(lm_eval_library):
    sweep = {"num_fewshot": [0, 5]}
    run = equipoise.evaluate("builtin", ARC, out="run", sweep=sweep, progress=False)
    names = [result.name for result in recorded(run)]
    assert names == ["arc_easy[num_fewshot=0]", "arc_easy[num_fewshot=5]"]
    assert "num_fewshot = 5" in run.report().read_text()


def test_a_task_that_lm_eval_lacks_is_said_before_anything_is_asked(lm_eval_library):
    unknown = {"kind": "lm_eval", "tasks": ["arc_eazy"]}
    with pytest.raises(ConfigError, match=r"no task 'arc_eazy'; did you mean 'arc_easy'"):
        equipoise.evaluate("builtin", unknown, out="run", progress=False)


def test_a_player_without_weights_is_said_when_the_recipe_is_checked(lm_eval_library):
    players = {"fixed": {"kind": "scripted", "text": "yes"}}
    with pytest.raises(ConfigError, match="easy: fixed@0: a harness loads weights"):
        equipoise.run(recipe({"easy": ARC}, players=players), out="run", progress=False)


def test_without_lm_eval_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(ConfigError, match=r"easy: lm-eval is not installed.*pip install"):
        equipoise.run(recipe({"easy": ARC}), out="run", progress=False)


@pytest.mark.parametrize(
    ("setting", "instead"),
    [
        ({"temperature": 0.5}, "gen_kwargs: {temperature"),
        ({"max_new_tokens": 9}, "max_gen_toks"),
        ({"samples": 2}, "how often they sample"),
        ({"judge": "exact"}, "rules of their own"),
    ],
)
def test_settings_that_lm_eval_does_not_take_are_refused(setting, instead):
    with pytest.raises(ConfigError) as raised:
        recipe_loader.component(Benchmark, {**ARC, **setting}, (), "--on")
    assert next(iter(setting)) in str(raised.value)
    assert instead in str(raised.value)


def test_nobody_is_chosen_by_several_tasks():
    several = {**ARC, "tasks": ["arc_*"]}
    measured = {"kind": "held_out", "sets": {"arc": several}, "select_by": "arc"}
    with pytest.raises(ConfigError, match="'arc' has several tasks of lm-eval"):
        prompts = {"kind": "blank", "per_generation": 1, "held_out": 1}
        recipe_loader.build(recipe({}, evaluate=measured, prompts=prompts), "test")


def test_a_plan_names_the_tasks():
    [plan] = plan_sets(recipe_loader.build(recipe({"easy": ARC}), "test"), 1)
    assert plan.text() == "lm-eval's arc_easy × 1 players and generations"


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        ("truthfulqa", "tasks: [truthfulqa_mc2]"),
        ("multiple_choice", "judge: choice"),
        ("mt_bench", "import-scores --from mt_bench"),
    ],
)
def test_a_kind_that_went_says_what_to_write(kind, instead):
    with pytest.raises(ConfigError) as raised:
        recipe_loader.component(Benchmark, kind, (), "--on")
    assert f"unknown kind '{kind}'" in str(raised.value)
    assert instead in str(raised.value)


@pytest.mark.slow
def test_lm_eval_itself_measures_a_set_of_a_recipe(lm_eval_python, lm_eval_tasks, monkeypatch):
    monkeypatch.chdir(lm_eval_tasks)
    tiny = {"kind": "lm_eval", "tasks": ["tiny_choices"], "include_path": str(lm_eval_tasks)}
    tiny["python"] = None if lm_eval_python == sys.executable else lm_eval_python
    run = equipoise.run(recipe({"tiny": tiny}), out="run", progress=False)
    [result] = recorded(run)
    assert (result.name, result.benchmark, result.n) == ("tiny", "tiny_choices", 3)
    assert result.metrics["acc"].low is not None
    assert result.key
