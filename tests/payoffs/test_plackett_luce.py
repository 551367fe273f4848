"""One against many: Bradley–Terry of two, shares that add up, and the sum over all games."""

import numpy as np
import pytest

from equipoise.payoffs.judge_agreement import first_place

REWARD_A = np.array([0.3, -1.2, 2.0])


def test_two_are_bradley_terry():
    share, _ = first_place([1.5, 0.2])
    assert share == pytest.approx(1 / (1 + np.exp(-1.3)))


def test_equals_share_evenly_and_large_rewards_are_no_trouble():
    assert first_place([7.0] * 5).tolist() == pytest.approx([0.2] * 5)
    assert first_place([1000.0, 999.0]).sum() == pytest.approx(1)
