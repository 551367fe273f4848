"""What the README shows can be run."""

import re
from pathlib import Path

import pytest

from equipoise.run import config

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


@pytest.mark.parametrize("snippet", re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))
def test_a_recipe_of_the_readme_loads(snippet, tmp_path):
    path = tmp_path / "pool.yaml"
    path.write_text(snippet)
    resolved = config.load(path, ["prompts.path=prompts.jsonl"])
    assert {name: player.learns for name, player in resolved.players.items()} == {
        "coder": True,
        "writer": True,
        "small": True,
        "outside": False,
    }


def test_every_recipe_is_named_there():
    assert all(f"`{name}`" in README for name in config.recipes())
