"""The parts that docs/change_a_piece.md shows can be named by import path, and a run plays with them."""

import re
import sys
from pathlib import Path

import pytest
from small_runs import SMALL, settings

import equipoise
from equipoise.report.history import history
from equipoise.report.page import changes
from equipoise.runs.directory import RunDirectory
from equipoise.system.yaml_text import parse_yaml

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


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "setting", "value", "text"), SNIPPETS, ids=[s[0] for s in SNIPPETS]
)
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


@pytest.mark.parametrize(
    ("answer", "right"), [("It is Paris.", 1 / 3), ("Tokyo or Nairobi", 2 / 3), ("Bern", 0)]
)
def test_the_set_of_the_page_scores_answers(answer, right, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [text] = [text for module, *_, text in SNIPPETS if module == "capitals"]
    Path("capitals.py").write_text(text)
    player = {"kind": "scripted", "texts": [answer]}
    run = equipoise.evaluate(player, "capitals.py:Capitals", out="run", progress=False)
    [mean] = run.benchmarks()["mean"]
    assert mean == pytest.approx(right)


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
