"""Arms set beside each other: intervals of bounded quantities, differences paired over seeds, many
comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.payoffs.intervals import Interval, over_seeds, resampled_bounds

FEW = 8  # values; of fewer, percentiles of a bootstrap are too narrow


def bounded(values: Sequence[float] | np.ndarray, low: float = 0.0, high: float = 1.0) -> Interval:
    """The mean of independent values that lie in [low, high], with its 95 % interval.

    Percentiles of a bootstrap over the values. Of fewer than `FEW` these reach no further than the
    values themselves do (three cover at most 75 %), so that Student's t interval is cut to the
    bounds instead, which costs it no coverage.
    """
    value_S = np.asarray(values, float)
    if len(value_S) and not (low <= value_S.min() and value_S.max() <= high):
        raise ValueError(f"values must lie in [{low:g}, {high:g}]")
    interval = over_seeds(value_S)
    if len(value_S) < FEW:
        # NaN bounds stay NaN.
        ends = np.clip([interval.low, interval.high], low, high)
    else:
        ends = resampled_bounds(
            range(len(value_S)), lambda row_S: float(value_S[row_S].mean()), 2000
        )
    return Interval(interval.mean, float(ends[0]), float(ends[1]), len(value_S))


def paired(first: Sequence[float], second: Sequence[float]) -> Interval:
    """By how much the first arm exceeds the second, over independent seeds; one value a seed each.
    Raises ValueError where the arms have not the same number of seeds.
    """
    return over_seeds([a - b for a, b in zip(first, second, strict=True)])


def holm(p_K: Sequence[float]) -> np.ndarray:
    """p-values corrected for being K comparisons; below α, one is shown at level α.

    Source: Holm 1979, Scandinavian Journal of Statistics 6.
    """
    value_K = np.asarray(p_K, float)
    order_K = value_K.argsort()
    factor_K = np.arange(len(value_K), 0, -1)
    corrected_K = np.empty_like(value_K)
    corrected_K[order_K] = np.maximum.accumulate(value_K[order_K] * factor_K)
    return corrected_K.clip(max=1.0)
