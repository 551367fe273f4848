"""The parts that docs/change_a_piece.md shows can be named by import path, and a run plays with them."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from small_runs import SMALL, settings

import equipoise
from equipoise.component import import_object
from equipoise.data.pairs import JudgedMatches
from equipoise.report.history import history
from equipoise.report.page import changes
from equipoise.runs.directory import RunDirectory
from equipoise.system.yaml_text import parse_yaml
from equipoise.types import Judgement, Match, Move, PlayerId, Turn, View, user

PAGE_NAME = "change_a_piece.md"
PAGE = (Path(__file__).resolve().parents[2] / "docs" / PAGE_NAME).read_text()
BLOCKS = re.findall(r"```python\n# (\w+)\.py; in the recipe: (.+?)\n(.*?)```", PAGE, re.DOTALL)
# (module, setting, its value as the page has it, text) of each part
SNIPPETS = [(module, *parse_yaml(line, PAGE_NAME).popitem(), text) for module, line, text in BLOCKS]
POOL = {
    name: {
        "kind": "local",
        "model": "builtin",
        "learns": True,
        "max_new_tokens": 8,
        "max_length": 128,
    }
    for name in ("ann", "ben")
}
COURTEOUS = {"kind": "scripted", "texts": ["Tell me more, please."]}
GRPO = {"kind": "policy_gradient", "learning_rate": 1e-4, "warmup_steps": 0}
# setting -> from its value on the page, the settings of a run that plays with the part, where the
# quickstart has no place for it
IN_A_RECIPE = {
    "training_ratings": lambda kind: {
        "training_ratings": kind,
        "players": POOL,
        "schedule": "round_robin",
    },
    # the model never says please: alone, it would have nothing to learn from
    "judge": lambda kind: {
        "judge": kind,
        "players": {"ann": POOL["ann"], "ben": COURTEOUS},
        "schedule": "round_robin",
    },
    "learner": lambda values: {"loss": "null", "learner": GRPO | values},
    "players": lambda players: {
        "players": {"ann": POOL["ann"], **players},
        "schedule": "round_robin",
    },
    "evaluate": lambda values: {"evaluate__sets": values["sets"]},
    "prompts": lambda kind: {"prompts": {"kind": kind}, "judge": "shorter"},
}
OF_ONE_RECIPE = ["undercut", "undercut_judge"]  # which play together
[RECIPE] = re.findall(r"```yaml\n# undercut.yaml\n(.*?)```", PAGE, re.DOTALL)
ALONE = [snippet for snippet in SNIPPETS if snippet[0] not in OF_ONE_RECIPE]


@pytest.mark.long
@pytest.mark.parametrize(("module", "setting", "value", "text"), ALONE, ids=[s[0] for s in ALONE])
def test_a_part_of_the_page_plays(module, setting, value, text, command, tmp_path, monkeypatch):
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)
    changed = IN_A_RECIPE.get(setting, lambda value: {setting: value})(value)
    few = settings(**changed, prompts__per_generation=48, prompts__held_out=4, evaluate__samples=1)
    done = command("run", "quickstart", *SMALL, *few, "--out", "run", "--json")
    assert done.code == 0, done.err
    if setting == "measures":
        assert_shown("Distinct", Path("run"))
    if setting == "evaluate":
        results = equipoise.open_run("run").benchmarks()
        assert set(results["set"]) == set(value["sets"])


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, True])
def test_the_game_of_two_roles_plays_by_its_recipe(shared, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module, *_, text in SNIPPETS:
        if module in OF_ONE_RECIPE:
            monkeypatch.delitem(sys.modules, module, raising=False)
            Path(f"{module}.py").write_text(text)
    recipe = parse_yaml(RECIPE, PAGE_NAME)
    if shared:  # as the page says it
        del recipe["players"]
        [schedule] = re.findall(r"`schedule: (\{kind: roles,[^`]*shared: true[^`]*\})`", PAGE)
        recipe["schedule"] = parse_yaml(schedule, PAGE_NAME)
    Path("undercut.yaml").write_text(json.dumps(recipe))
    few = settings(generations=1, prompts__per_generation=6, prompts__held_out=4, game__rounds=2)
    done = command("run", "undercut.yaml", *few, "--out", "run", "--json")
    assert done.code == 0, done.err
    run = equipoise.open_run("run")
    seats = run.matches("train").groupby("seat")
    assert set(seats["name"].unique().explode()) == ({"policy"} if shared else {"policy", "other"})
    assert run.matches("train")["turns"].unique().tolist() == [2]


@pytest.fixture
def part(tmp_path):
    """part(module): the class that the page defines in this module."""

    def load(module: str) -> Any:
        [(_, value, text)] = [row for name, *row in SNIPPETS if name == module]
        (tmp_path / f"{module}.py").write_text(text)
        last = (value if isinstance(value, str) else str(value)).rpartition(":")[2]
        return import_object(f"{tmp_path / module}.py:{re.sub('[^A-Za-z]', '', last)}")

    return load


@pytest.mark.parametrize(
    ("answer", "right"), [("It is Paris.", 1 / 3), ("Tokyo or Nairobi", 2 / 3), ("Bern", 0)]
)
def test_the_set_of_the_page_scores_answers(answer, right, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    player = {"kind": "scripted", "texts": [answer]}
    run = equipoise.evaluate(player, part("capital_set"), out="run", progress=False)
    [mean] = run.benchmarks()["mean"]
    assert mean == pytest.approx(right)


def match(*texts: str | None, id: str = "m") -> Match:
    """A match of answers to one chat; None: a move that failed."""
    seats = [str(n + 1) for n in range(len(texts))]
    moves = [Move("", "error", error="oops") if text is None else Move(text) for text in texts]
    view = View((user("?"),))
    turns = tuple(Turn(seat, view, move) for seat, move in zip(seats, moves, strict=True))
    players = dict.fromkeys(seats, PlayerId("policy", 3))
    return Match(id, 3, "train", "answers", "p", players, 0, turns)


def judgement(match: Match, *scores: float | None) -> Judgement:
    by_seat = {
        seat: {"score": 0.0, "tact": score}
        for seat, score in zip(match.seats, scores, strict=True)
        if score is not None
    }
    return Judgement(f"j-{match.id}", match.id, "test", by_seat)


def test_the_pair_makers_of_the_page_pair_answers(part):
    one, level = match("a", "bbbb", "cc", "dddddddd"), match("x", "y", "z", id="level")
    judged = JudgedMatches(
        [one, level], [judgement(level, 1, 1, None), judgement(one, 3, 1, 4, 0)], "tact"
    )
    pairs, without = part("near_length")().make(judged)
    assert [(pair.chosen, pair.rejected) for pair in pairs] == [("cc", "a")]
    assert without == {"tie": 1}
    pairs, without = part("next_seat")().make(judged)
    assert [(pair.chosen, pair.rejected, pair.chosen_score) for pair in pairs] == [
        ("a", "bbbb", 3),
        ("cc", "bbbb", 4),
        ("cc", "dddddddd", 4),
    ]
    assert without == {"level": 1}


@pytest.mark.parametrize(
    ("texts", "scores"),
    [
        (("three words here", "two words"), [0, 1]),
        (("", "any number of words"), [0, 1]),
        (("one", "another"), [0.5, 0.5]),
        (("one", None), None),
    ],
)
def test_the_judge_of_whole_matches_of_the_page_scores_seats(texts, scores, part):
    [judged] = part("undercut_judge")().judge([match(*texts)], {})
    found = judged.scores and [values["score"] for values in judged.scores.values()]
    assert found == scores
    assert bool(judged.reason) == (scores is None)


def assert_shown(title: str, folder: Path) -> None:
    """A measure has its headline, its change, its curve and its line in trackers."""
    page = (folder / "report.html").read_text()
    assert f"{title} of policy@1" in page
    with RunDirectory.read(folder, trust=True) as run:
        measured = history(run)
        assert [change.unit for change in changes(run) if change.name == title] == ["%"]
        share = measured.last.measures.added[title]["policy@1"].mean
        assert measured.last.measures.tracked(1, measured.added)["Distinct/policy"] == share > 0


def test_the_page_shows_a_part_of_each_sort():
    assert len(BLOCKS) == PAGE.count("```python")
    assert {setting for _, setting, _, _ in SNIPPETS} == {
        "judge",
        "game",
        "loss",
        "learner",
        "measures",
        "pairs",
        "training_ratings",
        "prompts",
        "players",
        "evaluate",
    }
