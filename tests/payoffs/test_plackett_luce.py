"""One against many: Bradley–Terry of two, shares that add up, and the sum over all games."""

from itertools import product

import numpy as np
import pytest

from equipoise.errors import ConfigError
from equipoise.payoffs.judge_agreement import first_place, one_against_many

REWARD_A = np.array([0.3, -1.2, 2.0])


def test_two_are_bradley_terry():
    share, _ = first_place([1.5, 0.2])
    assert share == pytest.approx(1 / (1 + np.exp(-1.3)))


def test_equals_share_evenly_and_large_rewards_are_no_trouble():
    assert first_place([7.0] * 5).tolist() == pytest.approx([0.2] * 5)
    assert first_place([1000.0, 999.0]).sum() == pytest.approx(1)


def test_one_against_many_is_the_sum_over_all_joint_moves():
    first_A, second_A = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.0, 0.4])
    expected_A = np.zeros(3)
    for move, a, b in product(range(3), repeat=3):
        joint = np.exp(REWARD_A[[move, a, b]])
        expected_A[move] += first_A[a] * second_A[b] * joint[0] / joint.sum()
    got_A = one_against_many(REWARD_A, [first_A, second_A])
    np.testing.assert_allclose(got_A, expected_A, rtol=1e-12)


@pytest.mark.parametrize("opponents", [1, 2, 3])
def test_among_identical_players_each_comes_first_alike_often(opponents):
    policy_A = np.array([0.2, 0.5, 0.3])
    share = policy_A @ one_against_many(REWARD_A, [policy_A] * opponents)
    assert share == pytest.approx(1 / (opponents + 1))


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ConfigError, match="finite"):
        first_place([1.0, np.inf])
    with pytest.raises(ConfigError, match="2 moves, and there are 3"):
        one_against_many(REWARD_A, [[0.5, 0.5]])
