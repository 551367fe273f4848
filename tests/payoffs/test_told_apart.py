"""What can be told apart: by how often intervals, corrections and ranges of places are right."""

import math

import numpy as np
import pytest
from scipy import stats

from equipoise.payoffs.intervals import Interval, level_together, paired_difference
from equipoise.payoffs.told_apart import (
    between_recipes,
    crossed,
    holm,
    joint_level,
    rank_ranges,
    relabelled,
    sign_flip,
    smallest_shown,
)


def test_signs_are_flipped_as_scipy_flips_them():
    value_B = [0.3, -0.1, 0.7, 0.2, 0.4]
    theirs = stats.permutation_test(
        (value_B,), lambda x, axis: np.mean(x, axis=axis), permutation_type="samples"
    )
    assert sign_flip(value_B) == pytest.approx(theirs.pvalue)
    assert sign_flip([*value_B, 0.0]) == sign_flip(value_B)  # what is alike decides nothing
    assert sign_flip([-value for value in value_B]) == sign_flip(value_B)
    assert sign_flip([0.0] * 5) == 1.0
    assert math.isnan(sign_flip([]))


def test_many_signs_are_drawn_and_never_give_0():
    p = sign_flip(np.full(200, 0.1))
    assert p == pytest.approx(1 / 10_000)


def test_seeds_are_dealt_anew_as_scipy_deals_them():
    first, second = [3.0, 1.0, 4.0], [1.5, 0.5, 0.0, 2.0]
    theirs = stats.permutation_test(
        (first, second),
        lambda x, y, axis: np.abs(x.mean(axis) - y.mean(axis)),
        alternative="greater",
    )
    assert relabelled(first, second) == pytest.approx(theirs.pvalue)
    assert math.isnan(relabelled([], [1.0]))


def test_holm_leaves_out_what_is_unknown():
    assert holm([0.01, math.nan, 0.04]).tolist()[::2] == [0.02, 0.04]
    assert math.isnan(holm([math.nan])[0])


def test_a_joint_level_lies_between_one_comparison_and_bonferroni():
    dice = np.random.default_rng(1)
    apart_PK = dice.normal(size=(60, 6))
    level = joint_level(apart_PK)
    assert 0.985 < level <= level_together(6)
    alike_PK = apart_PK[:, :1] * np.ones((1, 6))
    assert joint_level(alike_PK) == pytest.approx(0.95, abs=0.008)
    assert joint_level(apart_PK[:, :1]) == 0.95
    assert joint_level(np.zeros((10, 6))) == level_together(6)


def test_the_smallest_difference_is_shown_four_times_in_five():
    dice = np.random.default_rng(2)
    half = stats.t.ppf(0.975, 29) / 30**0.5
    smallest = smallest_shown(Interval(0.0, -half, half, 30), 29)
    draw_RN = dice.normal(smallest, 1.0, size=(4_000, 30))
    p_R = stats.ttest_1samp(draw_RN, 0.0, axis=1).pvalue
    assert 0.76 < (p_R < 0.05).mean() < 0.84


def test_recipes_with_the_same_seeds_are_paired_and_others_are_not():
    own = {1: {"a": 1.0, "b": 0.0}, 2: {"a": 1.0, "b": 1.0}}
    other = {1: {"a": 0.0, "b": 0.0}, 2: {"a": 1.0, "b": 0.5}}
    paired = between_recipes(own, other)
    cells = [(1, "a", 1.0), (1, "b", 0.0), (2, "a", 0.0), (2, "b", 0.5)]
    assert paired.interval() == crossed(cells)
    unpaired = between_recipes(own, {7: other[1], 8: other[2]})
    assert unpaired.mean == paired.mean == 0.375
    assert unpaired.interval() != paired.interval()
    turned = between_recipes(other, own)
    assert turned.mean == -0.375
    assert turned.p == paired.p
    assert between_recipes(own, {1: {"c": 1.0}}) is None


# -- by how often it is right


def two_players(dice, items, gap=0.0, samples=2):
    """Paired scores of players whose answers to a prompt are right with a common chance."""
    chance_P = dice.beta(2, 2, items)
    own = (dice.random((items, samples)) < np.clip(chance_P + gap, 0, 1)[:, None]).mean(1)
    other = (dice.random((items, samples)) < chance_P[:, None]).mean(1)
    return own, other


@pytest.mark.parametrize(
    ("items", "samples"), [(20, 2), (60, 1), pytest.param(200, 3, marks=pytest.mark.long)]
)
def test_differences_are_covered(items, samples):
    """Nominal 95 %: within 93 and 97 % of the draws, of few prompts no less."""
    dice = np.random.default_rng(3)
    covered = 0
    for _ in range(1_500):
        own, other = two_players(dice, items, samples=samples)
        interval = paired_difference(own - other, share=True)
        covered += interval.low <= 0 <= interval.high
    assert 0.93 <= covered / 1_500 <= (0.975 if items < 50 or samples == 1 else 0.97)


@pytest.mark.long
def test_two_identical_players_are_not_said_to_differ():
    """In 1,000 comparisons no more often than in one of twenty, by the very tests that speak."""
    dice = np.random.default_rng(4)
    claims = 0
    for draw in range(1_000):
        own, other = two_players(dice, 40, samples=3)
        apart = own - other
        interval = paired_difference(apart, share=True)
        is_apart = interval.low > 0 or interval.high < 0
        claims += is_apart and sign_flip(apart[:], draw) <= 0.05
    assert claims <= 60  # 50 in expectation; 7 is a standard error


def differences_of(score_PN):
    """Differences of all pairs, a column each."""
    players = score_PN.shape[1]
    pairs = [(i, j) for i in range(players) for j in range(i)]
    columns = [score_PN[:, i] - score_PN[:, j] for i, j in pairs]
    return pairs, np.stack(columns, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("players", "items"), [(4, 40), (8, 100)])
def test_all_differences_are_covered_together(players, items):
    """Nominal 95 % of the draws hold all of them: within 93 and 97.5 %."""
    dice = np.random.default_rng(5)
    held = 0
    draws = 800
    for draw in range(draws):
        common_P = dice.normal(size=(items, 1))
        score_PN = common_P + dice.normal(size=(items, players))
        _, apart_PK = differences_of(score_PN)
        level = joint_level(apart_PK, flips=600, seed=draw)
        intervals = [paired_difference(column, level=level) for column in apart_PK.T]
        held += all(each.low <= 0 <= each.high for each in intervals)
    assert 0.93 <= held / draws <= 0.975


@pytest.mark.long
@pytest.mark.parametrize("players", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_ranges_of_places_hold_together(players):
    """Of equal players every range is all places; of unequal ones the true place is inside."""
    dice = np.random.default_rng(6)
    held = 0
    draws = 300
    strength_N = np.linspace(0, 0.8, players)
    for draw in range(draws):
        common_P = dice.normal(size=(60, 1))
        score_PN = common_P + strength_N + dice.normal(size=(60, players))
        pairs, apart_PK = differences_of(score_PN)
        level = joint_level(apart_PK, flips=400, seed=draw)
        low_NN = np.full((players, players), np.nan)
        for (i, j), column in zip(pairs, apart_PK.T, strict=True):
            interval = paired_difference(column, level=level)
            low_NN[i, j] = interval.low
            low_NN[j, i] = -interval.high
        ranges = rank_ranges(low_NN, -low_NN.T)
        places = [players - i for i in range(players)]
        held += all(
            first <= place <= last for place, (first, last) in zip(places, ranges, strict=True)
        )
    assert held / draws >= 0.93


@pytest.mark.long
@pytest.mark.parametrize("paired", [True, False])
def test_recipes_are_covered_over_seeds_and_items(paired):
    """Four seeds each: at least 93 % of the intervals hold the truth; few seeds make them wide."""
    dice = np.random.default_rng(7)
    covered = 0
    draws = 600
    for _ in range(draws):
        item_P = dice.normal(size=50)
        sides = []
        for offset in (0, 0 if paired else 10):
            seed_S = dice.normal(0, 0.3, 4)
            sides.append(
                {
                    s + offset: {
                        str(p): seed_S[s] + item_P[p] + dice.normal(0, 0.5) for p in range(50)
                    }
                    for s in range(4)
                }
            )
        interval = between_recipes(*sides).interval()
        covered += interval.low <= 0 <= interval.high
    assert covered / draws >= 0.93
