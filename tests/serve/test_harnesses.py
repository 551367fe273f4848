"""Published harnesses as clients of `equipoise serve`, on tasks of their own on files: lm-eval's
API models beside its `hf` backend, EvalScope, Inspect.
"""

import json
from pathlib import Path

import pytest
from fixtures.harnesses import QUESTIONS

from equipoise.evaluation.harnesses import lm_eval_worker
from equipoise.evaluation.harnesses.base import read_scores
from equipoise.models.adapters import resolve
from equipoise.players.local import Local
from equipoise.serve.catalogue import Catalogue

pytestmark = pytest.mark.slow

BY_HF = {
    "model": "hf",
    "model_args": {"pretrained": resolve("builtin"), "dtype": "float32"},
    "device": "cpu",
}  # lm-eval's own backend
WITHIN = 1e-4  # nats, of a whole continuation


@pytest.fixture
def address(serving):
    """A server with the built-in tiny model, greedy."""
    player = Local.model_validate({"max_new_tokens": 32, "temperature": 0})
    with serving(Catalogue.of_player("policy@2", player)) as address:
        yield address


@pytest.fixture
def lm_eval(lm_eval_python, lm_eval_tasks, harness_output, tmp_path):
    """lm_eval(token, tasks, **arguments): task -> its samples, by lm-eval's own `simple_evaluate`
    in its own environment.
    """

    def run(token: str, *tasks: str, **arguments: object) -> dict[str, list]:
        job = {
            "do": "evaluate",
            "tasks": tasks,
            "include_path": str(lm_eval_tasks),
            "arguments": arguments,
        }
        question, reply = tmp_path / "job.json", tmp_path / "reply.json"
        question.write_text(json.dumps(job))
        command = [lm_eval_python, lm_eval_worker.__file__, question, reply]
        harness_output(command, token)
        results = json.loads(reply.read_text())
        assert "samples" in results, results
        return results["samples"]

    return run


def answers(samples: list[dict]) -> list[str]:
    return [row["resps"][0][0] for row in samples]


def test_completions_by_the_server_are_those_of_transformers(address, lm_eval):
    served = lm_eval(
        address.token,
        "tiny_choices",
        "tiny_questions",
        model="local-completions",
        model_args={
            "model": "policy@2",
            "base_url": f"{address.url}/completions",
            "tokenizer": resolve("builtin"),
            "num_concurrent": 2,
        },
        batch_size=2,
    )
    expected = lm_eval(address.token, "tiny_choices", "tiny_questions", **BY_HF)
    for row, other in zip(served["tiny_choices"], expected["tiny_choices"], strict=True):
        assert row["acc"] == other["acc"]
        for (found,), (known,) in zip(row["resps"], other["resps"], strict=True):
            assert abs(float(found[0]) - float(known[0])) < WITHIN
            assert found[1] == known[1]  # whether it is what greedy sampling gives
    assert answers(served["tiny_questions"]) == answers(expected["tiny_questions"])


def test_chat_answers_by_the_server_are_those_of_transformers(address, lm_eval):
    arguments = {"model": "policy@2", "base_url": f"{address.url}/chat/completions"}
    served = lm_eval(
        address.token,
        "tiny_questions",
        model="local-chat-completions",
        model_args=arguments,
        apply_chat_template=True,
    )
    expected = lm_eval(address.token, "tiny_questions", **BY_HF, apply_chat_template=True)
    assert answers(served["tiny_questions"]) == answers(expected["tiny_questions"])
    assert any(answers(served["tiny_questions"]))


def test_evalscope_measures_what_is_served(address, evalscope, harness_output, tmp_path):
    rows = [{"query": query, "response": answer} for query, answer in QUESTIONS]
    _write_rows(tmp_path / "data" / "sums.jsonl", rows)
    dataset = {"local_path": str(tmp_path / "data"), "subset_list": ["sums"]}
    command = [evalscope, "eval", "--model", "policy@2", "--eval-type", "openai_api"]
    command += ["--api-url", address.url, "--api-key", address.token]
    command += ["--datasets", "general_qa"]
    command += ["--dataset-args", json.dumps({"general_qa": dataset})]
    command += ["--generation-config", '{"max_tokens": 16, "temperature": 0}']
    harness_output([*command, "--work-dir", tmp_path / "out", "--no-timestamp"])
    [report] = (tmp_path / "out" / "reports").rglob("general_qa.json")
    [(result, items)] = read_scores(report, "evalscope")
    assert result.n == len(items) == len(QUESTIONS)
    assert result.source.startswith("evalscope 1.")
    assert any(score.low is not None for score in result.metrics.values())


TASK = """\
from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


@task
def sums():
    fields = FieldSpec(input="question", target="answer")
    data = json_dataset("sums.jsonl", fields)
    return Task(dataset=data, solver=generate(), scorer=includes())
"""


def test_inspect_measures_what_is_served(address, inspect_command, harness_output, tmp_path):
    rows = [{"question": query, "answer": answer} for query, answer in QUESTIONS]
    _write_rows(tmp_path / "sums.jsonl", rows)
    (tmp_path / "sums.py").write_text(TASK)
    command = [inspect_command, "eval", "sums.py"]
    command += ["--model", "openai-api/equipoise/policy@2"]
    command += ["--model-base-url", address.url, "-M", f"api_key={address.token}"]
    command += ["--temperature", "0", "--max-tokens", "16", "--display", "plain"]
    harness_output([*command, "--log-format", "json", "--log-dir", "logs"])
    [log] = (tmp_path / "logs").glob("*.json")
    [(result, items)] = read_scores(log, "inspect")
    assert result.name == "sums"
    assert result.n == len(items) == len(QUESTIONS)
    assert result.score.low is not None
    assert result.source.startswith("inspect 0.")


def _write_rows(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
