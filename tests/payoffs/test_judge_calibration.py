"""Judges calibrated on people: agreement with scikit-learn's κ, rates that are known, and the
coverage of every interval.
"""

import math

import numpy as np
import pytest

from equipoise.payoffs.judge_calibration import (
    calibrated_rate,
    kappa,
    kappa_and_variance,
    prediction_powered,
    rogan_gladen,
    votes_to_settle,
)

# (true rate, P(judge says win | win), P(loss | loss), items judged alone, votes)
JUDGES = [(0.6, 0.85, 0.8, 1000, 100), (0.35, 0.9, 0.7, 500, 150), (0.55, 0.9, 0.92, 1000, 120)]


def draws(case, repeats, seed):
    theta, q1, q0, items, votes = case
    dice = np.random.default_rng(seed)
    for _ in range(repeats):
        truth = (dice.random(items + votes) < theta).astype(float)
        says_win = np.where(truth == 1, q1, 1 - q0)
        verdict = (dice.random(items + votes) < says_win).astype(float)
        yield verdict[votes:], verdict[:votes], truth[:votes]


def true_kappa(case):
    theta, q1, q0, *_ = case
    table = np.array([[theta * q1, theta * (1 - q1)], [(1 - theta) * (1 - q0), (1 - theta) * q0]])
    return kappa_and_variance(table)[0]


@pytest.mark.long
@pytest.mark.parametrize("case", JUDGES, ids=str)
def test_intervals_hold_the_truth_as_often_as_they_say(case):
    """93 to 97 % of 2,000 draws at nominal 95 %."""
    held = {"rogan_gladen": 0, "prediction_powered": 0, "kappa": 0}
    naive = 0
    width = {"votes": 0.0, "powered": 0.0}
    repeats = 2000
    for own, judge, people in draws(case, repeats, 3):
        by_name = {
            "rogan_gladen": (rogan_gladen(own, judge, people), case[0]),
            "prediction_powered": (prediction_powered(own, judge, people), case[0]),
            "kappa": (kappa(judge, people), true_kappa(case)),
        }
        for name, (interval, truth) in by_name.items():
            held[name] += interval.low <= truth <= interval.high
        both = calibrated_rate(own, judge, people)
        naive += both.judge.low <= case[0] <= both.judge.high
        width["votes"] += both.votes.high - both.votes.low
        width["powered"] += both.prediction_powered.high - both.prediction_powered.low
    for name, count in held.items():
        assert 0.93 <= count / repeats <= 0.97, (name, count / repeats)
    assert naive / repeats < 0.92
    assert width["powered"] < 0.95 * width["votes"]


def test_kappa_is_that_of_scikit_learn():
    from sklearn.metrics import cohen_kappa_score

    dice = np.random.default_rng(5)
    first = dice.integers(0, 3, 60)
    second = np.where(dice.random(60) < 0.6, first, dice.integers(0, 3, 60))
    interval = kappa(first, second)
    assert interval.mean == pytest.approx(cohen_kappa_score(first, second))
    assert interval.low < interval.mean < interval.high
    swapped = kappa(second, first)
    assert (swapped.mean, swapped.low) == pytest.approx((interval.mean, interval.low))


def test_perfect_agreement_has_a_width_and_one_label_alone_has_none():
    labels = [1, 0, 1, 1, 0, 1] * 8
    perfect = kappa(labels, labels)
    assert perfect.mean == perfect.high == 1.0 and 0.6 < perfect.low < 0.99
    assert math.isnan(kappa([1, 1], [1, 1]).mean) and kappa([], []).n == 0
    with pytest.raises(ValueError, match="unequal shapes"):
        kappa([1], [1, 0])


def test_rogan_gladen_turns_the_rate_by_known_errors():
    """Exact shares: q1 = 0.9, q0 = 0.8, p = 0.62, so θ = (0.62 + 0.8 − 1) / 0.7 = 0.6."""
    judge = [1] * 9 + [0] + [0] * 8 + [1] * 2
    people = [1] * 10 + [0] * 10
    rate = rogan_gladen([1] * 62 + [0] * 38, judge, people)
    assert rate.mean == pytest.approx(0.6) and rate.low < 0.6 < rate.high
    assert math.isnan(rogan_gladen([1, 0], [1, 0, 1], [1, 1, 0]).mean)  # one loss alone
    chance = rogan_gladen([1, 0] * 9, [1, 0, 1, 0], [1, 1, 0, 0])
    assert math.isnan(chance.mean)  # no better than chance
    with pytest.raises(ValueError, match="leave out ties"):
        rogan_gladen([0.5], [1, 0], [1, 0])


def test_a_useless_judge_leaves_the_votes_as_they_are():
    people = [1, 0, 1, 1, 0, 1, 0, 1]
    of_votes = prediction_powered([1, 1, 1, 0] * 50, [0, 1, 1, 0, 1, 0, 1, 0], people)
    assert of_votes.mean == pytest.approx(np.mean(people))  # covariance below 0: no weight
    constant = prediction_powered([1] * 50, [1] * 8, people)
    assert constant.mean == pytest.approx(np.mean(people))
    perfect = prediction_powered([1, 0, 0, 0] * 100, people, people)
    assert perfect.mean == pytest.approx(0.25, abs=0.02)
    assert math.isnan(prediction_powered([1], [], []).mean)
    assert math.isnan(prediction_powered([1], [1, 0], [1, 0]).low)
    with pytest.raises(ValueError, match="beside"):
        prediction_powered([1], [1], [1, 0])


@pytest.mark.long
def test_as_many_more_votes_as_are_named_settle_it_four_times_in_five():
    few = 30
    case = (0.62, 0.85, 0.8, 2000)
    needed = []
    for own, judge, people in draws((*case, few), 1500, 7):
        more = votes_to_settle(own, judge, people)
        if more and abs(prediction_powered(own, judge, people).mean - case[0]) < 0.01:
            needed.append(more)
    votes = few + int(np.median(needed))
    settled = 0
    for own, judge, people in draws((*case, votes), 600, 8):
        settled += prediction_powered(own, judge, people).low > 0.5
    assert 0.7 < settled / 600 < 0.9
    assert votes_to_settle([1] * 9 + [0], [1, 0] * 30, [1, 1] * 29 + [1, 0]) == 0
    assert votes_to_settle([1, 0], [1, 0], [1, 0]) is None


def test_ties_are_in_rates_and_out_of_rogan_gladen():
    rate = calibrated_rate([1, 0.5, 0, 1], [1, 0, 0.5, 1, 0], [1, 0, 1, 0.5, 0])
    assert rate.judge.mean == pytest.approx(5 / 9)
    assert rate.votes.mean == pytest.approx(0.5)
    assert rate.rogan_gladen.n == 3
