"""Pairwise evaluations in Inspect, by `inspect_equipoise` as it is installed. The slow tests ask the
real inspect_ai, whose command EQUIPOISE_INSPECT names; its environment has Equipoise's requirements
and, for tasks of others, inspect_evals.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.players.local import Local
from equipoise.serve.catalogue import Catalogue

HOME = Path(__file__).resolve().parents[2]
BRIEF, LONG = "openai-api/brief/policy", "openai-api/long/policy"
TASK = """\
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate, prompt_template


@task
def words(samples: int = 6, times: int = 1):
    data = [Sample(id=i, input=f"Say {i}." * times, target=str(i)) for i in range(samples)]
    return Task(dataset=data, solver=[prompt_template("{prompt} Please."), generate()])
"""


@pytest.fixture(scope="module")
def site(inspect_command, tmp_path_factory):
    """Where the package is installed, found by Inspect; a skip where Equipoise cannot run there."""
    python = Path(inspect_command).with_name("python")
    if subprocess.run([python, "-c", "import evalica, msgspec, openskill"], check=False).returncode:
        pytest.skip("the environment of Inspect lacks what Equipoise requires")
    site = tmp_path_factory.mktemp("installed") / "site-packages"  # so Inspect knows a package
    source = shutil.copytree(
        HOME / "neighbours" / "inspect", tmp_path_factory.mktemp("source") / "it"
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", site, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture
def evaluate(site, inspect_command, harness_output, serving, model_folder, monkeypatch, tmp_path):
    """evaluate(task, judge, **options): the log; two tiny models are served, one of which may answer
    with two tokens, the other with twenty; `room`: for the former's prompt and answer.
    """
    model = shutil.copytree(model_folder("qwen3"), tmp_path / "tiny")
    shape = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**shape, "max_position_embeddings": 8192}))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (site, HOME, tmp_path))))
    (tmp_path / "words.py").write_text(TASK)

    def player(tokens: int, room: int = 8192) -> Catalogue:
        settings = {"model": str(model), "max_new_tokens": tokens, "max_length": room}
        return Catalogue.of_player("policy", Local.model_validate(settings))

    def run(task: str, judge: object, rivals: str = LONG, room: int = 8192, **options: object):
        with serving(player(2, room)) as brief, serving(player(20)) as long:
            for name, served in (("BRIEF", brief), ("LONG", long)):
                monkeypatch.setenv(f"{name}_BASE_URL", served.url)
                monkeypatch.setenv(f"{name}_API_KEY", served.token)
            command = [inspect_command, "eval", "inspect_equipoise/versus", "--model", BRIEF]
            command += ["-T", f"task={task}", "-T", f"rivals={rivals}", "-T", f"judge={judge}"]
            command += [part for key, value in options.items() for part in ("-T", f"{key}={value}")]
            command += ["--display", "none", "--limit", "6", "--log-format", "json"]
            harness_output([*command, "--log-dir", "logs"])
        [log] = (tmp_path / "logs").glob("*.json")
        return json.loads(log.read_text())

    return run


def metrics(log: dict) -> dict[str, float]:
    assert log["status"] == "success", log.get("error")
    [score] = log["results"]["scores"]
    return {metric["name"]: metric["value"] for metric in score["metrics"].values()}


@pytest.mark.slow
def test_win_rates_ratings_and_the_equilibrium_stand_in_the_log(evaluate):
    values = metrics(evaluate("words:words", "{kind: shorter, unit: characters}"))
    assert values["win_rate low"] < values["win_rate"] <= values["win_rate high"] <= 1
    assert values["win_rate"] > 0.5
    assert values[f"rating {BRIEF}"] > 1000 > values[f"rating {LONG}"]
    assert values[f"rating {BRIEF} low"] < values[f"rating {BRIEF}"]
    assert values[f"nash_mass {BRIEF}"] == 1
    assert values[f"exploitability {LONG}"] == pytest.approx(2 * values["win_rate"] - 1)
    assert values[f"exploitability {BRIEF}"] == 0


@pytest.mark.slow
def test_what_the_judge_cannot_score_is_unscored_with_the_reason(evaluate):
    log = evaluate("words:words", "{kind: exact, fact: solution}")
    assert all(map(math.isnan, metrics(log).values()))
    [score] = log["results"]["scores"]
    assert (score["scored_samples"], score["unscored_samples"]) == (0, 6)
    [said] = {each["scores"]["preference"]["explanation"] for each in log["samples"]}
    assert "solution" in said


@pytest.mark.slow
def test_a_refused_prompt_is_no_answer(evaluate):
    """Inspect takes the server's message for one."""
    log = evaluate("words:words", "shorter", room=64, options='{"times": 100}')
    assert all(map(math.isnan, metrics(log).values()))
    [said] = {each["scores"]["preference"]["explanation"] for each in log["samples"]}
    assert said == f"{BRIEF} got no answer to this prompt"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["persistbench_sycophancy", "persistbench_beneficial_memory"])
def test_a_task_of_inspect_evals_without_a_network(evaluate, inspect_command, name, tmp_path):
    """Its samples lie within the package, and no grader of its own is asked."""
    python = Path(inspect_command).with_name("python")
    if subprocess.run([python, "-c", "import inspect_evals"], check=False).returncode:
        pytest.skip("inspect_evals is not installed beside Inspect")
    (tmp_path / "brief.txt").write_text(
        "You know this of the user: {memories}"
    )  # it fits the model
    log = evaluate(
        f"inspect_evals.persistbench:{name}",
        "{kind: shorter, unit: characters}",
        options='{"prompt_template": "brief.txt"}',
    )
    values = metrics(log)
    assert values["win_rate"] > 0.5
    assert log["eval"]["task"] == f"{name}_versus"
    answers = log["samples"][0]["scores"]["preference"]["metadata"]["answers"]
    assert answers.keys() == {BRIEF, LONG}
    assert all(answers.values())
