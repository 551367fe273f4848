"""`equipoise evaluate` as a command."""

import json
import sqlite3
import time
from contextlib import closing

import pytest
from small_runs import FINITE, start

from equipoise.cli.evaluate import players_by_run

ROWS = [{"prompt": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(1, 5)]


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


@pytest.mark.long
def test_a_model_is_measured_and_its_results_are_shown(command, sums):
    on = ("--on", sums, "--judge", "shorter", "-s", "player.max_new_tokens=4")
    shown = command("evaluate", "builtin", *on, "--out", "model")
    assert shown.code == 0
    assert "model@0" in shown.out
    assert "sums" in shown.out
    again = command("evaluate", "builtin", *on, "--out", "model", "--json")
    [result] = json.loads(again.out)
    assert result["n"] == 4
    assert result["judge"] == "shorter"
    assert "answers" not in again.err
    status = json.loads(command("status", "model", "--json").out)
    assert status["finished"]
    assert status["headlines"][-1]["label"] == ("sums (score) of model@0")
    swept = command(
        "evaluate", "model", "--on", f"few={sums}", "--judge", "shorter", "--sweep",
        "max_new_tokens=1,2", "-s", "limit=1",
    )  # fmt: skip
    assert "max_new_tokens = 2" in swept.out
    assert swept.code == 0


@pytest.mark.long
def test_generations_of_a_run_are_named(command, sums):
    assert command("run", *FINITE, "--out", "game").code == 0
    judge = ("--on", sums, "--judge", "shorter")
    refused = command("evaluate", "game@nobody", *judge)
    assert refused.code == 2
    assert "no player 'nobody'" in refused.err
    refused = command("evaluate", "elsewhere@policy@1", *judge)
    assert refused.code == 2
    assert "there is no run in elsewhere" in refused.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "absent.jsonl", "--judge", "exact"], "absent.jsonl: no such file"),
        (["--on", "{kind: prompts"], "--on"),
        (["--sweep", "temperature", "--on", "x={prompts: a.jsonl}"], "--sweep temperature"),
        (["--on", "{kind: gsm8k, limits: 3}"], "unknown key 'limits'; did you mean 'limit'"),
        ([], "name what to measure on"),
    ],
)
def test_a_user_s_mistakes_are_one_message(command, arguments, message):
    refused = command("evaluate", "builtin", *arguments, "--out", "model")
    assert refused.code == 2
    assert message in refused.err


@pytest.mark.slow
def test_a_killed_measurement_goes_on_where_it_was(tmp_path):
    """SIGKILL between two commits: nothing recorded is asked again, and the result is that of an
    undisturbed measurement.
    """
    rows = [{"prompt": f"What is {n}+{n}?"} for n in range(400)]
    (tmp_path / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = (
        "evaluate", "builtin", "--on", "sums.jsonl", "--judge", "shorter", "--json",
        "-s", "player.max_new_tokens=32", "--out",
    )  # fmt: skip
    calm, _ = start(*arguments, "calm", cwd=tmp_path).communicate()
    killed = start(*arguments, "killed", cwd=tmp_path)
    ledger = tmp_path / "killed" / "ledger.sqlite"
    limit = time.monotonic() + 300
    while not (before := answers(ledger)) and killed.poll() is None:
        assert time.monotonic() < limit, "nothing was recorded"
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    before = answers(ledger)
    assert 0 < len(before) < 400, "it was not killed on its way"
    resumed, errors = start(*arguments, "killed", cwd=tmp_path).communicate()
    after = answers(ledger)
    assert len(after) == 400 and after[: len(before)] == before, errors
    [first], [second] = json.loads(calm), json.loads(resumed)
    assert {**first, "run": ""} == {**second, "run": ""}
    assert sorted(after) == sorted(answers(tmp_path / "calm" / "ledger.sqlite"))


def answers(ledger):
    """The recorded answers, in the order in which they were recorded."""
    if not ledger.exists():
        return []
    query = 'SELECT record FROM matches WHERE record LIKE \'%"game":"benchmark"%\' ORDER BY rowid'
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as db:
        try:
            return [record for (record,) in db.execute(query)]
        except sqlite3.OperationalError:  # the tables are still being made
            return []


def test_a_run_named_alone_and_with_a_player_is_measured_as_both(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ledger.sqlite").touch()
    assert players_by_run(["run", "run@policy@1"]) == {"run": ["", "policy@1"]}


def test_a_folder_may_have_an_at_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "at@noon" / "run").mkdir(parents=True)
    (tmp_path / "at@noon" / "run" / "ledger.sqlite").touch()
    (tmp_path / "model@2").mkdir()
    given = ["at@noon/run", "at@noon/run@policy@1", "model@2"]
    assert players_by_run(given) == {"at@noon/run": ["", "policy@1"], "model@2": []}
