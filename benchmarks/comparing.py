"""Arms set beside each other: intervals of bounded quantities and of differences, paired and over
seeds and items both; the word that a difference earns; many comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

import numpy as np
from scipy.special import nctdtr, stdtrit

from equipoise.payoffs.intervals import Interval, over_seeds, resampled_bounds
from equipoise.payoffs.told_apart import crossed

Claimed = Literal["more", "less", "equal"]
Word = Literal["shown", "refuted", "not shown", "equal", "not tested"]
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


def crossed_difference(
    first: Iterable[tuple[Hashable, Hashable, float]],
    second: Iterable[tuple[Hashable, Hashable, float]],
) -> Interval:
    """By how much the first arm exceeds the second on the seeds and items that both have, paired.

    Raises ValueError where they share none.
    """
    sides: list[dict[tuple[Hashable, Hashable], list[float]]] = [{}, {}]
    for side, cells in zip(sides, (first, second), strict=True):
        for seed, item, value in cells:
            side.setdefault((seed, item), []).append(value)
    return crossed(
        (*cell, value - float(np.mean(sides[1][cell])))
        for cell, values in sides[0].items()
        if cell in sides[1]
        for value in values
    )


def word_of(gap: Interval, claimed: Claimed, margin: float = 0.0) -> Word:
    """What a difference (first − second) says of the claim that the first is more, less or equal
    within a margin.
    """
    if not math.isfinite(gap.low):
        return "not shown"
    if -margin < gap.low and gap.high < margin:
        return "equal"
    if claimed == "equal":
        return "refuted" if gap.low > margin or gap.high < -margin else "not shown"
    low, high = (gap.low, gap.high) if claimed == "more" else (-gap.high, -gap.low)
    return "shown" if low > 0 else "refuted" if high < 0 else "not shown"


def power(effect: float, spread: float, units: int) -> float:
    """The chance that a paired t test at .05 over so many units shows an effect, where the units'
    differences have this standard deviation.

    >>> round(power(1.0, 1.0, 10), 2)
    0.8
    """
    edge = float(stdtrit(units - 1, 0.975))
    return float(1 - nctdtr(units - 1, effect / spread * math.sqrt(units), edge))
