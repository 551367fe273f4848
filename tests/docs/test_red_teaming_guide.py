"""What docs/gpo.md shows is what the package takes, and nothing of the kind is left out."""

import re
from pathlib import Path

import pytest

from equipoise.data.shaping import Shaping
from equipoise.environments.red_team.game import RedTeam
from equipoise.environments.red_team.red_teaming import RedTeaming
from equipoise.learners.estimators import Estimator
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.losses.policy import PolicyLoss
from equipoise.matches.roles import Roles
from equipoise.runs.recipe_loader import load
from equipoise.runs.turns import Turns

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "gpo.md").read_text()


def test_the_run_is_valid(tmp_path):
    snippet, _ = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "qwen.yaml").write_text(snippet)
    config = load(tmp_path / "qwen.yaml")
    assert config.learning == ["defender", "adversary"]
    assert config.learner_of("adversary").settings()["learning_rate"] == 3e-6
    assert config.learner_of("adversary").settings()["precision"] == "bf16"
    assert config.judge.settings()["guard"]["opening"] == "\n\n"
    assert config.players["defender"].settings()["max_new_tokens"] == 256


@pytest.mark.parametrize(
    "names",
    [
        Turns.KINDS,
        Shaping.KINDS,
        RedTeam.model_fields.keys() - {"kind"},
        Roles.model_fields.keys() & {"samples", "raw", "replay"},
        Estimator.KINDS,
        PolicyLoss.KINDS,
    ],
    ids=["turns", "shaping", "game", "schedule", "estimators", "policy losses"],
)
def test_all_of_a_kind_are_named(names):
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_only_settings_that_there_are_are_named():
    rows = re.findall(
        r"^\| (`[^|]*?) \|", PAGE.partition("| setting |")[2].partition("\n\n")[0], re.MULTILINE
    )
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(named) == 17
    assert named <= PolicyGradient.model_fields.keys()
    assert {"every", "transfer"} <= RedTeaming.model_fields.keys()
