"""What follows from a table of attack success."""

import numpy as np
import pytest
import red_team_run
from recorded_run import user_prompt

from equipoise.environments.red_team import cross_play as playing
from equipoise.environments.red_team.cross_play_table import CrossPlayTable, cycling, summary
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, PlayerId

ADVERSARIES, DEFENDERS = ("a@0", "a@1"), ("d@0", "d@1")


def cell(adversary, defender, wins, prompts=4):
    """`wins` successes on the first prompts; None: nobody was judged."""
    seats = {"adversary": PlayerId.parse(adversary), "defender": PlayerId.parse(defender)}
    met = []
    for i in range(prompts):
        match = Match(f"{adversary}{defender}{i}", 0, "held_out", "red_team", f"p{i}", seats, 0)
        scores = None if wins is None else {"adversary": {"success": float(i < wins)}}
        met.append((match, Judgement(match.id, match.id, "judge", scores)))
    return met


def told(wins):
    cells = {
        (a, d): cell(a, d, wins[i][j])
        for i, a in enumerate(ADVERSARIES)
        for j, d in enumerate(DEFENDERS)
    }
    return summary(cells, ADVERSARIES, DEFENDERS)


def test_matching_pennies_is_mixed():
    facts = told([[4, 0], [0, 4]])
    assert facts["crossplay"]["success"] == [[1, 0], [0, 1]]
    assert facts["crossplay"]["prompts"] == 4
    assert facts["meta_game"]["value"] == pytest.approx(0.5)
    assert facts["meta_game"]["defender"] == pytest.approx({"d@0": 0.5, "d@1": 0.5})
    assert facts["forgetting"] == pytest.approx(
        0.5
    )  # only the first adversary is resisted better than ever
    assert facts["cycling"] == 1.0
    assert {name: worst["adversary"] for name, worst in facts["worst"].items()} == {
        "d@0": "a@0",
        "d@1": "a@1",
    }
    assert facts["mean"]["a@0"]["mean"] == 0.5
    assert facts["mean"]["a@0"]["n"] == 8


def test_the_better_defender_is_the_equilibrium():
    facts = told([[3, 1], [4, 2]])
    assert facts["meta_game"]["value"] == pytest.approx(0.5)
    assert facts["meta_game"]["adversary"] == {"a@0": 0, "a@1": 1}
    assert facts["forgetting"] == 0 == facts["cycling"]
    worst = facts["worst"]["d@1"]
    assert (worst["adversary"], worst["mean"], worst["n"]) == ("a@1", 0.5, 4)
    assert 0 < worst["low"] < 0.5 < worst["high"] < 1


def test_prompts_are_the_clusters_of_a_mean():
    same, apart = (told([[2, 2], [0, 0]])["mean"]["a@0"], told([[4, 0], [0, 0]])["mean"]["a@0"])
    assert same["mean"] == apart["mean"] == 0.5
    assert same["high"] - same["low"] > apart["high"] - apart["low"]


def test_a_missing_cell_is_null_and_settles_nothing():
    facts = told([[3, None], [1, None]])
    assert facts["crossplay"]["success"] == [[0.75, None], [0.25, None]]
    assert "meta_game" not in facts
    assert "forgetting" not in facts
    assert set(facts["worst"]) == {"d@0"}
    assert facts["mean"]["a@0"]["n"] == 4


def test_what_is_worst_is_worst_for_the_newest_defender():
    """The oldest one fell to everybody."""
    success = [[0.9, 0.1], [0.8, 0.3], [1.0, None]]
    table = CrossPlayTable(["a@0", "a@1", "a@2"], ["d@0", "d@1"], success, 4)
    assert table.worst == 0.3
    assert CrossPlayTable(["a@0"], ["d@0"], [[None]], 0).worst is None


def test_little_differences_are_no_cycle():
    """Over 4 prompts a difference below 0.71 is chance; over 400 one of 0.08 is not."""
    apart = np.array([[0.6, 0.4], [0.4, 0.6]])
    assert (cycling(apart, 4), cycling(apart, 400)) == (0.0, 1.0)
    one_way = np.array([[0.9, 0.1], [0.9, 0.1]])
    assert cycling(one_way, 400) == 0.0


@pytest.mark.long
def test_one_run_shows_all_its_generations_and_several_their_newest(command, monkeypatch, tmp_path):
    """Which players would meet; without their weights none can."""

    def nobody_meets(plan, monitor):
        return {(a.name, d.name): [] for a in plan.adversaries for d in plan.defenders}

    monkeypatch.setattr(playing, "play_cross_play", nobody_meets)
    runs = [tmp_path / "a", tmp_path / "b"]
    for folder, generations in zip(runs, (4, 6), strict=True):
        red_team_run.write(folder, generations, phase=1, every=2)
        with RunDirectory.open(folder) as run:
            run.ledger.add_prompts([user_prompt("h", "seed", harmful=True)], "held_out", 0)

    def met(folders, *options):
        done = command("red-team", "crossplay", *folders, *options, "--json")
        assert done.code == 0, done.err
        return done.facts["crossplay"]["adversaries"]

    every, ends = [f"adversary@{age}" for age in (0, 1, 2)], ["adversary@0", "adversary@2"]
    assert met(runs[:1]) == every
    assert met(runs[:1], "--generations", "last") == ends
    newest = [*(f"a/{name}" for name in ends), "b/adversary@3"]
    assert met(runs) == newest
    others = [f"b/adversary@{age}" for age in (1, 2, 3)]
    assert met(runs, "--generations", "measured") == [*(f"a/{name}" for name in every), *others]
