"""Small examples in which an exchanged name, a turned condition or a missing line would be seen."""

import json
import sys
from typing import ClassVar, Literal

import pytest

from equipoise.environments.red_team.game import RedTeam
from equipoise.errors import ConfigError
from equipoise.evaluation.harnesses import lm_eval_worker
from equipoise.evaluation.held_out_measures import HeldOut
from equipoise.evaluation.league_measures import LeagueMeasures
from equipoise.evaluation.sets.problems import last_boxed
from equipoise.evaluation.sets.refusal_sets import _item
from equipoise.evaluation.sets.results_section import difference_text
from equipoise.ledger.facts import Estimate
from equipoise.types import user


@pytest.mark.parametrize(
    ("row", "group"),
    [
        ({"type": "homonyms"}, "homonyms"),
        ({"category": "fire"}, "fire"),
        ({"type": "contrast", "category": "fire"}, "contrast"),
        ({}, ""),
    ],
)
def test_a_request_is_of_its_type_or_else_of_its_category(row, group):
    item = _item(("file, row 1", {"id": "a", "prompt": "How?", **row}), harmful=True)
    assert (item.group, item.prompt.facts, item.prompt.messages) == (
        group,
        {"harmful": True},
        (user("How?"),),
    )


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"\boxed{4}", "4"),
        (r"so \boxed{1}, or rather \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{4", None),
        ("4", None),
    ],
)
def test_the_last_box_is_read_wherever_it_stands(text, boxed):
    assert last_boxed(text) == boxed


@pytest.mark.parametrize(
    ("estimate", "unit", "text"),
    [
        (Estimate(0.041, 0.01, 0.072, 9), "%", "+4.1 points (+1.0 to +7.2)"),
        (Estimate(-0.5, None, None, 9), "%", "-50.0 points (no two items differ)"),
        (Estimate(None, None, None, 0), "%", "–"),
    ],
)
def test_a_difference_of_shares_is_in_points(estimate, unit, text):
    assert difference_text(estimate, unit) == text


def test_a_difference_of_grades_is_in_their_own_unit():
    text = difference_text(Estimate(1.5, 0.5, 2.5, 9), "")
    assert text.startswith("+1.5")
    assert "points" not in text
    assert difference_text(Estimate(-1.5, -2.5, -0.5, 9), "").startswith(("-1.5", "−1.5"))


class MoreMeasures(LeagueMeasures, frozen=True, kw_only=True, omit_defaults=True):
    """With a number of its own."""


class OwnHeldOut(HeldOut):
    """Measures that a game of roles has no place for."""

    kind: Literal["own"] = "own"
    measures: ClassVar = MoreMeasures


def test_measures_of_ones_own_are_refused_in_a_game_of_roles():
    roles = {"adversary": "red", "defender": "blue"}
    HeldOut().check(RedTeam(), roles, [], tests=False)
    with pytest.raises(ConfigError, match="'own' adds to LeagueMeasures, but a game of roles"):
        OwnHeldOut().check(RedTeam(), roles, [], tests=False)


def test_a_job_of_lm_eval_goes_from_one_file_to_another(tmp_path, monkeypatch):
    """In this process, without lm-eval: the fault says what is missing."""
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    job, out = tmp_path / "job.json", tmp_path / "out.json"
    job.write_text('{"do": "tasks", "tasks": ["arc"], "include_path": null}')
    lm_eval_worker.main(str(job), str(out))
    reply = json.loads(out.read_text())
    assert reply["fault"] == "absent"
    assert "lm_eval" in reply["message"]


def test_a_hub_that_does_not_answer_is_told_from_other_faults():
    unreachable = type("ProxyError", (Exception,), {})
    behind = RuntimeError("no data")
    behind.__cause__ = ValueError()
    behind.__cause__.__context__ = unreachable()
    assert lm_eval_worker._unreachable(behind)
    assert lm_eval_worker._unreachable(unreachable())
    assert not lm_eval_worker._unreachable(RuntimeError())
    assert not lm_eval_worker._unreachable(None)
    assert lm_eval_worker._message(ValueError("\n first \nsecond")) == "ValueError: first"
    assert lm_eval_worker._message(ValueError()) == "ValueError"
