"""Win rates of each against each with intervals that hold for all pairs at once.

A win rate is (1 + pay-off)/2, for a pay-off P(win) − P(loss). Report, leaderboard and comparison
take the intervals from here, so that one pair has one interval on every page.
"""

from itertools import combinations

import numpy as np

from equipoise.payoffs.intervals import Interval, level_together, payoff_interval


def win_rates(
    payoff_NN: np.ndarray, se_NN: np.ndarray, clusters_NN: np.ndarray
) -> dict[tuple[int, int], Interval]:
    """(i, j) -> the win rate of i over j, for every two that met on a prompt.

    Args: the pay-offs with their standard errors and numbers of prompts, as `PayoffTable` has them.
    Source: Wilson's interval at the effective number of prompts; Bonferroni over the pairs.

    >>> payoff_NN = np.array([[0.0, 0.5], [-0.5, 0.0]])
    >>> se_NN, clusters_NN = np.array([[0.0, 0.2], [0.2, 0.0]]), np.array([[0, 20], [20, 0]])
    >>> win_rates(payoff_NN, se_NN, clusters_NN)[0, 1].percent()
    '75.0 % (50.8 to 89.7)'
    """
    met = [(i, j) for i, j in combinations(range(len(payoff_NN)), 2) if clusters_NN[i, j]]
    level = level_together(len(met))
    rates = {}
    for pair in met:
        for i, j in (pair, pair[::-1]):
            prompts = int(clusters_NN[i, j])
            pays = payoff_interval(float(payoff_NN[i, j]), float(se_NN[i, j]), prompts, level)
            mean, low, high = ((1 + value) / 2 for value in (pays.mean, pays.low, pays.high))
            rates[i, j] = Interval(mean, low, high, prompts)
    return rates
