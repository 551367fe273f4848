"""Intervals against scipy, against known numbers, and by how often they cover the truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from equipoise.payoffs.intervals import (
    Interval,
    difference,
    mean_interval,
    over_seeds,
    weighted_mean,
    win_rate,
)


@pytest.mark.parametrize(("right", "n"), [(0, 7), (7, 7), (3, 10), (86, 100), (299, 300)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_one_answer_a_prompt_is_wilson(right, n, level):
    theirs = stats.binomtest(right, n).proportion_ci(level, method="wilson")
    ours = mean_interval([1] * right + [0] * (n - right), level=level)
    assert (ours.mean, ours.n) == (right / n, n)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_unclustered_scores_are_students_t():
    value_B = np.random.default_rng(1).normal(3, 2, 25)
    theirs = stats.ttest_1samp(value_B, 0).confidence_interval(0.95)
    for ours in (mean_interval(value_B), over_seeds(value_B)):
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_equal_clusters_are_students_t_of_their_means():
    value_GK = np.random.default_rng(2).normal(size=(12, 4))
    theirs = stats.ttest_1samp(value_GK.mean(1), 0).confidence_interval(0.9)
    ours = mean_interval(value_GK.ravel(), np.repeat(np.arange(12), 4).tolist(), 0.9)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert ours.n == 48


def test_copies_of_an_answer_tell_nothing_new():
    value_G = np.random.default_rng(3).random(20)
    once, often = (
        mean_interval(value_G),
        mean_interval(np.repeat(value_G, 9), np.repeat(np.arange(20), 9).tolist()),
    )
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    tied = mean_interval([1, 1, 0, 0] * 25, [f"p{i // 2}" for i in range(100)])
    alone = mean_interval([1, 1, 0, 0] * 25)
    assert tied.high - tied.low > 1.3 * (alone.high - alone.low)


def test_clustered_shares_are_wilson_at_their_effective_number():
    """n* = mean·(1 − mean)/se² · (z/t)², over three prompts of two, three and one."""
    prompts = ["a", "a", "b", "b", "b", "c"]
    value_B = np.array([1, 1, 0, 1, 0, 0.0])
    sums = [2 * 0.5, 1 - 3 * 0.5, -0.5]  # of the deviations from the mean, by prompt
    variance = 3 / 2 * sum(x**2 for x in sums) / 36
    shrunk = stats.norm.ppf(0.975) / stats.t.ppf(0.975, 2)
    effective = 0.25 / variance * shrunk**2
    z2 = stats.norm.ppf(0.975) ** 2
    half = math.sqrt(z2 * (0.25 / effective + z2 / (4 * effective**2)))
    ours = mean_interval(value_B, prompts)
    assert ours.mean == 0.5
    assert ours.high - 0.5 == pytest.approx(half / (1 + z2 / effective))
    assert 0.5 - ours.low == pytest.approx(half / (1 + z2 / effective))


def test_a_weighted_mean_by_hand():
    """Deviations −1.5 and ½ of weights 1 and 3: se² = 2·(2.25 + 2.25)/16."""
    ours = weighted_mean([1.0, 3.0], [1.0, 3.0])
    half = stats.t.ppf(0.975, 1) * 0.75
    assert (ours.mean, ours.n) == (2.5, 2)
    assert (ours.low, ours.high) == pytest.approx((2.5 - half, 2.5 + half))
    alike, plain = weighted_mean([1, 2, 4.0], [7, 7, 7]), over_seeds([1, 2, 4.0])
    assert (alike.low, alike.high) == pytest.approx((plain.low, plain.high))


def coverage(draw, truth, repetitions=1500):
    """Share of intervals that hold the truth."""
    intervals = [draw() for _ in range(repetitions)]
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


@pytest.mark.parametrize(
    ("a", "b", "groups"),
    [(1, 1, 10), (8, 2, 30), (19, 1, 10), pytest.param(19, 1, 100, marks=pytest.mark.long)],
)
def test_clustered_answers_are_covered(a, b, groups):
    dice = np.random.default_rng(4)
    prompts = np.repeat(np.arange(groups), 5).tolist()

    def draw():
        right_GK = dice.random((groups, 5)) < dice.beta(a, b, groups)[:, None]
        return mean_interval(right_GK.ravel().astype(float), prompts)

    assert 0.93 <= coverage(draw, a / (a + b)) <= 0.985


@pytest.mark.long
@pytest.mark.parametrize(
    ("win", "tie", "n"), [(0.3, 0.4, 20), (0.1, 0.85, 20), (0.1, 0.85, 300), (0.5, 0.0, 50)]
)
def test_win_rates_are_covered(win, tie, n):
    dice = np.random.default_rng(5)

    def draw():
        return win_rate(dice.choice([-1.0, 0.0, 1.0], n, p=[1 - win - tie, tie, win]))

    assert 0.93 <= coverage(draw, win + tie / 2) <= 0.98


def test_seeds_are_covered():
    dice = np.random.default_rng(6)
    assert 0.935 <= coverage(lambda: over_seeds(dice.normal(0.8, 0.02, 3)), 0.8) <= 0.965


def test_win_rate_counts_a_tie_as_half_and_keeps_a_width():
    assert win_rate([1, 1, -1, 0]).mean == pytest.approx(0.625)
    ties = win_rate([0.0] * 40)
    assert ties.mean == 0.5
    assert ties.low < 0.4
    assert ties.high > 0.6
    assert win_rate([1.0] * 40).high == 1
    assert 0.85 < win_rate([1.0] * 40).low < 0.95


@pytest.mark.long
@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 6)), min_size=1, max_size=40))
def test_a_win_rate_lies_in_its_interval_in_the_unit_interval(rows):
    interval = win_rate([value for value, _ in rows], [prompt for _, prompt in rows])
    if math.isnan(interval.low):
        assert len({prompt for _, prompt in rows}) == 1
    else:
        assert 0 <= interval.low <= interval.mean + 1e-9
        assert interval.mean - 1e-9 <= interval.high <= 1


def test_what_is_not_known_is_not_a_number():
    assert math.isnan(mean_interval([]).mean)
    assert mean_interval([]).n == 0
    assert math.isnan(over_seeds([0.8]).low)
    assert over_seeds([0.8]).mean == 0.8
    one_prompt = mean_interval([0.2, 0.4], ["p", "p"])
    assert one_prompt.mean == pytest.approx(0.3)
    assert math.isnan(one_prompt.high)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mean_interval([0.5, math.nan]), "leave out missing values"),
        (lambda: mean_interval([0.5], ["a", "b"]), "1 values but 2 cluster labels"),
        (lambda: mean_interval([0.5, 1.5], share=True), "shares must lie in"),
        (lambda: mean_interval(np.ones((2, 2))), "one list of numbers"),
        (lambda: win_rate([0.5, -1.5]), "found -1.5"),
        (lambda: over_seeds([math.inf, 1]), "leave out missing values"),
    ],
)
def test_wrong_values_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_an_interval_reads_well():
    assert Interval(0.861, 0.830, 0.889, 300).percent() == "86.1 % (83.0 to 88.9)"
    assert str(Interval(0.861, 0.830, 0.889, 300)) == "0.861 (0.830 to 0.889)"
    assert str(Interval(1512.34, 1490.1, 1535.9, 9)) == "1512 (1490 to 1536)"
    assert Interval(0.0173, 0.0169, 0.0177, 9).text("nats") == "0.01730 nats (0.01690 to 0.01770)"
    assert over_seeds([0.8]).percent() == "80.0 % (n = 1, no interval)"
    assert str(mean_interval([])) == "–"


def test_a_difference_adds_the_distances_to_the_bounds_in_squares():
    change = difference(Interval(0.5, 0.46, 0.53, 40), Interval(0.7, 0.6, 0.8, 50))
    assert change.mean == pytest.approx(0.2)
    assert change.n == 40
    assert change.low == pytest.approx(0.2 - math.hypot(0.1, 0.03))
    assert change.high == pytest.approx(0.2 + math.hypot(0.1, 0.04))
    unknown = difference(Interval(0.5, math.nan, math.nan, 0), Interval(0.7, 0.6, 0.8, 50))
    assert unknown.mean == pytest.approx(0.2)
    assert math.isnan(unknown.low)
