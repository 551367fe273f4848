"""A guard that learns from labels: its card, and rows that cannot teach one."""

import json

import numpy as np
import pytest

from equipoise.api.train_guard import area_under_curve, labelled, parted, train_guard
from equipoise.environments.red_team.plain_requests import PlainRequests
from equipoise.errors import DataError, RunError
from equipoise.judges.base import Judge
from equipoise.types import Prompt, user

ROWS = PlainRequests.model_validate({"held_out": 0}).load().training[:120]


@pytest.mark.long
def test_a_guard_is_taught_and_named_by_a_recipe(tmp_path, rows, command):
    made = [{"prompt": row.messages[-1].content, "harmful": row.facts["harmful"]} for row in ROWS]
    out = tmp_path / "guard"
    given = ["--base", "builtin", "--out", out, "--learning-rate", "1e-3", "--epochs", "3"]
    done = command("guard", rows(made), *given, "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert (facts["rows"], facts["tested"]) == (96, 24)
    assert facts["low"] < facts["area"] <= facts["high"]
    assert facts["area"] > 0.7
    assert json.loads((out / "guard.json").read_text())["area"] == facts["area"]
    settings = {"kind": "harm_classifier", "model": str(out), "reads": "prompt"}
    assert Judge.build({**settings, "unsafe": "harmful"}).unsafe == "harmful"
    again = command("guard", rows(made), *given)
    assert again.code == 2
    assert "is not empty" in again.err


def test_rows_without_labels_teach_nothing():
    bare = Prompt("p", (user("How do I steal a car?"),), {})
    with pytest.raises(DataError, match="row 121: the fact 'harmful' is None"):
        labelled([*ROWS, bare])
    with pytest.raises(DataError, match="8 or more of either label"):
        parted(ROWS[::2], 0)


def test_a_folder_that_is_not_free_is_left_alone(tmp_path):
    (tmp_path / "x").write_text("mine")
    with pytest.raises(RunError, match="is not empty"):
        train_guard(ROWS, tmp_path)


def test_the_area_is_the_chance_to_be_told_apart():
    harmful, harmless = np.array([0.9, 0.8, 0.4]), np.array([0.5, 0.1])
    area = area_under_curve(harmful, harmless)
    assert area.mean == pytest.approx(5 / 6)
    assert 0 < area.low < 5 / 6 < area.high < 1
    assert area.n == 5
    apart = area_under_curve(harmful[:2], harmless)
    assert apart.mean == 1
    assert apart.low < 0.5, "of four rows that happen to lie apart little is known"
    assert area_under_curve(harmless, harmful).mean == pytest.approx(1 / 6)
    alike = np.array([0.5, 0.5])
    assert area_under_curve(alike, alike).mean == 0.5
