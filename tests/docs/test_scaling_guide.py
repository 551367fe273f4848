"""What the guide to larger trainings shows can be pasted into a recipe."""

import re
from pathlib import Path

import pytest
import yaml

from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_guide_shows_valid_settings(block):
    values = recipe_loader.merge(recipe_loader.read("quickstart"), yaml.safe_load(block))
    resolved = recipe_loader.build(values, "docs/scaling.md")
    assert recipe_loader.build(yaml.safe_load(resolved.yaml()), "again") == resolved


def test_the_guide_counts_right():
    several = recipe_loader.build(
        recipe_loader.merge(recipe_loader.read("quickstart"), yaml.safe_load(BLOCKS[0])),
        "docs/scaling.md",
    )
    assert several.learner.steps(1280) == 10 * several.learner.epochs


def test_an_unknown_configuration_is_said_when_the_recipe_is_read():
    with pytest.raises(
        ConfigError,
        match=r"-s learner.launch.config=fsdp: .*no such file: 'fsdp'; did you mean 'fsdp2'",
    ):
        recipe_loader.load("quickstart", ["learner.launch.config=fsdp"])
    loaded = recipe_loader.load(
        "quickstart", ["learner.launch.config=ddp", "learner.launch.num_processes=4"]
    )
    assert loaded.learner.launch.processes == 4
