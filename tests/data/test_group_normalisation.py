"""Values of groups made comparable."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.data.normalising import Method, normalise

METHODS = get_args(Method)
APART = ("z_score", "min_max", "robust_z", "rank", "cdf")  # of each group alone, in any unit
values = st.lists(st.tuples(st.integers(-20, 20), st.sampled_from("abc")), min_size=1, max_size=15)


def test_known_values():
    of = lambda method: normalise([1, 2, 3, 10], ["a"] * 4, method)  # noqa: E731
    assert of("none").tolist() == [1, 2, 3, 10]
    assert of("min_max") == pytest.approx([0, 1 / 9, 2 / 9, 1])
    assert of("z_score") == pytest.approx([(x - 4) / np.sqrt(12.5) for x in (1, 2, 3, 10)])
    assert of("robust_z") == pytest.approx([(x - 2.5) / 1.4826 for x in (1, 2, 3, 10)])
    assert normalise([5, 1, 5, 7], [0] * 4, "rank") == pytest.approx([0.5, 0, 0.5, 1])


def test_half_of_a_group_at_one_value_is_not_without_width():
    value_B = normalise([0, 0, 0, 1], ["a"] * 4, "robust_z")
    assert value_B == pytest.approx([0, 0, 0, 4 / np.sqrt(np.pi / 2)])


@pytest.mark.parametrize(
    ("method", "constant"),
    [
        ("z_score", 0),
        ("robust_z", 0),
        ("min_max", 0.5),
        ("rank", 0.5),
        ("tanh", 0),
        ("cdf", 0),
        ("decentralise", 0),
        ("self_adapt", 0),
    ],
)
def test_a_group_of_one_value_says_nothing(method, constant):
    value_B = normalise([0.1, 0.1, 0.1, 7.0, 1, 2], ["a", "a", "a", "b", "c", "c"], method)
    assert value_B[:4].tolist() == [constant] * 4
    assert value_B[4] < value_B[5]


@settings(max_examples=60)
@given(values, st.sampled_from(APART), st.integers(1, 9), st.integers(-50, 50))
def test_groups_are_apart_and_neither_unit_nor_origin_counts(rows, method, unit, origin):
    value_B, group_B = (
        np.array([row[0] for row in rows], float),
        np.array([row[1] for row in rows]),
    )
    result_B = normalise(value_B, group_B, method)
    for group in np.unique(group_B):
        mine_B = group_B == group
        other_B = np.where(mine_B, value_B * unit + origin, value_B - 100)
        assert normalise(other_B, group_B, method)[mine_B] == pytest.approx(
            result_B[mine_B], abs=1e-9
        )


@settings(max_examples=60)
@given(values, st.sampled_from(METHODS))
def test_no_method_changes_the_order_within_a_group(rows, method):
    value_B = np.array([row[0] for row in rows], float)
    group_B = np.array([row[1] for row in rows])
    result_B = normalise(value_B, group_B, method)
    for group in np.unique(group_B):
        mine_B = group_B == group
        order = np.argsort(value_B[mine_B], kind="stable")
        assert (np.diff(result_B[mine_B][order]) >= -1e-12).all()


def test_the_released_methods_by_vectors_computed_apart(oracle):
    vectors = oracle("gtalign_normalising.json")
    for method, expected in vectors["normalised"].items():
        found = normalise(vectors["scores"], vectors["sources"], method)
        assert found == pytest.approx(expected, abs=1e-12), method
    assert len(vectors["normalised"]) == 8


def test_faults():
    with pytest.raises(ValueError, match="method"):
        normalise([1.0], ["a"], "whitened")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="missing"):
        normalise([1.0, np.nan], ["a", "a"], "rank")
    with pytest.raises(ValueError, match="as long"):
        normalise([1.0, 2.0], ["a"], "none")
    assert normalise([], [], "z_score").shape == (0,)
