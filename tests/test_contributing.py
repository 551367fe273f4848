"""The parts that CONTRIBUTING shows whole can be named by import path, and a run plays with them."""

import re
import sys
from pathlib import Path

import pytest
from small import SMALL, settings

PAGE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text()
SNIPPETS = re.findall(
    r"```python\n# (\w+)\.py; in the recipe: (\w+): \"([\w:]+)\"\n(.*?)```",
    PAGE,
    re.DOTALL,
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


@pytest.mark.parametrize(
    ("module", "setting", "kind", "text"), SNIPPETS, ids=[s[0] for s in SNIPPETS]
)
def test_a_part_of_the_page_plays(
    module, setting, kind, text, command, tmp_path, monkeypatch
):
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)
    two = ["-s", f"players={POOL}", *settings(schedule="round_robin")]
    players = two if setting == "training_ratings" else []
    few = settings(
        **{setting: kind},
        prompts__per_generation=16,
        prompts__held_out=4,
        evaluate__samples=1,
    )
    done = command(
        "run", "quickstart", *SMALL, *players, *few, "--out", "run", "--json"
    )
    assert done.code in (0, 2), (
        done.err
    )  # a judge by which all tie leaves nothing to learn
    assert done.code == 0 or "no pair to learn from" in done.err


def test_the_page_shows_a_part_of_each_sort():
    assert {setting for _, setting, _, _ in SNIPPETS} == {
        "judge",
        "game",
        "loss",
        "training_ratings",
    }
