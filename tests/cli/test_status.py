"""`equipoise status` of a run in which players learn in turn."""

import pytest

from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory


@pytest.mark.long
def test_whose_turn_it_is_is_said_where_turns_alternate(command, tmp_path):
    with RunDirectory.create(recipe_loader.load("gpo_clerks"), tmp_path / "run") as run:
        for t, names in enumerate((["defender"], ["adversary"])):
            before = command("status", "run", "--json").facts
            assert "turn" not in before  # nobody else has had a turn yet
            run.ledger.finish(f"{t}/turn", t, "turn", {"learn": names}, 0.0)
    assert command("status", "run", "--json").facts["turn"] == "adversary"
    assert "turn" in command("status", "run").out
