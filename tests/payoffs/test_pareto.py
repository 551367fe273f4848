"""Fronts, areas and two runs side by side: golden vectors and the definitions by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.payoffs.pareto import (
    compare,
    constrained_area,
    epsilon_indicator,
    front,
    hypervolume,
    scalarisation_regret,
)

grid = st.lists(st.tuples(st.integers(-3, 4), st.integers(-3, 4)), min_size=1, max_size=12)
CASES = range(2)


@pytest.mark.parametrize("case", CASES)
def test_compare_golden(golden, case):
    found = golden("gtalign_pareto.json")[case]
    first, second = (
        {row["input"]: (row["user_reward"], row["llm_reward"]) for row in found[side]}
        for side in ("first", "second")
    )
    inputs = [name for name in first if name in second]
    told = compare([first[n] for n in inputs], [second[n] for n in inputs], found["eps"])
    wanted = found["expected"]
    counts = wanted["basic_compare"]
    assert len(inputs) == counts["common_count"]
    assert told.first_dominates == counts["file1_dominates_file2"]
    assert told.second_dominates == counts["file2_dominates_file1"]
    assert (told.equal, told.incomparable) == (counts["equal"], counts["incomparable"])
    ranges = wanted["ranges"]
    assert (*told.range_user, *told.range_llm) == tuple(
        ranges[key] for key in ("u_min", "u_max", "l_min", "l_max")
    )
    for name, side in (("file1", told.first), ("file2", told.second)):
        spread = wanted["coverage_spread"][name]
        numbers = [side.coverage, side.regret, side.nash_welfare, side.cobb_douglas]
        assert numbers == pytest.approx(
            [
                wanted[key][name]
                for key in ("epsilon_coverage", "avg_regret_Linf", "NSW_avg", "CobbDouglas_avg")
            ],
            rel=0,
            abs=1e-9,
        )
        assert [side.spread_user, side.spread_llm, side.spread] == pytest.approx(
            [spread[key] for key in ("u_cov", "l_cov", "mean_cov")], rel=0, abs=1e-9
        )


def test_hypervolume_golden(golden):
    for case in golden("hypervolume.json"):
        assert hypervolume(case["points"], case["reference"]) == pytest.approx(
            case["hypervolume"], rel=0, abs=1e-9
        )


def test_the_other_measures_by_vectors_computed_apart(oracle):
    for case in oracle("gtalign_measures.json")["points"]:
        first, second = case["first"], case["second"]
        both = [*first, *second]
        regret = scalarisation_regret(first, both, case["weights"])
        found = {
            "epsilon": epsilon_indicator(first, second),
            "epsilon released": epsilon_indicator(first, second, as_released=True),
            "regret": regret.mean,
            "regret, median": regret.median,
            "hypervolume released": hypervolume(first, (0, 0), as_released=True),
        }
        for side in ("user", "llm"):
            found[f"{side} held"] = constrained_area(first, both, side)
            found[f"{side} held, released"] = constrained_area(first, both, side, as_released=True)
        assert found == pytest.approx(case["expected"], abs=1e-12)
        assert regret.median <= regret.ninetieth


def test_points_that_are_raised_by_the_indicator_match_the_others():
    first, second = np.array([(0.2, 0.7), (0.6, 0.1)]), np.array([(0.5, 0.5), (0.9, 0.0)])
    raised = first + epsilon_indicator(first, second)
    assert all((raised >= b).all(axis=1).any() for b in second)
    assert epsilon_indicator(second, second) == 0


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (lambda: epsilon_indicator([], [(0, 0)]), "a point each"),
        (lambda: scalarisation_regret([(0, 0)], [(0, 0)], [2]), "outside"),
        (lambda: scalarisation_regret([(0, 0)], []), "must not be empty"),
    ],
)
def test_what_is_not_a_measure_is_refused(measure, said):
    with pytest.raises(ValueError, match=said):
        measure()


@settings(max_examples=60)
@given(grid)
def test_front_by_its_definition(points):
    def beaten(a):
        return any(b[0] >= a[0] and b[1] >= a[1] and b != a for b in points)

    assert front(points).tolist() == [n for n, point in enumerate(points) if not beaten(point)]


@settings(max_examples=60)
@given(grid)
def test_hypervolume_by_counting_squares(points):
    squares = sum(
        any(u > x and l > y for u, l in points) for x in range(-1, 4) for y in range(-2, 4)
    )
    assert hypervolume(points, (-1, -2)) == pytest.approx(squares)


def test_hypervolume_counts_more_than_one_rectangle():
    assert hypervolume([(1, 0.2), (0.6, 0.6), (0.2, 1)], (0, 0)) == pytest.approx(
        0.2 + 0.6 * 0.4 + 0.2 * 0.4
    )
    assert hypervolume([(-1, 5)], (0, 0)) == hypervolume(np.empty((0, 2)), (0, 0)) == 0


@settings(max_examples=40)
@given(grid, st.floats(0, 2), st.integers(0, 99))
def test_comparing_the_other_way_round(points, eps, seed):
    other = np.random.default_rng(seed).permutation(points)
    one, two = compare(points, other, eps), compare(other, points, eps)
    assert (one.first_dominates, one.second_dominates) == (
        two.second_dominates,
        two.first_dominates,
    )
    assert one.first == two.second
    assert one.second == two.first
    assert one.first_dominates + one.second_dominates + one.incomparable == len(points)


@settings(max_examples=60)
@given(grid, st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 99))
def test_counts_and_coverage_by_their_definitions(points, eps, seed):
    other = [tuple(p) for p in np.random.default_rng(seed).permutation(points)]
    told = compare(points, other, eps)

    def dominates(b, a):
        enough = [x >= y - eps for x, y in zip(b, a, strict=True)]
        more = [x > y - eps for x, y in zip(b, a, strict=True)]
        return all(enough) and any(more)

    pairs = list(zip(points, other, strict=True))
    wins = [dominates(a, b) and not dominates(b, a) for a, b in pairs]
    losses = [dominates(b, a) and not dominates(a, b) for a, b in pairs]
    assert (told.first_dominates, told.second_dominates) == (sum(wins), sum(losses))
    assert told.incomparable == len(points) - sum(wins) - sum(losses)
    same = sum(a == b for a, b in pairs)
    assert told.equal == (same if eps == 0 else 0)
    both = [*points, *other]
    best = [both[n] for n in front(both)]
    wide = [eps * (max(p[i] for p in both) - min(p[i] for p in both)) for i in (0, 1)]
    near = [any(all(f[i] - p[i] <= wide[i] for i in (0, 1)) for f in best) for p in points]
    assert told.first.coverage == pytest.approx(sum(near) / len(points))


def test_coverage_asks_how_far_a_point_falls_short_and_not_how_far_it_is_beyond():
    """(0.8, 0.49) is near no point of the front, and hardly below (0.2, 0.54)."""
    told = compare([(1, 0.5), (0.2, 0.54)], [(0.8, 0.49), (0.2, 0)], eps=0.1)
    assert told.second.coverage == 0.5


def test_known_comparisons():
    told = compare([(1, 1), (1, 0), (0.5, 0.5), (2, 0)], [(0, 0), (0, 1), (0.5, 0.5), (2, 1)])
    assert (told.first_dominates, told.second_dominates, told.equal, told.incomparable) == (
        1,
        1,
        1,
        2,
    )
    near = compare([(0.5, 0.5)], [(0.52, 0.49)], 0.05)
    assert (near.equal, near.incomparable) == (0, 1)  # each ε-dominates the other
    same = compare([(0.5, 0.5)], [(0.5, 0.5)], 0.05)
    assert (same.equal, same.incomparable) == (0, 1)  # so do equal points
    assert (same.first.coverage, same.first.regret, same.first.spread) == (1, 0, 0)
    assert compare([(0.25, 1)], [(0.25, 1)], alpha=1.0).first.cobb_douglas == pytest.approx(0.25)
    assert compare([(-1, 4)], [(-1, 4)]).first.nash_welfare == pytest.approx(0, abs=1e-4)


def test_faults():
    with pytest.raises(ValueError, match="same inputs"):
        compare([(0, 0)], [(0, 0), (1, 1)])
    with pytest.raises(ValueError, match="same inputs"):
        compare([], [])
    with pytest.raises(ValueError, match="leave out"):
        front([(0, np.nan)])
    with pytest.raises(ValueError, match="two columns"):
        hypervolume([[1, 2, 3]], (0, 0))
    with pytest.raises(ValueError, match="reference_2"):
        hypervolume([(1, 2)], (0, 0, 0))
    with pytest.raises(ValueError, match="eps"):
        compare([(0, 0)], [(0, 0)], -1)
