"""Gains against a player, gains of the player, and intervals for the largest of them.

    exploitability   max_k  payoff[k, i]                      the best reply to player i
    best deviation   max_k  Σ_j m_j payoff[k, j] − Σ_j m_j payoff[i, j]
                     what i gains by playing as k does against the mixture m it faces

k is a member of the league. MNPO's gap (eq 9) is a maximum over all policies with −τ·KL to the
reference; without that term the best deviation is a lower bound of it. For tabular players it is
exact: `solvers.exploitability.regularised_gain`.

Both are maxima of means over prompts. The largest of several noisy means is larger than the largest
of the means: thirteen equal players show a best one. So the interval is one for all means at once,
and the estimate has what chance adds to a maximum taken off. Report, leaderboard and comparison
take it from here. (arXiv 2509.23102, eq. 9; arXiv 1711.00832)
"""

import math
from collections.abc import Sequence

import numpy as np

from equipoise.payoffs.intervals import Interval, level_together, payoff_interval
from equipoise.payoffs.table import PayoffTable


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


def largest_gain(
    mean_K: Sequence[float] | np.ndarray,
    error_K: Sequence[float] | np.ndarray,
    prompts_K: Sequence[int] | np.ndarray,
    level: float = 0.95,
    *,
    bound: float = 1.0,
    draws: int = 1000,
) -> tuple[Interval, int | None]:
    """The largest of K gains with an interval that holds for all of them at once, and whose it is.

    Each gain gets the interval of a pay-off (Wilson's) at a level of 1 − (1 − level)/K; the bounds
    are the largest of theirs. The estimate is the largest mean less the mean excess of the maxima
    of `draws` normal draws around the means, kept within the bounds.

    Args: mean_K, error_K, prompts_K: each gain's mean, standard error and prompts; NaN, and fewer
    than two prompts, are unknown; bound: gains lie in [−bound, bound]. NaN and None where nothing
    is known. Source: Bonferroni; the excess by the parametric bootstrap, Romano & Wolf 2005,
    Econometrica 73.

    >>> gain, whose = largest_gain([1.0, 0.0], [0.0, 0.1], [20, 20])
    >>> gain.text(), whose
    ('1.00 (0.60 to 1.00)', 0)
    """
    mean_K = np.asarray(mean_K, float)
    error_K = np.asarray(error_K, float)
    prompts_K = np.asarray(prompts_K)
    is_known_K = np.isfinite(mean_K) & np.isfinite(error_K) & (prompts_K > 1)
    known = np.flatnonzero(is_known_K)
    if not len(known):
        return Interval(math.nan, math.nan, math.nan, int(prompts_K.max(initial=0))), None
    each = level_together(len(known), level)
    lows = []
    highs = []
    for k in known:
        mean = float(np.clip(mean_K[k] / bound, -1, 1))
        gain = payoff_interval(mean, float(error_K[k]) / bound, int(prompts_K[k]), each)
        lows.append(bound * gain.low)
        highs.append(bound * gain.high)
    best = int(known[np.argmax(mean_K[known])])
    noise_DK = np.random.default_rng(0).normal(size=(draws, len(known)))
    drawn_D = (mean_K[known] + noise_DK * error_K[known]).max(axis=1)
    largest = float(mean_K[best])
    excess = max(float(drawn_D.mean()) - largest, 0.0)
    if len(known) == 1:
        excess = 0.0
    low = max(lows)
    high = max(highs)
    estimate = float(np.clip(largest - excess, low, high))
    return Interval(estimate, low, high, int(prompts_K[best])), best


def largest_gap(table: PayoffTable, player: int) -> tuple[Interval, int | None]:
    """The most that anybody gains against a player with its interval, and who (None: nobody).

    Of opponents met on two prompts or more; the interval holds for all of them at once.

    >>> from equipoise.payoffs.table import cross_play
    >>> better, worse = {"p": [1], "q": [1], "r": [0]}, {"p": [0], "q": [0], "r": [0]}
    >>> gap, who = largest_gap(cross_play({"better": better, "worse": worse}), 1)
    >>> round(gap.mean, 2), who
    (0.67, 0)
    """
    met = [j for j in np.flatnonzero(table.clusters_NN[:, player] > 1) if j != player]
    gain, best = largest_gain(
        table.payoff_NN[met, player], table.se_NN[met, player], table.clusters_NN[met, player]
    )
    if best is None:
        return gain, None
    gap = Interval(max(gain.mean, 0.0), max(gain.low, 0.0), max(gain.high, 0.0), gain.n)
    return gap, int(met[best]) if gap.mean > 0 else None


def gap_text(gap: Interval) -> str:
    """The most that anybody gains against a player, to read.

    >>> gap_text(Interval(0.0, 0.0, 0.0, 9))
    '0.00 (nobody beats it)'
    """
    return "0.00 (nobody beats it)" if gap.high == 0 else gap.text()


def maximum_interval(
    value_PK: np.ndarray, own: int | None = None, level: float = 0.95, bound: float = 1.0
) -> Interval:
    """`largest_gain` of the columns' means, over clusters.

    Args: value_PK: a row a cluster (prompt), a column a candidate; NaN where unknown; own: the
    column of the player itself, whose gain is exactly 0. NaN with fewer than two rows.

    >>> interval = maximum_interval(np.array([[1.0, 0.0], [0.8, 0.2], [0.9, 0.1]]))
    >>> interval.low < interval.mean < 0.91 < interval.high
    True
    """
    rows = len(value_PK)
    others = [k for k in range(value_PK.shape[1]) if k != own]
    if own is not None and not others:
        return Interval(0.0, math.nan, math.nan, rows)
    mean_K, error_K = _moments(value_PK[:, others])
    count_K = (~np.isnan(value_PK[:, others])).sum(axis=0)
    gain, _ = largest_gain(mean_K, error_K, count_K, level, bound=bound)
    if math.isnan(gain.mean) or own is None:
        return Interval(gain.mean, gain.low, gain.high, rows)
    return Interval(max(gain.mean, 0.0), max(gain.low, 0.0), max(gain.high, 0.0), rows)


def _moments(value_PK: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean_K, standard error_K) of the known values; NaN for an unknown column."""
    count_K = (~np.isnan(value_PK)).sum(0)
    filled_PK = np.nan_to_num(value_PK)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_K = filled_PK.sum(0) / count_K
        apart_PK = np.where(np.isnan(value_PK), 0.0, value_PK - mean_K)
        error_K = np.sqrt((apart_PK**2).sum(0) / (count_K - 1) / count_K)
    return mean_K, error_K
