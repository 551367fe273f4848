"""Gains against a player, gains of the player, and intervals for the largest of them.

    exploitability   max_k  payoff[k, i]                      the best reply to player i
    best deviation   max_k  Σ_j m_j payoff[k, j] − Σ_j m_j payoff[i, j]
                     what i gains by playing as k does against the mixture m it faces

k is a member of the league. MNPO's gap (eq 9) is a maximum over all policies with −τ·KL to the
reference; without that term the best deviation is a lower bound of it. For tabular players it is
exact: `solvers.exploitability.regularised_gain`.

Both are maxima of means over prompts. The largest of several noisy means is larger than the largest
of the means: thirteen equal players show a best one. So the interval is one for all means at once,
and the estimate has the bootstrap's own excess taken off. (arXiv 2509.23102, eq. 9; arXiv
1711.00832)
"""

import numpy as np

from equipoise.payoffs.intervals import Interval


def exploitability_gains(payoff_PNN: np.ndarray, player: int) -> np.ndarray:
    """The pay-off of each player of the league against `player` on each prompt [P, N].

    >>> exploitability_gains(np.array([[[0.0, 0.5], [-0.5, 0.0]]]), player=0)
    array([[ 0. , -0.5]])
    """
    return payoff_PNN[:, :, player]


def deviation_gains(payoff_PNN: np.ndarray, player: int, mixture_N: np.ndarray) -> np.ndarray:
    """Gain of `player` against its mixture if it played as each of the league does [P, N].

    A player that the mixture leaves out need not be known.

    >>> payoff_PNN = np.array([[[0.0, 0.5], [-0.5, 0.0]]])
    >>> deviation_gains(payoff_PNN, player=1, mixture_N=np.array([0.5, 0.5]))
    array([[0.5, 0. ]])
    """
    present = np.flatnonzero(mixture_N)
    against_PN = payoff_PNN[:, :, present] @ mixture_N[present]
    return against_PN - against_PN[:, player][:, None]


def maximum_interval(
    value_PK: np.ndarray, seed: int = 0, level: float = 0.95, draws: int = 1000
) -> Interval:
    """max_k of the mean of column k, with an interval that holds at `level` for all columns at
    once.

    `value_PK`: a row a cluster (prompt), a column a candidate; NaN where unknown. Rows are drawn
    with replacement; with q the quantile of max_k |mean*_k − mean_k| / se_k the bounds are max_k
    (mean_k ± q·se_k), and the estimate is max_k mean_k less the mean excess of the draws' maxima,
    kept within the bounds. NaN with fewer than two rows. Source: the studentised bootstrap of a
    maximum, Romano & Wolf 2005, Econometrica 73.

    >>> interval = maximum_interval(np.array([[1.0, 0.0], [0.8, 0.2], [0.9, 0.1]]))
    >>> interval.low < interval.mean <= 0.9 < interval.high
    True
    """
    rows = len(value_PK)
    if rows < 2 or np.isnan(value_PK).all():
        return Interval(float("nan"), float("nan"), float("nan"), rows)
    mean_K, error_K = _moments(value_PK)
    dice = np.random.default_rng(seed)
    count_DP = dice.multinomial(rows, np.full(rows, 1 / rows), size=draws)
    known_PK = (~np.isnan(value_PK)).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn_DK = (count_DP @ np.nan_to_num(value_PK)) / (count_DP @ known_PK)
        apart_DK = np.abs(drawn_DK - mean_K) / error_K
    apart_D = np.nan_to_num(apart_DK, nan=0.0, posinf=0.0).max(1)
    q = float(np.quantile(apart_D, level))
    largest = float(np.nanmax(mean_K))
    low = float(np.nanmax(mean_K - q * error_K))
    high = float(np.nanmax(mean_K + q * error_K))
    excess = float(np.nanmean(np.nanmax(drawn_DK, axis=1)) - largest)
    return Interval(float(np.clip(largest - excess, low, high)), low, high, rows)


def _moments(value_PK: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean_K, standard error_K) of the known values; NaN for an unknown column."""
    count_K = (~np.isnan(value_PK)).sum(0)
    filled_PK = np.nan_to_num(value_PK)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_K = filled_PK.sum(0) / count_K
        apart_PK = np.where(np.isnan(value_PK), 0.0, value_PK - mean_K)
        error_K = np.sqrt((apart_PK**2).sum(0) / (count_K - 1) / count_K)
    return mean_K, error_K
