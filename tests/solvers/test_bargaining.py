"""Bargaining: Nash's axioms, and the best of a fine grid of lotteries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.solvers.bimatrix import lottery_agreement, maxmin, pure_agreement

points = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=6)


def test_known_games():
    told = lottery_agreement([(4, 0), (0, 2)], (0, 0))
    assert told is not None
    assert told.weight_N == pytest.approx([0.5, 0.5])
    assert (told.user, told.llm, told.product) == pytest.approx((2, 1, 2))
    single = pure_agreement([(4, 0), (0, 2), (1, 1)], (0, 0))
    assert single is not None and single.weight_N.tolist() == [0, 0, 1]
    assert maxmin(np.array([[1.0, -1], [-1, 1]]), np.array([[3.0, 5], [0, 1]])) == pytest.approx(
        (0, 1)
    )


def test_two_losses_are_no_gain():
    assert pure_agreement([(-3, -3), (-1, 2)], (0, 0)) is None
    assert lottery_agreement([(-3, -3), (-1, 2)], (0, 0)) is None
    told = pure_agreement([(-3, -3), (1, 1)], (0, 0))
    assert told is not None and told.user == 1


def test_an_agreement_that_only_one_gains_from():
    told = lottery_agreement([(0, 3), (0, 1), (-2, 9)], (0, 0))
    assert told is not None and (told.user, told.llm) == (0, 3)
    between = lottery_agreement([(-1, 2), (1, -2)], (0, 0))  # only the middle is no loss to anyone
    assert between is not None and (between.user, between.llm) == pytest.approx((0, 0))


@settings(max_examples=40, deadline=None)
@given(points, st.integers(0, 999))
def test_no_lottery_has_a_larger_product(cells, seed):
    told = lottery_agreement(cells, (0, 0))
    weight_SN = np.random.default_rng(seed).dirichlet(np.full(len(cells), 0.3), 400)
    gain_S2 = weight_SN @ np.array(cells, float)
    gain_S2 = gain_S2[(gain_S2 >= 0).all(axis=1)]
    best = gain_S2.prod(axis=1).max(initial=-1.0)
    assert (told is None and best < 0) or (told is not None and told.product >= best - 1e-9)
    if told is not None:
        assert told.weight_N.sum() == pytest.approx(1) and told.weight_N.min() >= 0
        alone = pure_agreement(cells, (0, 0))
        assert alone is None or alone.product <= told.product + 1e-9


@settings(max_examples=30, deadline=None)
@given(points)
def test_units_and_origins_do_not_count(cells):
    cells = np.array(cells, float)
    one, two = (
        lottery_agreement(cells, (0, 0)),
        lottery_agreement(cells * [2, 5] + [3, -7], (3, -7)),
    )
    assert (one is None) == (two is None)
    if one is not None and two is not None:
        assert two.product == pytest.approx(10 * one.product, abs=1e-7)


@pytest.mark.parametrize("seed", range(10))
def test_against_what_each_is_sure_of_there_is_always_an_agreement(seed):
    user_AM, llm_AM = np.random.default_rng(seed).normal(size=(2, 2, 3))
    told = lottery_agreement(
        np.stack([user_AM.ravel(), llm_AM.ravel()], axis=1), maxmin(user_AM, llm_AM)
    )
    assert told is not None and told.product >= -1e-9


def test_faults():
    with pytest.raises(ValueError, match="points_N2"):
        pure_agreement([], (0, 0))
    with pytest.raises(ValueError, match="disagreement"):
        lottery_agreement([(1, 1)], (0, float("nan")))
