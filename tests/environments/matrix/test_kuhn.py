"""Kuhn poker in normal form, and a league of best responses that solves it, against OpenSpiel's
rules and its NashConv.
"""

import numpy as np
import pytest

import equipoise
from equipoise.environments.matrix.game import CARDS, Matrix, kuhn_poker
from equipoise.report.history import history
from equipoise.runs.directory import RunDirectory
from equipoise.solvers.zero_sum import nash


def test_the_value_is_known():
    first, second, payoff_AM = kuhn_poker()
    assert payoff_AM.shape == (len(first), len(second)) == (27, 64)
    assert nash(payoff_AM)[2] == pytest.approx(-1 / 18)
    rules = Matrix(name="kuhn_poker")
    assert not rules.symmetric
    passive = {"row": "J:pp Q:pp K:pp", "column": "J:pp Q:pp K:pp"}
    assert rules.outcome(passive) == {"row": 0, "column": 0}
    bold = {"row": "J:pp Q:pp K:b", "column": "J:pp Q:pp K:pb"}
    assert rules.outcome(bold) == {"row": 0, "column": 0}  # a king meets no king
    caught = {"row": "J:pp Q:pb K:b", "column": "J:pp Q:pp K:bp"}
    # the jack gives way to the king's bet, the queen pays it
    assert rules.outcome(caught)["row"] == pytest.approx((-1 - 1 - 2 + 1 + 1 + 1) / 6)


def behaviour(plan_weights, names, histories):
    """Information state -> P(bet), of a mixture over plans: each plan weighs what its own earlier
    moves leave of it.
    """
    bets = {}
    for card, letter in enumerate(CARDS):
        for history_, place in histories.items():
            asked = bet = 0.0
            for name, weight in zip(names, plan_weights, strict=True):
                choice = name.split()[card].removeprefix(f"{letter}:")
                if place < len(choice):  # the first who bet is not asked again
                    asked += weight
                    bet += weight * (choice[place] == "b")
            bets[f"{card}{history_}"] = bet / asked if asked > 0 else 0.0
    return bets


@pytest.mark.long
def test_best_responses_solve_it_by_open_spiels_own_measure(tmp_path):
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")
    exploit = pytest.importorskip("open_spiel.python.algorithms.exploitability")
    policies = pytest.importorskip("open_spiel.python.policy")
    run = equipoise.run("psro_kuhn", out=tmp_path / "run", progress=False)
    with RunDirectory.read(run.path) as opened:
        measured = [m.measures for m in history(opened).measurements]
    last = measured[-1]
    assert last.values["row"] == pytest.approx(-1 / 18, abs=1e-9)
    assert last.exploitability < 1e-9 < 0.03 < measured[6].exploitability

    row, column = last.policies["row"], last.policies["column"]
    first, second, _ = kuhn_poker()
    bets = behaviour(row, first, {"": 0, "pb": 1})
    bets |= behaviour(column, second, {"p": 0, "b": 1})
    game = pyspiel.load_game("kuhn_poker")
    table = policies.TabularPolicy(game)
    for state, bet in bets.items():
        table.policy_for_key(state)[:] = [1 - bet, bet]
    assert exploit.nash_conv(game, table) < 1e-9


def test_the_matrix_is_open_spiels():
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")
    theirs = pyspiel.extensive_to_matrix_game(pyspiel.load_game("kuhn_poker"))
    payoff_AM = np.array(theirs.row_utilities())
    distinct = {tuple(row) for row in np.round(np.sort(payoff_AM, axis=1), 9)}
    ours = {tuple(row) for row in np.round(np.sort(kuhn_poker()[2], axis=1), 9)}
    assert distinct == ours  # their first has 64 plans, of which 27 differ in play
