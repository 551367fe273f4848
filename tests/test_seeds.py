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
    assert values.min() >= 0 and values.max() < 1
    counts, _ = np.histogram(values, 20, (0, 1))
    chi2 = ((counts - 1000) ** 2 / 1000).sum()
    assert chi2 < 45  # 19 degrees of freedom: above this once in a thousand
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.03
