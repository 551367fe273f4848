"""`crossplay`: adversaries and defenders of one or several runs of the game red_team."""

import json
import shutil
import sqlite3

import numpy as np
import pytest
import yaml
from small_runs import FINITE

from benchmarks import red_team
from equipoise.ledger.database import checksum
from equipoise.ledger.ledger import Ledger
from equipoise.runs.directory import SETTINGS

pytestmark = pytest.mark.long  # they share a whole run


def counts(folder):
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        return ledger.counts()


def edited(folder, **changes):
    """Put settings into a run's configuration, as if it had begun with them."""
    path = folder / "config.yaml"
    settings = yaml.safe_load(path.read_text()) | changes
    path.write_text(yaml.safe_dump(settings))
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        ledger.note(SETTINGS, json.dumps(settings))


def test_one_run_gives_what_it_measured(command, red_team_copy):
    run = red_team_copy("a")
    before = counts(run)
    found = command("red-team", "crossplay", run, "--prompts", 4, "--json")
    assert found.code == 0, found.err
    facts, measured = found.facts, command("status", run, "--json").facts
    with Ledger.open(run / "ledger.sqlite") as ledger:
        own = ledger.stage_facts("2/measure")
    assert facts["crossplay"] == own["crossplay"]
    assert facts["meta_game"] == own["meta_game"]
    assert facts["crossplay"]["adversaries"] == ["adversary@0", "adversary@1"]
    assert facts["crossplay"]["defenders"] == ["defender@0", "defender@1"]
    assert {name: facts[name] for name in ("forgetting", "cycling")} == {
        name: measured["measured"][name] for name in ("forgetting", "cycling")
    }
    assert counts(run) == before  # nothing was played


def test_worst_cases_and_means_are_those_of_the_table(command, red_team_copy):
    facts = command("red-team", "crossplay", red_team_copy("a"), "--prompts", 4, "--json").facts
    success_AD = np.array(facts["crossplay"]["success"])
    for d, defender in enumerate(facts["crossplay"]["defenders"]):
        worst = facts["worst"][defender]
        assert worst["mean"] == success_AD[:, d].max()
        assert worst["n"] == 4
        assert worst["low"] < worst["mean"] + 1e-9
        assert worst["high"] > worst["mean"] - 1e-9
    for a, adversary in enumerate(facts["crossplay"]["adversaries"]):
        assert facts["mean"][adversary]["mean"] == pytest.approx(success_AD[a].mean())


def test_one_run_records_what_it_had_not_measured(command, red_team_copy):
    run = red_team_copy("a")
    before = counts(run)
    first = command(
        "red-team", "crossplay", run, "--prompts", 6, "--generations", "last", "--json"
    ).facts
    played = counts(run)
    # Two of the six prompts are new to each cell that only cross-play had measured: those that do
    # not hold the newest.
    assert 0 < played["matches"] - before["matches"] <= 8
    assert command("red-team", "crossplay", run, "--prompts", 6, "--json").facts == first
    assert counts(run) == played


def test_defenders_at_other_temperatures(command, red_team_copy):
    run = red_team_copy("a")
    before = counts(run)
    arguments = ["--prompts", 4, "--generations", "last", "--json"]
    heated = ["--temperature", 0, "--temperature", 1.0, "--temperature", 1]  # each once
    facts = command("red-team", "crossplay", run, *heated, *arguments).facts
    assert facts["crossplay"]["adversaries"] == ["adversary@0", "adversary@1"]
    assert facts["crossplay"]["defenders"] == [
        "defender:0@0",
        "defender:1@0",
        "defender:0@1",
        "defender:1@1",
    ]
    assert np.isfinite(facts["crossplay"]["success"]).all()
    assert counts(run) == before, "nothing is recorded"


def test_another_judge(command, red_team_copy):
    run = red_team_copy("a")
    told = command(
        "red-team",
        "crossplay",
        run,
        "--prompts",
        4,
        "--with",
        "{kind: red_team, guard: refusal}",
        "--json",
    ).facts
    own = command("red-team", "crossplay", run, "--prompts", 4, "--json").facts
    assert told["judge"] != own["judge"]
    assert told["crossplay"]["success"] != own["crossplay"]["success"]


def test_several_runs_meet_and_stay_as_they_were(command, red_team_copy, tmp_path):
    a, b, c = runs = [red_team_copy(name) for name in "abc"]
    edited(
        c, schedule={"kind": "roles", "roles": {"defender": "defender"}, "raw": 1.0}
    )  # without an adversary
    before = [counts(run) for run in runs]
    done = command("red-team", "crossplay", a, c, b, "--prompts", 3, "--out", "table.json")
    assert done.code == 0, done.err
    assert "worst case" in done.out
    assert "b/adversary@1" in done.out
    table = json.loads((tmp_path / "table.json").read_text())
    found = table["crossplay"]
    assert found["adversaries"] == [
        "a/adversary@0",
        "a/adversary@1",
        "b/adversary@1",
    ]  # they all start alike
    assert found["defenders"] == ["a/defender@0", "a/defender@1", "c/defender@1", "b/defender@1"]
    assert "forgetting" not in table
    assert set(table["worst"]) == set(found["defenders"])
    assert sum(table["meta_game"]["adversary"].values()) == pytest.approx(1)
    # Neither who else is there nor the order of the runs changes a cell.
    fewer = command("red-team", "crossplay", a, b, "--prompts", 3, "--json").facts["crossplay"]
    assert [[*row[:2], row[3]] for row in found["success"]] == fewer["success"]
    assert [counts(run) for run in runs] == before


def test_what_cannot_meet(command, red_team_copy, tmp_path):
    run, other = red_team_copy("a"), red_team_copy("b")
    assert command("run", *FINITE, "--out", "finite", "--json").code == 0
    shutil.rmtree(other / "players" / "adversary" / "1")
    harmless = red_team_copy("c")
    with sqlite3.connect(harmless / "ledger.sqlite") as db:
        db.execute(
            "UPDATE prompts SET record = replace(record, '\"harmful\":true', '\"harmful\":false')"
        )
        db.create_function("sum_of", 4, lambda *row: checksum(row))
        db.execute("UPDATE prompts SET checksum = sum_of(id, split, generation, record)")
    alone = red_team_copy("d")
    edited(alone, schedule={"kind": "roles", "roles": {"defender": "defender"}, "raw": 1.0})
    for arguments, words in (
        (["nowhere"], "no run here"),
        (["finite"], "game 'matrix'"),
        ([run, "finite"], "game 'matrix'"),
        ([run, other], "weights of adversary@1 are gone"),
        ([other, "--prompts", 6], "weights of adversary@1 are gone"),
        ([harmless], "none of its 12 held-out prompts is harmful"),
        ([alone], "nobody plays an adversary"),
        ([run, run], "given twice"),
        ([run, "--out", "there/is/none.json"], "no folder"),
        ([run, "-s", "guard=refusal"], "--with"),
    ):
        refused = command("red-team", "crossplay", *arguments)
        assert refused.code == 2 and words in refused.err, (arguments, refused.err)


def test_another_judge_hears_given_attacks_too(command, red_team_copy):
    done = command(
        "judge",
        red_team_copy("a"),
        "--with",
        "{kind: red_team, guard: clerk_guard, payoffs: separate}",
        "--json",
    )
    assert done.code == 0, done.err
    facts = done.facts
    assert facts["matches"] > 36
    assert facts["scores"]["defender@1"] == facts["scores_beside"]["defender@1"]


def test_the_benchmark_tells_success_prompt_by_prompt(command, red_team_copy):
    runs = [red_team_copy("a"), red_team_copy("b")]
    heats = [word for heat in red_team.TEMPERATURES for word in ("--temperature", heat)]
    table = command("red-team", "crossplay", *runs, *heats, "--json").facts["crossplay"]
    meetings = red_team.crossplay(runs)
    for a, adversary in enumerate(table["adversaries"]):
        for d, defender in enumerate(table["defenders"]):
            own = meetings.against(defender)[adversary]
            assert len(own) == table["prompts"]
            assert red_team.whole(own) == pytest.approx(table["success"][a][d])
