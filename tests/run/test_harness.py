"""Scores of other programs beside a run: imported, and measured by the program."""

import json
import shutil

import pytest

from equipoise.evaluate.benchmarks.records import BenchmarkResult
from equipoise.run import benchmarks, recipes
from equipoise.run.directory import RunDirectory


@pytest.fixture
def folder(tmp_path):
    """A run that has not begun."""
    config = recipes.load("rock_paper_scissors", {"generations": 1})
    with RunDirectory.create(config, tmp_path / "run") as run:
        return run.folder


@pytest.fixture
def player(folder):
    with RunDirectory.read(folder) as run:
        return next(iter(run.settings["players"]))


def recorded(folder) -> list[BenchmarkResult]:
    with RunDirectory.read(folder) as run:
        return benchmarks.results(run.ledger)


def results(value: float, version: str = "0.4.13") -> str:
    task = {"acc,none": value, "acc_stderr,none": 0.1}
    document = {
        "results": {"arc_easy": task},
        "n-samples": {"arc_easy": {"effective": 20}},
        "lm_eval_version": version,
    }
    return json.dumps(document)


def test_imported_scores_lie_beside_the_run(command, folder, player, tmp_path):
    file = tmp_path / "results.json"
    file.write_text(results(0.6))
    target = f"{folder}@{player}"
    options = ("--from", "lm_eval", "--json")
    [first] = command("import-scores", target, file, *options).facts
    assert first["player"] == f"{player}@0" and first["source"] == "lm_eval 0.4.13"
    command("import-scores", target, file, *options)  # again: nothing new
    [result] = recorded(folder)
    assert result.metrics["acc"].mean == 0.6
    file.write_text(results(0.7))
    command("import-scores", target, file, *options)  # other numbers: shown instead
    [result] = recorded(folder)
    assert result.metrics["acc"].mean == 0.7
    command("import-scores", target, file, *options, "--name", "arc of the start")
    assert [result.name for result in recorded(folder)] == [
        "arc_easy",
        "arc of the start",
    ]


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
