"""Scores that verifiers' `vf-eval` wrote. The slow test asks the real verifiers 0.4.0, whose
interpreter EQUIPOISE_VERIFIERS names, about a model that `equipoise serve` serves.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from equipoise.api.played_elsewhere import record_matches
from equipoise.errors import DataError
from equipoise.evaluation.harnesses.base import read_scores

ENVIRONMENTS = Path(__file__).parent / "environments"
PYTHON = os.environ.get("EQUIPOISE_VERIFIERS", "")


def trace(reward: float | None, agent: str = "agent", model: str = "m", errors=(), **metrics):
    """An agent's part in an episode, as far as it is read."""
    config = {"model": model, "harness": {"id": "null"}, "sampling": {"max_tokens": 8}}
    return {
        "verifiers": {"version": "0.4.0"},
        "agent": {"name": agent, "config": config},
        "rewards": {} if reward is None else {"right": {"score": reward, "weight": 2.0}},
        "metrics": metrics,
        "errors": [{"type": "ProviderError", "message": each} for each in errors],
    }


def episode(task: str, *traces, ok: bool = True, env: str = "sums") -> dict:
    return {"env": {"id": env}, "task": {"hash": task}, "ok": ok, "traces": traces}


def write(folder: Path, *rows) -> Path:
    path = folder / "traces.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_line_ends_at_no_mark_within_a_text(tmp_path):
    row = episode("a", trace(1.0, errors=["one\u2028two\x85three\x0cfour"]))
    path = tmp_path / "traces.jsonl"
    path.write_bytes(json.dumps(row, ensure_ascii=False).encode() + b"\r\n \n")
    [(result, _)] = read_scores(path, "verifiers")
    assert result.answers == 1


def test_items_are_tasks_and_their_episodes_samples(tmp_path):
    rows = [
        episode("a", trace(1.0, length=3.0)),
        episode("a", trace(0.0, length=5.0)),
        episode("b", trace(1.0, length=4.0)),
        episode("b", trace(0.0, errors=["no answer"]), ok=False),
        episode("b", trace(None)),
    ]
    [(result, items)] = read_scores(write(tmp_path, *rows), "verifiers")
    assert (result.name, result.source, result.headline) == ("sums", "verifiers 0.4.0", "reward")
    means = {name: estimate.mean for name, estimate in result.metrics.items()}
    assert means == {"length": 4.0, "right": pytest.approx(2 / 3), "reward": pytest.approx(4 / 3)}
    assert (result.n, result.answers, result.unscored) == (2, 5, 2)
    assert result.reasons == {
        "the episode failed: ProviderError: no answer": 1,
        "no reward is recorded": 1,
    }
    assert [f"{row.item}{row.sample}" for row in items] == ["a0", "a1", "b0", "b1", "b2"]
    assert items[0].values == {"length": 3.0, "right": 1.0, "reward": 2.0}
    assert items[3].values == dict.fromkeys(("length", "right", "reward"))
    again = write(tmp_path, *rows[1:3])
    assert read_scores(again, "verifiers")[0].result.key == result.key


def test_agents_and_models_are_told_apart(tmp_path):
    rows = [
        episode("a", trace(1.0, "first", "m"), trace(-1.0, "second", "m"), env="poker"),
        episode("a", trace(1.0, "first", "m"), trace(-1.0, "second", "n"), env="poker"),
    ]
    file = write(tmp_path, *rows)
    with pytest.raises(DataError, match=r"several models \(m, n\); name one: --model"):
        read_scores(file, "verifiers")
    of_m = {each.result.name: each.result for each in read_scores(file, "verifiers", "m")}
    assert {name: (r.answers, r.score.mean) for name, r in of_m.items()} == {
        "poker/first": (2, 2.0),
        "poker/second": (1, -2.0),
    }
    [(result, _)] = read_scores(file, "verifiers", "n")
    assert result.name == "poker/second"


@pytest.mark.long
def test_what_is_unscored_is_said_and_scores_of_nothing_are_refused(
    command, recorded_folder, tmp_path
):
    shutil.copytree(recorded_folder("people"), tmp_path / "run")
    failed = episode("a", trace(None, errors=["no answer"]), ok=False)
    file = write(tmp_path, failed)
    done = command("import-scores", "run@poet", file, "--from", "verifiers")
    assert done.code == 2
    assert "sums: no answer is scored; the episode failed: Provider" in done.err
    write(tmp_path, failed, episode("b", trace(1.0)))
    done = command("import-scores", "run@poet", file, "--from", "verifiers")
    assert done.code == 0, done.err
    assert "unscored  1 of 2: the episode failed: ProviderError: no answer" in done.out


def test_what_is_no_episode_is_said(tmp_path):
    with pytest.raises(DataError, match=r"traces.jsonl:2: is not an episode of verifiers: .*hash"):
        read_scores(write(tmp_path, episode("a"), {"env": {"id": "e"}, "task": {}}), "verifiers")
    with pytest.raises(DataError, match="no episode has a trace"):
        read_scores(write(tmp_path, episode("a")), "verifiers")


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON, reason="EQUIPOISE_VERIFIERS names no interpreter")
def test_vf_eval_measures_what_is_served(serving, harness_output, monkeypatch, tmp_path):
    from equipoise.players.local import Local
    from equipoise.serve.catalogue import Catalogue

    monkeypatch.setenv("PYTHONPATH", str(ENVIRONMENTS))
    player = Local.model_validate({"max_new_tokens": 4, "temperature": 0})
    with serving(Catalogue.of_player("policy@2", player)) as address:
        monkeypatch.setenv("TOKEN", address.token)
        command = [Path(PYTHON).with_name("vf-eval"), "sums", "--model", "policy@2"]
        command += ["--client.base-url", address.url, "--client.api-key-var", "TOKEN"]
        command += ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
        command += ["--no-push", "-n", "6", "-r", "2", "--run.dir", "sums"]
        harness_output(command)
    file = tmp_path / "outputs" / "sums" / "traces.jsonl"
    [(result, items)] = read_scores(file, "verifiers")
    assert result.source == "verifiers 0.4.0"
    assert result.settings["model"] == "policy@2"
    assert (result.n, len(items), result.unscored) == (6, 12, 0), result.reasons
    first, second = ({row.item: row.values for row in items if row.sample == i} for i in (0, 1))
    # greedy
    assert first == second
    assert len(first) == 6
    with pytest.raises(DataError, match="the files name 1 players"):
        record_matches([file], "verifiers", tmp_path / "run")
