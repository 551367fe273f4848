"""`equipoise status` of a run in which players learn in turn."""

import pytest

from equipoise.models.resources import Spending
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader


@pytest.mark.long
def test_whose_turn_it_is_is_said_where_turns_alternate(command, tmp_path):
    with new_run(recipe_loader.load("gpo_clerks"), tmp_path / "run") as run:
        for t, names in enumerate((["defender"], ["adversary"])):
            before = command("status", "run", "--json").facts
            assert "turn" not in before  # nobody else has had a turn yet
            run.ledger.finish(f"{t}/turn", t, "turn", {"learn": names}, 0.0)
    assert command("status", "run", "--json").facts["turn"] == "adversary"
    assert "turn" in command("status", "run").out


@pytest.mark.long
def test_what_an_account_was_charged_is_said(command, tmp_path):
    with new_run(recipe_loader.load("gpo_clerks"), tmp_path / "run") as run:
        request = run.ledger.reserve("lab", Spending(1, 70, 0.5))
        run.ledger.settle(request, "lab", Spending(1, 20, 0.25), {}, "key")
        run.ledger.reserve("lab", Spending(1, 70, 0.5))  # in flight
    numbers = {"calls": 2, "tokens": 90, "money": 0.75}
    lost = {"unanswered": 1, "unanswered_tokens": 70, "unanswered_money": 0.5}
    assert command("status", "run", "--json").facts["spent"] == {"lab": numbers | lost}
    words = " ".join(command("status", "run").out.split())
    assert "spent by lab 2 calls, 90 tokens, 0.75 of money" in words
    assert "unanswered: 1 call, 70 tokens, 0.5 of money" in words
