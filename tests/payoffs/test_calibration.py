"""The slope of a judge's leads: recovered where it is known, and as another optimiser has it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit

from equipoise.payoffs.judge_agreement import calibrate


def people(slope, n, seed=0):
    dice = np.random.default_rng(seed)
    lead_n = dice.normal(0, 2, n)
    return lead_n, (dice.random(n) < expit(slope * lead_n)).astype(float)


def test_a_known_slope_is_recovered_and_beats_a_coin():
    lead_n, preferred_n = people(0.7, 4000)
    calibration = calibrate(lead_n, preferred_n)
    assert calibration is not None
    assert calibration.low < 0.7 < calibration.high
    assert calibration.high - calibration.low < 0.1
    assert calibration.log_loss < 0.55 < np.log(2)


def test_the_slope_is_the_penalised_maximum():
    lead_n, preferred_n = people(1.5, 30)
    preferred_n[:4] = 0.5
    squared = np.mean(lead_n**2)

    def penalised(slope):
        each_n = preferred_n * log_expit(slope * lead_n)
        each_n += (1 - preferred_n) * log_expit(-slope * lead_n)
        return -each_n.sum() + slope**2 * squared / 18

    calibration = calibrate(lead_n, preferred_n)
    assert calibration is not None
    best = minimize_scalar(penalised, bracket=(0, 3)).x
    assert calibration.slope == pytest.approx(best, rel=1e-4)


def test_who_is_always_right_has_a_finite_slope_and_who_is_always_wrong_its_negative():
    lead_n = np.array([1.0, -2.0, 3.0, -1.0, 2.0, 1.5])
    right, wrong = calibrate(lead_n, lead_n > 0), calibrate(lead_n, lead_n < 0)
    assert right is not None
    assert wrong is not None
    assert 0 < right.slope < 20
    assert wrong.slope == pytest.approx(-right.slope)


def test_leads_that_say_nothing_are_no_better_than_a_coin():
    lead_n, _ = people(0.0, 2000, seed=3)
    _, preferred_n = people(0.0, 2000, seed=4)
    calibration = calibrate(lead_n, preferred_n)
    assert calibration is not None
    assert calibration.low < 0 < calibration.high
    assert calibration.log_loss == pytest.approx(np.log(2), abs=2e-3)


def test_too_little_to_say_and_wrong_input():
    assert calibrate([1.0, 2.0], [1.0, 0.0]) is None
    assert calibrate(np.zeros(10), np.ones(10)) is None
    with pytest.raises(ValueError, match="shapes"):
        calibrate([1.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="outside"):
        calibrate(np.ones(6), np.full(6, 1.5))
