"""Bargaining: Nash's axioms, and the largest product of gains by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.solvers.bimatrix import maxmin, pure_agreement

points = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=6)


def test_known_games():
    single = pure_agreement([(4, 0), (0, 2), (1, 1)], (0, 0))
    assert single is not None
    assert single.weight_N.tolist() == [0, 0, 1]
    assert (single.user, single.llm, single.product) == (1, 1, 1)
    assert maxmin(np.array([[1.0, -1], [-1, 1]]), np.array([[3.0, 5], [0, 1]])) == pytest.approx(
        (0, 1)
    )


def test_two_losses_are_no_gain():
    assert pure_agreement([(-3, -3), (-1, 2)], (0, 0)) is None
    told = pure_agreement([(-3, -3), (1, 1)], (0, 0))
    assert told is not None
    assert told.user == 1


def test_of_equal_products_the_largest_sum_is_taken():
    told = pure_agreement([(0, 1), (0, 3), (-2, 9)], (0, 0))
    assert told is not None
    assert (told.user, told.llm) == (0, 3)


@settings(max_examples=40, deadline=None)
@given(points)
def test_no_outcome_without_a_loss_has_a_larger_product(cells):
    told = pure_agreement(cells, (0, 0))
    products = [user * llm for user, llm in cells if min(user, llm) >= 0]
    assert (told is None) == (not products)
    assert told is None or told.product == pytest.approx(max(products))


@settings(max_examples=30, deadline=None)
@given(points)
def test_units_and_origins_do_not_count(cells):
    cells = np.array(cells, float)
    one = pure_agreement(cells, (0, 0))
    two = pure_agreement(cells * [2, 5] + [3, -7], (3, -7))
    assert (one is None) == (two is None)
    if one is not None and two is not None:
        assert two.product == pytest.approx(10 * one.product, abs=1e-7)


def test_faults():
    with pytest.raises(ValueError, match="points_N2"):
        pure_agreement([], (0, 0))
    with pytest.raises(ValueError, match="disagreement"):
        pure_agreement([(1, 1)], (0, float("nan")))
