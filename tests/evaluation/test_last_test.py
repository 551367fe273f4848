"""What chooses a player, by its scores."""

from math import nan

import pytest
from msgspec.structs import replace

from equipoise.evaluation.last_test import Criterion
from equipoise.ledger.item_scores import ItemScores, estimate, paired_differences
from equipoise.payoffs.intervals import Interval
from equipoise.types import PlayerId


def criterion(*means, lower=False):
    scores = {
        PlayerId("policy", age): Interval(mean, nan, nan, 9) for age, mean in enumerate(means)
    }
    return Criterion(scores, "a set", lower)


def test_the_best_is_chosen_and_ties_go_to_the_older():
    assert criterion(0.1, 0.4, 0.3).chosen.generation == 1
    assert criterion(0.1, 0.4, 0.4).chosen.generation == 1
    assert criterion(0.1, 0.4, 0.3, lower=True).chosen.generation == 0
    assert criterion(0.1, nan, -0.3).chosen.generation == 0  # what is unknown is last
    assert criterion(0.1, 0.4).start == PlayerId("policy")


def rows(**values):
    return [
        ItemScores(item=item, sample=i, values={"acc": value})
        for item, several in values.items()
        for i, value in enumerate(several)
    ]


def test_missing_values_count_nowhere_and_answers_to_an_item_are_one_cluster():
    mean = estimate(rows(a=(1.0, 1.0), b=(0.0, None), c=(None,)), "acc")
    assert (mean.mean, mean.n) == (pytest.approx(2 / 3), 3)
    assert 0 <= mean.low < mean.high <= 1


def test_values_above_one_are_no_shares():
    mean = estimate(rows(a=(1.5, 0.0), b=(0.0,), c=(1.5,)), "acc")
    assert mean.mean == 0.75
    assert mean.low < 0
    assert mean.high > 1.5


def test_differences_are_paired_by_item():
    """By hand: items a, b, c differ by ½, 1 and 0: mean ½, s = ½, t(2) = 4.303."""
    own = rows(a=(1.0, 0.0), b=(1.0,), c=(0.0,), d=(1.0,))
    start = rows(a=(0.0,), b=(0.0,), c=(0.0,), d=(None,), e=(1.0,))
    difference = paired_differences(own, start)["acc"]
    assert (difference.mean, difference.n) == (0.5, 3)
    assert difference.high - 0.5 == pytest.approx(4.3027 * 0.5 / 3**0.5, abs=1e-3)
    # an item counts as often as its own answers' values do, not those of the other side
    often = [replace(row, counts={"acc": 3}) if row.item == "b" else row for row in own]
    assert paired_differences(often, start)["acc"].mean == pytest.approx((0.5 + 3 * 1 + 0) / 5)
    assert paired_differences(own, often)["acc"].mean == 0.0
    many = [replace(row, counts={"acc": 3}) if row.item == "b" else row for row in start]
    assert paired_differences(own, many)["acc"].mean == 0.5
    alike = paired_differences(start, start)["acc"]
    assert alike.mean == 0.0
    assert alike.n == 4
    assert alike.low == pytest.approx(-alike.high)
    assert 0.5 < alike.high < 1
