"""Likelihoods of options through a run: recorded, not asked twice, and refused in words of a player
that has none.
"""

from __future__ import annotations

import json

import pytest

from equipoise.api import functions as api
from equipoise.api.measure_sets import model_settings
from equipoise.errors import ConfigError
from equipoise.ledger.benchmark_results import results
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from tests.evaluation.named_sets.test_choices import ROWS


@pytest.fixture
def sets(tmp_path) -> list[dict]:
    """A row of every published set, by likelihood."""
    made = []
    for name, row in ROWS.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(row) + "\n")
        made.append({"kind": name, "path": str(path), "chat": name == "arc"})
    return made


def run_of(folder, settings: dict):
    with new_run(recipe_loader.load(settings), folder):
        return folder


def measured(folder, sets):
    api.evaluate(folder, sets, None, [], None, players=[], player_settings=[])
    with RunDirectory.read(folder) as run:
        return {row.benchmark: row for row in results(run.ledger)}


@pytest.mark.long
def test_a_local_model_scores_every_set(model_folder, sets, tmp_path):
    model = str(model_folder("llama"))
    run = run_of(tmp_path / "run", model_settings(model, []))
    first = measured(run, sets)
    assert first.keys() == ROWS.keys()
    assert all(0 <= row.score.interval.mean <= 1 for row in first.values())
    with RunDirectory.read(run) as directory:
        query = "SELECT count(*) FROM logprobs"
        (before,) = next(iter(directory.ledger.rows(query)))
    again = measured(run, sets)
    with RunDirectory.read(run) as directory:
        (after,) = next(iter(directory.ledger.rows(query)))
    # truthfulqa's five choices are three texts, winogrande's text has two contexts
    assert (before, after) == (2 + 4 + 2 + 2 + 4 + 3, before)
    assert again == first


def test_a_player_without_likelihoods_is_refused(sets, tmp_path):
    settings = model_settings("builtin/world", [])
    settings["players"] = {"model": {"kind": "scripted", "text": "A"}}
    run = run_of(tmp_path / "run", settings)
    with pytest.raises(ConfigError, match=r"gives no likelihoods.*generated"):
        measured(run, sets[:1])
