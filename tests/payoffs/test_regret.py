"""Intervals of a maximum: equal players have no best one."""

import numpy as np
import pytest

from equipoise.payoffs.regret import deviation_gains, exploitability_gains, maximum_interval
from equipoise.payoffs.table import cross_play_by_prompt

PLAYERS, PROMPTS, DRAWS = 13, 60, 200


def scores(dice, players=PLAYERS, prompts=PROMPTS, answers=2):
    """Identical players: every answer's score is drawn alike."""
    return {
        f"p{n}": {str(p): list(dice.normal(size=answers)) for p in range(prompts)}
        for n in range(players)
    }


@pytest.mark.long
@pytest.mark.parametrize("which", ["exploitability", "gap"])
def test_identical_players_intervals_cover_0(which):
    dice = np.random.default_rng(3)
    covered, naive = 0, []
    for _ in range(DRAWS):
        payoff_PNN = cross_play_by_prompt(scores(dice, players=6, prompts=40))
        if which == "exploitability":
            gain_PN = exploitability_gains(payoff_PNN, 0)
        else:
            mixture_N = np.array([0, 0.5, 0.5, 0, 0, 0])
            gain_PN = deviation_gains(payoff_PNN, 0, mixture_N)
        interval = maximum_interval(gain_PN, own=0, bound=1 + (which == "gap"))
        covered += interval.low <= 0 <= interval.high
        naive.append(np.nanmean(gain_PN, axis=0).max())
    assert covered >= 0.93 * DRAWS
    assert np.mean(naive) > 0.03, "what is reported without the correction"


def test_a_real_best_reply_is_found():
    dice = np.random.default_rng(0)
    value_PK = dice.normal(size=(400, 5)) + np.array([0, 0, 0.5, 0, 0])
    interval = maximum_interval(value_PK, bound=5.0)
    assert 0 < interval.low < 0.5 < interval.high
    assert interval.mean == pytest.approx(0.5, abs=0.15)


def test_rock_paper_scissors_has_two_numbers():
    """Rock alone: paper gains 1 against it, which is its exploitability; against scissors it has
    nothing to gain, which is its best deviation.
    """
    payoff_PNN = np.tile([[0, -1, 1], [1, 0, -1], [-1, 1, 0.0]], (5, 1, 1))
    assert maximum_interval(exploitability_gains(payoff_PNN, 0)).mean == 1.0
    against_scissors = deviation_gains(payoff_PNN, 0, np.array([0, 0, 1.0]))
    assert maximum_interval(against_scissors).mean == 0.0
    against_rock = deviation_gains(payoff_PNN, 0, np.array([1.0, 0, 0]))
    assert maximum_interval(against_rock).mean == 1.0


def test_what_is_gained_against_a_player_is_not_what_it_gains():
    payoff_PNN = np.tile([[0, -1], [1, 0.0]], (3, 1, 1))
    assert exploitability_gains(payoff_PNN, 0).tolist() == [[0, 1]] * 3
    assert exploitability_gains(payoff_PNN, 1).tolist() == [[-1, 0]] * 3


def test_the_best_of_equals_is_less_than_the_largest_mean():
    value_PK = np.random.default_rng(0).normal(size=(40, 6))
    interval = maximum_interval(value_PK, bound=5.0)
    assert interval.low < interval.mean < value_PK.mean(0).max() - 0.02


def test_too_little_is_unknown():
    assert np.isnan(maximum_interval(np.zeros((1, 3))).low)
