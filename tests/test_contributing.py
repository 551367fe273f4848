"""The parts that CONTRIBUTING shows whole can be named by import path, and a run plays with them."""

import re
import sys
from pathlib import Path

import pytest
from small import SMALL, settings

from equipoise.report.history import history
from equipoise.report.page import changes
from equipoise.runs.directory import RunDirectory

PAGE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text()
SNIPPETS = re.findall(
    r"```python\n# (\w+)\.py; in the recipe: (\w+): \"([\w:]+)\"\n(.*?)```", PAGE, re.DOTALL
)
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
# a part of the run's settings -> who plays, where quickstart's one player is not enough
PLAYERS = {
    "training_ratings": POOL,
    # the model never says please: alone, it would have nothing to learn from
    "judge": {"ann": POOL["ann"], "ben": COURTEOUS},
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "setting", "kind", "text"), SNIPPETS, ids=[s[0] for s in SNIPPETS]
)
def test_a_part_of_the_page_plays(module, setting, kind, text, command, tmp_path, monkeypatch):
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)
    pool = PLAYERS.get(setting)
    players = settings(players=pool, schedule="round_robin") if pool else []
    few = settings(
        **{setting: kind}, prompts__per_generation=48, prompts__held_out=4, evaluate__samples=1
    )
    done = command("run", "quickstart", *SMALL, *players, *few, "--out", "run", "--json")
    assert done.code == 0, done.err
    if setting == "evaluate":
        assert_shown("mean answer length", Path("run"))
        assert len([line for line in text.splitlines() if line]) <= 15


def assert_shown(title: str, folder: Path) -> None:
    """A quantity has its headline, its change, its curve and its line in trackers."""
    page = (folder / "report.html").read_text()
    assert f"{title} of policy@1" in page and f"{title} of policy<" in page
    with RunDirectory.read(folder, trust=True) as run:
        last = history(run).last.measures
        assert [change.unit for change in changes(run) if change.name == title] == ["characters"]
        assert last.tracked(1)["mean_answer_length/policy"] == last.length["policy@1"].mean > 0


def test_the_page_shows_a_part_of_each_sort():
    assert len(SNIPPETS) == PAGE.count("```python")
    assert {setting for _, setting, _, _ in SNIPPETS} == {
        "judge",
        "game",
        "loss",
        "training_ratings",
        "evaluate",
    }
