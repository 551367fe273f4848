"""Krippendorff's alpha: published values, properties, an independent implementation."""

import math

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.payoffs.judge_agreement import class_scores, correlations, krippendorff_alpha

N = math.nan
# Krippendorff 2011, §C (E for the metrics): four observers, twelve units, some values missing.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
LEVELS = ("ordinal", "interval")


@pytest.mark.parametrize(("level", "alpha"), [("ordinal", 0.815), ("interval", 0.849)])
def test_the_published_example(level, alpha):
    assert krippendorff_alpha(PUBLISHED, level) == pytest.approx(alpha, abs=5e-4)


def test_two_observers_and_two_values():
    """Krippendorff 2011, §A: ten units, o_01 = 4 of n = 20, n_0 = 14, n_1 = 6: 1 − 19·4/(14·6)."""
    first, second = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff_alpha([first, second], "interval") == pytest.approx(1 - 19 * 4 / (14 * 6))
    assert krippendorff_alpha([first, second], "interval") == pytest.approx(0.095, abs=5e-4)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_is_that_of_an_independent_implementation(level, data):
    judges, units = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 7))
    cell = st.one_of(st.just(N), st.integers(-2, 3).map(float))
    ratings = np.array(
        data.draw(
            st.lists(
                st.lists(cell, min_size=units, max_size=units), min_size=judges, max_size=judges
            )
        )
    )
    paired = ratings[:, (~np.isnan(ratings)).sum(0) >= 2]
    if len(np.unique(paired[~np.isnan(paired)])) < 2:
        assert math.isnan(krippendorff_alpha(ratings, level))
    else:
        expected = krippendorff.alpha(ratings, level_of_measurement=level)
        assert krippendorff_alpha(ratings, level) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_agreement_and_its_opposite(level):
    assert krippendorff_alpha([[1, 2, 3], [1, 2, 3]], level) == pytest.approx(1.0)
    assert krippendorff_alpha([[0, 1, 0, 1], [1, 0, 1, 0]], level) < -0.5


def test_chance_agrees_by_nothing():
    dice = np.random.default_rng(0).integers(0, 5, (3, 4000)).astype(float)
    assert all(abs(krippendorff_alpha(dice, level)) < 0.03 for level in LEVELS)


def test_the_scale_matters_only_where_it_should():
    ratings = np.array(PUBLISHED)
    assert krippendorff_alpha(1e6 + 3 * ratings) == pytest.approx(krippendorff_alpha(ratings))
    assert krippendorff_alpha(np.exp(ratings), "ordinal") == pytest.approx(
        krippendorff_alpha(ratings, "ordinal")
    )
    assert krippendorff_alpha(np.exp(ratings)) != pytest.approx(
        krippendorff_alpha(ratings), abs=1e-2
    )
    assert krippendorff_alpha(ratings[::-1, ::-1]) == pytest.approx(krippendorff_alpha(ratings))


@pytest.mark.parametrize(
    "ratings", [[[1, 2, 3]], [[1, N], [N, 2]], [[2, 2], [2, 2]], np.zeros((2, 0))]
)
def test_where_it_is_not_defined(ratings):
    assert all(math.isnan(krippendorff_alpha(ratings, level)) for level in LEVELS)


def test_what_is_no_table_of_ratings():
    with pytest.raises(ValueError, match="judges by units"):
        krippendorff_alpha([1.0, 2.0])
    with pytest.raises(ValueError, match="infinity"):
        krippendorff_alpha([[1, math.inf], [1, 2]])


def test_classes_by_vectors_computed_apart(oracle):
    case = oracle("gtalign_measures.json")["classes"]
    found = class_scores(case["true"], case["predicted"])
    assert found.keys() == case["expected"].keys()
    for name, expected in case["expected"].items():
        assert list(found[name]) == pytest.approx(expected, abs=1e-12)
    assert class_scores(["a"], ["b"])["a"] == (0, 0, 0, 1)


def test_correlations_by_hand():
    assert correlations([1, 2, 3, 4], [1, 4, 9, 16]) == pytest.approx((0.98437404, 1, 1))
    assert correlations([1, 1, 2], [3, 1, 2]).kendall == pytest.approx(0)
    assert np.isnan(correlations([1, 1], [1, 2])).all()
    with pytest.raises(ValueError, match="shapes differ"):
        correlations([1], [1, 2])
