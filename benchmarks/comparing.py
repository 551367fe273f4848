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


def crossed(cells: Iterable[tuple[Hashable, Hashable, float]]) -> Interval:
    """The mean of (seed, item, value) with the 95 % interval that drawing both seeds and items anew
    gives; n is the number of cells.

        se² = V_seeds + V_items − V_cells,  V = G/(G−1) · Σ_g (Σ_{v in g} (v − mean))² / N²
        mean ± t · se, with Satterthwaite's degrees of freedom of V_seeds + V_items; no
        narrower than over seeds or over items alone

    A cell is a seed and an item, and weighs as much as it has values. With one kind of unit (a single seed, a single
    item, or items that no two seeds share) it is Student's t over that kind; NaN bounds with one
    cell, or where all are alike. Percentiles of such draws are too narrow for a few seeds. Raises
    ValueError without a value. Source: Cameron, Gelbach & Miller 2011, Journal of Business and
    Economic Statistics 29; Satterthwaite 1946, Biometrics Bulletin 2.
    """
    label_V, value_V = [], []
    for seed, item, value in cells:
        label_V.append((seed, item))
        value_V.append(value)
    if not label_V:
        raise ValueError("no seed and item have a value")
    mean, off_V = float(np.mean(value_V)), np.array(value_V) - np.mean(value_V)
    parts = [_between(labels, off_V) for labels in zip(*label_V, strict=True)]
    alone, count = _between(label_V, off_V)
    seeds, items = (groups for _, groups in parts)
    if count in (items, seeds) and min(seeds, items) > 1:
        # One cell an item or a seed: nothing is crossed.
        parts = [parts[int(seeds == count)]]
    known = [(spread, groups - 1) for spread, groups in parts if groups > 1]
    total = sum(spread for spread, _ in known)
    if total <= 1e-18:
        return Interval(mean, math.nan, math.nan, count)
    freedom = total**2 / sum(spread**2 / more for spread, more in known)
    both = total - alone * (len(known) == 2)
    half = max(_half(spread, more) for spread, more in [*known, (both, freedom)])
    return Interval(mean, mean - half, mean + half, count)


def _half(spread: float, freedom: float) -> float:
    return float(stdtrit(freedom, 0.975)) * math.sqrt(max(spread, 0.0))


def _between(labels: Iterable[Hashable], off_V: np.ndarray) -> tuple[float, int]:
    """The variance of a mean that groups of values make, and the number of groups."""
    number: dict[Hashable, int] = {}
    group_V = [number.setdefault(label, len(number)) for label in labels]
    groups = len(number)
    sum_G = np.bincount(group_V, off_V)
    scale = groups / max(groups - 1, 1) / len(off_V) ** 2
    return float(scale * (sum_G @ sum_G)), groups


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
