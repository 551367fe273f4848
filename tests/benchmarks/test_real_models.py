"""The table of systems on real models: a row a raw result, with its control."""

import pytest

from benchmarks import method_tables
from benchmarks.form_cycle import ARMS, EXPERIMENT, distance, shares_of
from benchmarks.method_tables import TABLES, RealModel, RealModels
from benchmarks.verdicts import Item, Scores
from equipoise.runs import recipe_loader


def test_a_system_without_a_raw_result_has_no_row(monkeypatch, tmp_path):
    (tmp_path / "made.json").write_text("{}")
    rows = [("start", 0.25), ("optimistic", 0.05), ("dpo", 0.5)]
    scores = Scores(Item(arm, seed, 1, "", "last", value) for arm, value in rows for seed in (1, 2))
    monkeypatch.setattr(method_tables, "RESULTS", tmp_path)
    monkeypatch.setattr(method_tables, "raw", lambda file: (scores, {}))
    shared = {"column": "last", "arm": "optimistic", "control": ("dpo", "DPO")}
    table = RealModels(
        (
            RealModel("a", "x", "made", command="make a", takes="1 minute", share=False, **shared),
            RealModel("b", "x", "absent", command="make b", takes="1 minute", **shared),
        )
    )
    [row] = table.rows()
    assert len(row) == len(table.head())
    assert row[0] == "a"
    assert [cell.split()[0] for cell in row[2:4]] == ["0.250", "0.050"]
    assert row[4].startswith("DPO 0.500")
    assert "real_models" in TABLES


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_of_the_cycle_is_a_recipe(arm):
    config = recipe_loader.load("smollm2_cycle", ARMS[arm])
    kinds = {"mnpo, one": "mnpo", "mnpo, two": "mnpo", "mnpo, three": "mnpo"}
    assert config.loss.kind == kinds.get(arm, arm)
    assert EXPERIMENT.trial.claims[0].first in ARMS


def test_shares_and_their_distance():
    first = shares_of([("p", "bullets"), ("q", "bullets"), ("q", "none"), ("r", "title")])
    assert first.tolist() == [0.5, 0.25, 0, 0.25]
    second = shares_of([("p", "sentence")])
    assert distance(first, second) == 1
    assert distance(first, first) == 0
