"""Dice depend on what they are for, not on what was rolled before."""

import numpy as np
import pytest

from equipoise import seeds


def test_child_seeds_are_stable_and_distinct():
    assert seeds.child(0, "match", "a") == seeds.child(0, "match", "a")
    many = {
        seeds.child(seed, name, i)
        for seed in range(3)
        for name in ("match", "learn")
        for i in range(100)
    }
    assert len(many) == 600
    assert seeds.child(1, "ab", "c") != seeds.child(1, "a", "bc")


def test_uniform_is_independent_of_the_batch():
    rows = np.array([seeds.child(0, i) for i in range(50)])
    whole = seeds.uniform(rows, 7)
    assert np.array_equal(whole[10:20], seeds.uniform(rows[10:20], 7))
    assert not np.array_equal(whole, seeds.uniform(rows, 8))
    assert np.array_equal(seeds.uniform(rows, np.full(50, 7)), whole)


@pytest.mark.parametrize("axis", ["rows", "positions"])
def test_uniform_is_uniform(axis: str):
    rows = np.array([seeds.child(1, i) for i in range(20_000)])
    values = (
        seeds.uniform(rows, 0)
        if axis == "rows"
        else seeds.uniform(rows[:1].repeat(20_000), np.arange(20_000))
    )
    assert values.min() >= 0
    assert values.max() < 1
    counts, _ = np.histogram(values, 20, (0, 1))
    chi2 = ((counts - 1000) ** 2 / 1000).sum()
    assert chi2 < 45  # 19 degrees of freedom: above this once in a thousand
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.03


def test_seeds_and_numbers_are_those_of_earlier_runs():
    """A run that is resumed, or played anew, rolls the same dice."""
    assert [seeds.child(0), seeds.child(7, "match", "a")] == [
        4761921975702974394,
        6806155628003002387,
    ]
    assert seeds.generator(7, "x").integers(0, 10**6, 3).tolist() == [137522, 675611, 566520]
    rows = np.array([0, 1, -5, 2**63 - 1, seeds.child(0, "row")])
    for position in (0, 3, 2**40):
        expected = [_split_mix(int(seed), position) for seed in rows]
        assert seeds.uniform(rows, position).tolist() == expected


def _split_mix(seed, position):
    """SplitMix64's number at a position, in integers without bounds."""
    x = (seed + position * 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return ((x ^ x >> 31) >> 11) / 2**53
