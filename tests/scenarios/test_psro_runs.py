"""PSRO as whole runs on matrix games: the equilibrium is reached, and exactly."""

import numpy as np
import pytest

import equipoise
from equipoise.environments.matrix.game import KNOWN
from equipoise.evaluation.meta_measures import ANYBODY, MetaGameMeasures
from equipoise.report.history import history
from equipoise.report.page import headlines
from equipoise.runs.directory import RunDirectory
from equipoise.solvers.zero_sum import nash

pytestmark = pytest.mark.long  # whole runs


def measured(run: equipoise.Run) -> list[MetaGameMeasures]:
    with RunDirectory.read(run.path) as opened:
        return [m.measures for m in history(opened).measurements]


def play(tmp_path, **settings) -> equipoise.Run:
    return equipoise.run(
        "psro_matrix",
        {key.replace("__", "."): value for key, value in settings.items()},
        tmp_path / "run",
        progress=False,
    )


def test_one_league_reaches_the_equilibrium_exactly(tmp_path):
    run = play(tmp_path)
    last = measured(run)[-1]
    assert last.policies[ANYBODY] == pytest.approx(np.array([1, 10, 5]) / 16, abs=1e-12)
    assert last.exploitability < 1e-12
    assert last.values[ANYBODY] == pytest.approx(0)
    with RunDirectory.read(run.path) as opened:
        assert any("exploitability" in line.label for line in headlines(opened))
    assert "The growing league" in (run.path / "report.html").read_text()


def test_two_roles_reach_the_value_of_a_zero_sum_game(tmp_path):
    """gpo_matrix's game; both sides answer the other's mixture in every generation."""
    payoffs = [
        [0.95, 0.90, 0.85, 0.15],
        [0.10, 0.15, 0.20, 1.00],
        [0.95, 0.25, 0.80, 0.70],
        [0.60, 0.80, 0.25, 0.75],
    ]
    run = play(
        tmp_path,
        generations=6,
        players={
            "policy": None,
            "defender": {"kind": "tabular", "learns": True},
            "adversary": {"kind": "tabular", "learns": True},
        },
        game={
            "kind": "matrix",
            "name": "custom",
            "row_actions": list("abcd"),
            "column_actions": list("wxyz"),
            "payoffs": payoffs,
        },
        schedule={"kind": "psro", "roles": {"row": "defender", "column": "adversary"}},
    )
    last = measured(run)[-1]
    assert last.exploitability < 1e-9
    assert last.values["row"] == pytest.approx(nash(np.array(payoffs))[2], abs=1e-9)
    row_A, column_M = (np.array(last.policies[role]) for role in ("row", "column"))
    np.testing.assert_allclose(row_A @ payoffs @ column_M, last.values["row"])


def test_where_pay_offs_are_played_only_new_cells_are(tmp_path):
    """The same league, its pay-offs estimated by matches: one a cell and order."""
    run = play(
        tmp_path,
        prompts={"kind": "blank", "per_generation": 1, "held_out": 2},
        evaluate={"kind": "meta_game", "exact": False},
    )
    records = measured(run)
    _, rows = KNOWN["biased_rock_paper_scissors"]
    played = np.array(records[2].payoff)
    np.testing.assert_allclose(played, rows)  # pure players: every match pays the same
    assert list(records[2].mixture.values()) == pytest.approx([1 / 16, 10 / 16, 5 / 16])
    with RunDirectory.read(run.path) as opened:
        (held_out,) = opened.ledger.rows("SELECT count(*) FROM matches WHERE split = 'held_out'")
    assert held_out == (4 * 4 * 2,)  # 4 members, each ordered pair once, 2 prompts
