"""Equilibria of bimatrix games: known games, degenerate ones, zero-sum ones, and an independent
implementation.
"""

import nashpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from equipoise.solvers.bimatrix import equilibria, nash_gap, pure_equilibria
from equipoise.solvers.zero_sum import nash

BATTLE = np.array([[3.0, 0], [0, 2]]), np.array([[2.0, 0], [0, 3]])
PENNIES = np.array([[1.0, -1], [-1, 1]]), np.array([[-1.0, 1], [1, -1]])
DILEMMA = np.array([[3.0, 0], [5, 1]]), np.array([[3.0, 5], [0, 1]])
COORDINATION = np.eye(3), np.eye(3)


def pairs(elements):
    shapes = st.tuples(st.integers(1, 4), st.integers(1, 4))
    return shapes.flatmap(lambda shape: st.tuples(*[arrays(float, shape, elements=elements)] * 2))


@pytest.mark.parametrize(
    ("game", "number", "of_them_pure"),
    [(BATTLE, 3, 2), (PENNIES, 1, 0), (DILEMMA, 1, 1), (COORDINATION, 7, 3)],
)
def test_known_games(game, number, of_them_pure):
    found = equilibria(*game)
    assert len(found) == number
    assert len(pure_equilibria(*game)) == of_them_pure
    assert [
        (int(e.row_A.argmax()), int(e.column_M.argmax())) for e in found[:of_them_pure]
    ] == pure_equilibria(*game)


def test_known_mixtures():
    *_, mixed = equilibria(*BATTLE)
    assert mixed.row_A == pytest.approx([0.6, 0.4])
    assert mixed.column_M == pytest.approx([0.4, 0.6])
    assert (mixed.row_value, mixed.column_value) == pytest.approx((1.2, 1.2))


def test_degenerate_games_keep_what_supports_of_equal_size_miss():
    # The row side does not care; the column side's reply changes with the row's mixture at one
    # half.
    found = equilibria(np.zeros((2, 1)), np.zeros((2, 1)))
    assert [e.row_A.tolist() for e in found] == [[1, 0], [0, 1]]
    row_AM, column_AM = (np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 1.0]]))
    kept = {(tuple(e.row_A), tuple(e.column_M)) for e in equilibria(row_AM, column_AM)}
    assert kept == {((1, 0), (1, 0)), ((1, 0), (0, 1))}
    assert len(equilibria(np.ones((2, 3)), np.ones((2, 3)))) == 6


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(pairs(st.integers(-2, 2).map(float)))
def test_games_full_of_ties(game):
    found = equilibria(*game)
    assert found
    assert all(nash_gap(*game, e.row_A, e.column_M) <= 1e-9 for e in found)
    alone = [e for e in found if max(e.row_A) == max(e.column_M) == 1]
    assert {(int(e.row_A.argmax()), int(e.column_M.argmax())) for e in alone} == set(
        pure_equilibria(*game)
    )


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(pairs(st.floats(-5, 5)))
def test_any_game_has_an_equilibrium_and_every_one_holds(game):
    found = equilibria(*game)
    unit = max(1.0, *(float(np.ptp(side)) for side in game))
    assert all(nash_gap(*game, e.row_A, e.column_M) <= 1e-9 * unit for e in found)
    for e in found:
        assert e.row_value == pytest.approx(e.row_A @ game[0] @ e.column_M)


@pytest.mark.parametrize("seed", range(12))
def test_nashpy_finds_the_same_in_games_without_ties(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, 2))
    game = rng.normal(size=shape), rng.normal(size=shape)
    # Its support enumeration asks for weights of at least 0 before rounding, and misses some of
    # these.
    other_E = np.array([np.r_[x, y] for x, y in nashpy.Game(*game).vertex_enumeration()])
    found = equilibria(*game)
    assert len(found) == len(other_E)
    for e in found:
        assert np.abs(other_E - np.r_[e.row_A, e.column_M]).max(axis=1).min() < 1e-7


def test_golden_zero_sum_games_have_their_value(golden):
    games = golden("zero_sum_games.json")["zero_sum"]
    small = [(np.array(game["row_payoff"]), game["value"]) for game in games]
    small = [(payoff_AM, value) for payoff_AM, value in small if max(payoff_AM.shape) <= 6]
    assert small
    for payoff_AM, value in small:
        assert nash(payoff_AM)[2] == pytest.approx(value, abs=1e-8)
        assert {round(e.row_value - value, 7) for e in equilibria(payoff_AM, -payoff_AM)} == {0}


def test_neither_unit_nor_origin_changes_equilibria():
    rng = np.random.default_rng(5)
    row_AM, column_AM = rng.normal(size=(2, 2, 3))
    one, two = (equilibria(row_AM, column_AM), equilibria(1e-6 * row_AM + 3, 1e7 * column_AM - 9))
    assert np.array([e.row_A for e in one]) == pytest.approx(np.array([e.row_A for e in two]))


def test_gap_of_a_wrong_pair_and_faults():
    assert nash_gap(*DILEMMA, [1, 0], [1, 0]) == 2
    with pytest.raises(ValueError, match="8 × 8"):
        equilibria(np.zeros((9, 9)), np.zeros((9, 9)))
    with pytest.raises(ValueError, match="shape"):
        equilibria(np.zeros((2, 2)), np.zeros((2, 3)))
