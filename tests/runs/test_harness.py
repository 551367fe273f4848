"""Scores of other programs beside a run: imported, and measured by the program."""

import json
import shutil
import sys
import time
from typing import Literal

import pytest

from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.harnesses.base import Harness, Measured, Prepared, Scores
from equipoise.ledger import benchmark_results
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores
from equipoise.planning.new_run import new_run
from equipoise.players.base import TokenScorer
from equipoise.players.population import Population
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets import results as benchmarks
from equipoise.runs.named_sets.harness import measure_by_harness
from equipoise.types import PlayerId


@pytest.fixture
def folder(tmp_path):
    """A run that has not begun."""
    config = recipe_loader.load("rock_paper_scissors", {"generations": 1})
    with new_run(config, tmp_path / "run") as run:
        return run.folder


@pytest.fixture
def player(folder):
    with RunDirectory.read(folder) as run:
        return next(iter(run.settings["players"]))


def recorded(folder) -> list[BenchmarkResult]:
    with RunDirectory.read(folder) as run:
        return benchmark_results.results(run.ledger)


def results(value: float, version: str = "0.4.13") -> str:
    task = {"acc,none": value, "acc_stderr,none": 0.1}
    document = {
        "results": {"arc_easy": task},
        "n-samples": {"arc_easy": {"effective": 20}},
        "lm_eval_version": version,
    }
    return json.dumps(document)


@pytest.mark.long
def test_imported_scores_lie_beside_the_run(command, folder, player, tmp_path):
    file = tmp_path / "results.json"
    file.write_text(results(0.6))
    target = f"{folder}@{player}"
    options = ("--from", "lm_eval", "--json")
    [first] = command("import-scores", target, file, *options).facts
    assert first["player"] == f"{player}@0"
    assert first["source"] == "lm_eval 0.4.13"
    command("import-scores", target, file, *options)  # again: nothing new
    [result] = recorded(folder)
    assert result.metrics["acc"].mean == 0.6
    file.write_text(results(0.7))
    command("import-scores", target, file, *options)  # other numbers: shown instead
    [result] = recorded(folder)
    assert result.metrics["acc"].mean == 0.7
    command("import-scores", target, file, *options, "--name", "arc of the start")
    assert [result.name for result in recorded(folder)] == ["arc_easy", "arc of the start"]


@pytest.mark.long
def test_what_cannot_be_imported_is_one_message(command, folder, player, tmp_path):
    file = tmp_path / "results.json"
    file.write_text(results(0.6))
    for target, source, message in (
        (f"{folder}@nobody", "lm_eval", "no player 'nobody'"),
        (f"{folder}@{player}@7", "lm_eval", "no generation '7'"),
        (str(folder), "lm_eval", "name whose scores they are"),
        (f"{folder}@{player}", "lm_evil", "--from lm_evil"),
        (f"{folder}@{player}", "inspect", "is not a log of Inspect"),
        (f"{tmp_path}/none@{player}", "lm_eval", "no run here"),
    ):
        result = command("import-scores", target, file, "--from", source)
        assert result.code == 2 and message in result.err, result.err
    assert not recorded(folder)


@pytest.mark.long
def test_a_harness_that_cannot_be_used_is_one_message(command, folder, tmp_path):
    missing = tmp_path / "python"
    by = ("evaluate", folder, "--harness", "lm_eval")
    for arguments, message in (
        (by, "--harness lm_eval needs --tasks"),
        (("evaluate", folder, "--tasks", "arc_easy"), "belongs to a harness"),
        (("evaluate", folder), "name what to measure on"),
        ((*by, "--tasks", "a", "--on", "gsm8k"), "are for sets"),
        ((*by, "--tasks", "a", "--harness-args", "shots=5"), "num_fewshot"),
        ((*by, "--tasks", "a", "--include-path", missing), "is no folder"),
        ((*by, "--tasks", "a", "--harness-python", missing), "cannot be run"),
        (("evaluate", folder, "--harness", "lm-eval", "--tasks", "a"), "lm_eval"),
    ):
        result = command(*arguments)
        assert result.code == 2 and message in result.err, result.err


def test_an_environment_without_the_harness_says_what_to_install(command, folder):
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if python is None:
        pytest.skip("there is no Python of the system, which would lack lm-eval")
    by = ("--harness", "lm_eval", "--tasks", "a", "--harness-python", python)
    result = command("evaluate", folder, *by)
    assert result.code == 2
    assert f"not installed in {python}" in result.err
    assert "equipoise[lm-eval]" in result.err


class Counting(Harness):
    """A harness whose score is the length of the model's address."""

    kind: Literal["counting"] = "counting"
    version: str = "1"

    def prepare(self):
        return Prepared(f"counting {self.version}", {"tasks": self.tasks, "limit": self.limit})

    def measure(self, model, replies):
        assert replies.parent.is_dir()  # where it may keep what the model replied
        replies.with_name(f"{replies.name}-replies.txt").write_text(model.model)
        result = BenchmarkResult(
            name="length",
            benchmark="length",
            source="counting",
            metrics={"length": Estimate(float(len(model.model)), None, None, 1)},
            headline="length",
            n=1,
        )
        item = ItemScores(item="one", values={"length": float(len(model.model))})
        return Measured([Scores(result, [item])], {"model": model.model, "dtype": model.dtype})


@pytest.fixture
def run_of_a_model(tmp_path):
    """A run that has not begun, of the packaged model and one of fixed words."""
    players = {
        "policy": {"kind": "local", "model": "builtin", "device": "cpu", "precision": "fp32"},
        "fixed": {"kind": "scripted", "text": "yes"},
    }
    prompts = {"kind": "blank", "per_generation": 1, "held_out": 0}
    values = {"generations": 0, "players": players, "prompts": prompts, "evaluate": "sets"}
    config = recipe_loader.build({**values, "game": "answers", "judge": "exact"}, "test")
    with new_run(config, tmp_path / "run") as run:
        yield run


def test_what_a_harness_measured_is_recorded_once_with_its_own_results(run_of_a_model):
    run, policy, began = run_of_a_model, PlayerId("policy"), time.perf_counter()
    harness = Counting(tasks=("length",))
    [result] = measure_by_harness(run, [policy], harness)
    mean = result.metrics["length"].mean
    assert (result.player, result.name, mean) == ("policy@0", "length", mean)
    assert mean > 0
    [stage] = run.ledger.stages("harness")
    assert stage.generation == 0
    assert 0 <= stage.seconds <= time.perf_counter() - began
    written = json.loads((run.folder / "harness" / stage.facts["file"]).read_text())
    assert len(written["model"]) == mean
    assert written["dtype"] == "float32"
    assert stage.facts["results"] == [result.facts()]
    replies = run.folder / "harness" / "policy@0-replies.txt"
    assert replies.read_text() == written["model"]
    replies.unlink()
    assert measure_by_harness(run, [policy], harness) == [result]
    assert not replies.exists()
    # another version of the harness, or another bound, measures anew
    for other in (Counting(tasks=("length",), version="2"), Counting(tasks=("length",), limit=3)):
        measure_by_harness(run, [policy], other)
        replies.unlink()
    assert len(list(run.ledger.stages("harness"))) == 3
    with pytest.raises(ConfigError, match=r"fixed@0: a harness loads weights, .* kind scripted"):
        measure_by_harness(run, [policy, PlayerId("fixed")], Counting(tasks=("length",), limit=4))
    assert len(list(run.ledger.stages("harness"))) == 3  # it was said before any was measured


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "needs the name of its set and a source"),
        ({"source": ""}, "needs the name of its set and a source"),
        ({}, "no player 'nobody'; known: policy, fixed$"),
    ],
)
def test_a_result_that_nobody_could_place_is_refused(run_of_a_model, change, message):
    given = {"name": "arc", "benchmark": "arc", "source": "elsewhere", "metrics": {}, "n": 0}
    given["headline"] = "acc"
    result = BenchmarkResult(**(given | change))
    with pytest.raises(RunError, match=message):
        benchmarks.record(run_of_a_model, PlayerId("nobody" if not change else "policy"), result)
    assert not benchmark_results.results(run_of_a_model.ledger)


# -- lm-eval itself


@pytest.fixture
def by_lm_eval(lm_eval_python, lm_eval_tasks):
    """The options that measure by lm-eval on small tasks on files: in this process where it is
    installed here, else in its own environment.
    """
    by = ("--harness", "lm_eval", "--tasks", "tiny_*", "--include-path", lm_eval_tasks)
    if lm_eval_python != sys.executable:
        by += ("--harness-python", lm_eval_python)
    return (*by, "--json")


@pytest.mark.slow
def test_lm_eval_measures_the_base_and_the_adapter(command, adapter_copy, by_lm_eval):
    players = [f"{adapter_copy}@policy@{age}" for age in (0, 1)]
    [*rows] = command("evaluate", *players, *by_lm_eval).facts
    assert [(row["name"], row["player"]) for row in rows] == [
        ("tiny_choices", "policy@0"),
        ("tiny_choices", "policy@1"),
        ("tiny_questions", "policy@0"),
        ("tiny_questions", "policy@1"),
    ]
    for row in rows:
        assert row["source"].startswith("lm_eval 0.")
        assert row["n"] == 3
        assert row["metrics"][row["headline"]]["low"] is not None
    assert all("acc" in row["differences"] for row in rows[1:2])

    files = sorted(adapter_copy.glob("harness/lm_eval-*.json"))
    written = [file.stat().st_mtime_ns for file in files]
    again = command("evaluate", *players, *by_lm_eval).facts
    assert [row["metrics"] for row in again] == [row["metrics"] for row in rows]
    assert [file.stat().st_mtime_ns for file in files] == written  # not measured anew

    with RunDirectory.read(adapter_copy) as run:
        population = Population(run.config.playing, adapter_copy / "players")
        actor = population.actor(PlayerId("policy", 1))
        assert isinstance(actor, TokenScorer)
        samples = json.loads(files[1].read_text())["samples"]["tiny_choices"]
        encode = run.config.players["policy"].encoding().tokenizer.encode
        for sample in samples:
            context = encode(sample["doc"]["question"])
            whole = [
                encode(f"{sample['doc']['question']} {each}") for each in sample["doc"]["choices"]
            ]
            own = actor.token_sums([context] * len(whole), [ids[len(context) :] for ids in whole])
            for value, ((other, _),) in zip(own, sample["resps"], strict=True):
                assert abs(value - float(other)) < 1e-4
        population.release()


@pytest.mark.slow
def test_a_player_without_weights_is_refused(command, folder, player, by_lm_eval):
    result = command("evaluate", f"{folder}@{player}", *by_lm_eval)
    assert result.code == 2
    assert f"{player}@0: a harness loads weights" in result.err
    assert "docs/evaluate.md" in result.err


@pytest.mark.slow
def test_lm_eval_says_which_task_is_unknown_and_that_the_hub_is_away(
    command, adapter_copy, by_lm_eval, monkeypatch
):
    unknown = list(by_lm_eval)
    unknown[3] = "tiny_choice"
    result = command("evaluate", adapter_copy, *unknown)
    assert result.code == 2
    assert "has no task 'tiny_choice'" in result.err
    assert "tiny_choices" in result.err
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    of_hub = list(by_lm_eval)
    of_hub[3] = "arc_easy"
    result = command("evaluate", f"{adapter_copy}@policy@0", *of_hub)
    assert result.code == 2, result.err
    assert "cannot fetch the data of arc_easy" in result.err
