"""What of several players' scores can be told apart: paired differences, and how many there are.

Scores of two players on one item (a prompt with all its samples) are one difference; items are
drawn, and so are seeds where a player is a recipe that was run several times. Three things keep a
comparison of many pairs honest, and all are here: a sign-flip test of each (exact where the two are
alike), Holm's correction of its p-values, and a level for the intervals at which all of them hold
together. Two players differ where both say so.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from equipoise.payoffs.deviation import ROUNDING
from equipoise.payoffs.intervals import Interval, level_together

MOST_FLIPPED = 12  # values up to which every choice of signs is looked at: 4,096
FLIPS = 9_999  # choices of signs that are drawn of more values
FEW_SEEDS = 6  # seeds up to which an exact test stands beside the interval
POWER = 0.8  # the chance with which the smallest difference would have been shown
MEMORY = 2**24  # numbers of one product of signs and differences


def signs_of(values: int, seed: int = 0) -> np.ndarray:
    """Choices of a sign for each value [F, values]: all of them, or `FLIPS` drawn ones and none
    flipped.

    >>> signs_of(2).astype(int).tolist()
    [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    """
    if values <= MOST_FLIPPED:
        return np.array(list(product((1.0, -1.0), repeat=values))).reshape(2**values, values)
    dice = np.random.default_rng(seed)
    drawn = dice.integers(0, 2, size=(FLIPS, values)) * 2.0 - 1.0
    return np.concatenate([np.ones((1, values)), drawn])


def sign_flip(values: Sequence[float] | np.ndarray, seed: int = 0) -> float:
    """The two-sided p-value that paired differences have no direction: the share of choices of
    their signs under which the sum is as far from 0 as it is.

    Exact up to `MOST_FLIPPED` values that are not 0, drawn beyond. 1.0 where all are 0, NaN without
    a value. Source: Fisher 1935, The Design of Experiments, section 21.

    >>> sign_flip([0.2, 0.1, 0.4])
    0.25
    """
    value_B = np.asarray(values, float)
    if not len(value_B):
        return math.nan
    moved_B = value_B[np.abs(value_B) > ROUNDING]
    if not len(moved_B):
        return 1.0
    total = abs(float(moved_B.sum()))
    sum_F = np.abs(signs_of(len(moved_B), seed) @ moved_B)
    return float(np.mean(sum_F >= total - ROUNDING * np.abs(moved_B).sum()))


def relabelled(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p-value that two groups of seeds are alike: the share of all ways to deal the
    values to groups of these sizes whose means are as far apart. NaN where a group is empty.

    Source: Fisher 1935; exact.

    >>> relabelled([3.0, 4.0, 5.0], [0.0, 1.0, 2.0])
    0.1
    """
    if not len(first) or not len(second):
        return math.nan
    value_S = np.array([*first, *second], float)
    total = value_S.sum()
    own = len(first)
    other = len(second)

    def apart(chosen: Sequence[int]) -> float:
        inside = value_S[list(chosen)].sum()
        return abs(float(inside / own - (total - inside) / other))

    here = apart(range(own))
    dealt = [apart(chosen) for chosen in combinations(range(own + other), own)]
    return float(np.mean(np.array(dealt) >= here - ROUNDING))


def holm(p_K: Sequence[float] | np.ndarray) -> np.ndarray:
    """p-values corrected for being K comparisons; below α, one is shown at level α. NaN stays.

    Source: Holm 1979, Scandinavian Journal of Statistics 6.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    value_K = np.asarray(p_K, float)
    corrected_K = np.full_like(value_K, np.nan)
    known = np.flatnonzero(~np.isnan(value_K))
    order = known[value_K[known].argsort()]
    factors = np.arange(len(order), 0, -1)
    steps = np.maximum.accumulate(value_K[order] * factors)
    corrected_K[order] = steps.clip(max=1.0)
    return corrected_K


def joint_level(
    value_PK: np.ndarray, level: float = 0.95, flips: int = 2_000, seed: int = 0
) -> float:
    """The level of each of K intervals of mean differences at which all hold together at `level`.

    The smallest of the K p-values of Student's t is drawn under random signs of the items, the same
    for all columns, of the differences less their means; the level leaves outside what is smaller
    in 1 − `level` of the draws. It lies between `level` (one column, or columns that say the same)
    and Bonferroni's.

    Args: value_PK: a row an item, a column a comparison; NaN where the item is not in it. Source:
    the step-one minimum of p-values, Westfall & Young 1993, Resampling-Based Multiple Testing; the
    wild bootstrap's signs, Liu 1988, Annals of Statistics 16.

    >>> alike_PK = np.random.default_rng(0).normal(size=(40, 1)) * np.ones((1, 9))
    >>> joint_level(alike_PK) < level_together(9)
    True
    """
    items, columns = value_PK.shape
    if columns < 2 or not items:
        return level
    known_PK = ~np.isnan(value_PK)
    count_K = known_PK.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_K = np.nansum(value_PK, axis=0) / count_K
    off_PK = np.where(known_PK, value_PK - mean_K, 0.0)
    square_K = (off_PK**2).sum(axis=0)
    usable = (count_K > 2) & (square_K > ROUNDING)
    lowest = level_together(columns, level)
    if not usable.any():
        return lowest
    off_PK = off_PK[:, usable]
    count_K = count_K[usable]
    square_K = square_K[usable]
    dice = np.random.default_rng(seed)
    rows = max(1, min(flips, MEMORY // max(items, off_PK.shape[1])))
    smallest: list[np.ndarray] = []
    left = flips
    while left > 0:
        size = min(rows, left)
        sign_FP = dice.integers(0, 2, size=(size, items)) * 2.0 - 1.0
        sum_FK = sign_FP @ off_PK
        variance_FK = np.maximum(square_K - sum_FK**2 / count_K, 0.0) / (count_K - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            t_FK = np.abs(sum_FK) / np.sqrt(variance_FK * count_K)
        p_FK = 2 * stdtr(count_K - 1, -np.nan_to_num(t_FK, nan=0.0, posinf=1e9))
        smallest.append(p_FK.min(axis=1))
        left -= size
    alpha = float(np.quantile(np.concatenate(smallest), 1 - level))
    return float(np.clip(1 - alpha, level, lowest))


def smallest_shown(interval: Interval, freedom: int, level: float = 0.95) -> float:
    """The smallest true difference that would have been shown with a chance of `POWER`, by this
    interval's half width, its degrees of freedom and its level; NaN where there is no interval.

    >>> round(smallest_shown(Interval(0.0, -0.1, 0.1, 50), 49), 3)
    0.142
    """
    half = (interval.high - interval.low) / 2
    if not math.isfinite(half) or freedom < 1:
        return math.nan
    edge = float(stdtrit(freedom, 0.5 + level / 2))
    return half * (1 + float(ndtri(POWER)) / edge)


def rank_ranges(low_NN: np.ndarray, high_NN: np.ndarray) -> list[tuple[int, int]]:
    """Each player's first and last possible place, where all the intervals of differences hold.

    Args: low_NN, high_NN: bounds of what player i has more than player j, at a level at which all
    hold together; NaN where nothing is known. A player's place is 1 and those that are surely
    better; its last is N less those that are surely worse. All ranges hold together at the same
    level. Source: Mogstad, Romano, Shaikh & Wilhelm 2024, Review of Economic Studies 91.

    >>> low_NN = np.array([[0, 0.1, -0.2], [-0.4, 0, -0.3], [-0.3, -0.1, 0]])
    >>> rank_ranges(low_NN, -low_NN.T)
    [(1, 2), (2, 3), (1, 3)]
    """
    players = len(low_NN)
    ranges = []
    for i in range(players):
        others = [j for j in range(players) if j != i]
        better = sum(bool(high_NN[i, j] < 0) for j in others)
        worse = sum(bool(low_NN[i, j] > 0) for j in others)
        ranges.append((1 + better, players - worse))
    return ranges


@dataclass(frozen=True, slots=True)
class SpreadMean:
    """A mean and the variances that it has by each kind of unit, with their degrees of freedom.

    Its interval is the widest that any of them gives, and its p-value the largest.
    """

    mean: float
    parts: tuple[tuple[float, float], ...]
    count: int

    def interval(self, level: float = 0.95) -> Interval:
        """mean ± t · se; NaN bounds where nothing varies or only one unit is there."""
        halves = [
            float(stdtrit(freedom, 0.5 + level / 2)) * math.sqrt(spread)
            for spread, freedom in self.parts
        ]
        half = max(halves, default=math.nan)
        return Interval(self.mean, self.mean - half, self.mean + half, self.count)

    @property
    def p(self) -> float:
        """The two-sided p-value that the mean is 0; NaN where there is no interval."""
        values = [
            2 * float(stdtr(freedom, -abs(self.mean) / math.sqrt(spread)))
            for spread, freedom in self.parts
        ]
        return max(values, default=math.nan)

    @property
    def freedom(self) -> int:
        """The smallest degrees of freedom, rounded down; at least 1."""
        return max(1, int(min((freedom for _, freedom in self.parts), default=1)))


def crossed(cells: Iterable[tuple[Hashable, Hashable, float]], level: float = 0.95) -> Interval:
    """The mean of (seed, item, value) with the interval that drawing both seeds and items anew
    gives; n is the number of cells.

        se² = V_seeds + V_items − V_cells,  V = G/(G−1) · Σ_g (Σ_{v in g} (v − mean))² / N²
        mean ± t · se, with Satterthwaite's degrees of freedom of V_seeds + V_items; no
        narrower than over seeds or over items alone

    A cell is a seed and an item, and weighs as much as it has values. With one kind of unit (a
    single seed, a single item, or items that no two seeds share) it is Student's t over that kind;
    NaN bounds with one cell, or where all are alike. Percentiles of such draws are too narrow for a
    few seeds. Raises ValueError without a value. Source: Cameron, Gelbach & Miller 2011, Journal of
    Business and Economic Statistics 29; Satterthwaite 1946, Biometrics Bulletin 2.

    >>> crossed([(0, "a", 0.1), (0, "b", 0.3), (1, "a", 0.2), (1, "b", 0.2)]).mean
    0.2
    """
    return crossed_mean(cells).interval(level)


def crossed_mean(cells: Iterable[tuple[Hashable, Hashable, float]]) -> SpreadMean:
    """As `crossed`, for any level.

    >>> crossed_mean([(0, "a", 1.0), (1, "a", 2.0), (2, "a", 3.0)]).freedom
    2
    """
    label_V = []
    value_V = []
    for seed, item, value in cells:
        label_V.append((seed, item))
        value_V.append(value)
    if not label_V:
        raise ValueError("no seed and item have a value")
    mean = float(np.mean(value_V))
    off_V = np.array(value_V) - mean
    parts = [_between(labels, off_V) for labels in zip(*label_V, strict=True)]
    alone, count = _between(label_V, off_V)
    seeds, items = (groups for _, groups in parts)
    if count in (items, seeds) and min(seeds, items) > 1:
        # One cell an item or a seed: nothing is crossed.
        parts = [parts[int(seeds == count)]]
    known = [(spread, groups - 1.0) for spread, groups in parts if groups > 1]
    total = sum(spread for spread, _ in known)
    if total <= 1e-18:
        return SpreadMean(mean, (), count)
    freedom = total**2 / sum(spread**2 / more for spread, more in known)
    both = total - alone * (len(known) == 2)
    spreads = [(spread, more) for spread, more in [*known, (both, freedom)] if spread > 0]
    return SpreadMean(mean, tuple(spreads), count)


def _between(labels: Iterable[Hashable], off_V: np.ndarray) -> tuple[float, int]:
    """The variance of a mean that groups of values make, and the number of groups."""
    number: dict[Hashable, int] = {}
    group_V = [number.setdefault(label, len(number)) for label in labels]
    groups = len(number)
    sum_G = np.bincount(group_V, off_V)
    scale = groups / max(groups - 1, 1) / len(off_V) ** 2
    return float(scale * (sum_G @ sum_G)), groups


def between_recipes(
    first: Mapping[Any, Mapping[str, float]], second: Mapping[Any, Mapping[str, float]]
) -> SpreadMean | None:
    """By how much the first recipe's scores (seed -> item -> score) exceed the second's, over seeds
    and items; None where they share no item.

    Recipes with the same seeds are paired by seed and item, as in `crossed`. Else the seeds of each
    are draws of their own, and

        se² = V_items + V_seeds of the first + V_seeds of the second,

    with V_items that of the items' differences of means over seeds, and nothing for the seeds of a
    side that has one; Satterthwaite's degrees of freedom; no narrower than over items alone.

    >>> runs = {1: {"a": 1.0, "b": 0.0}, 2: {"a": 1.0, "b": 1.0}}
    >>> between_recipes(runs, {1: {"a": 0.0, "b": 0.0}, 2: {"a": 1.0, "b": 0.0}}).mean
    0.5
    """
    if first.keys() == second.keys() and len(first) > 1:
        cells = []
        for seed, own in first.items():
            other = second[seed]
            cells += [(seed, item, own[item] - other[item]) for item in own if item in other]
        return crossed_mean(cells) if cells else None
    own_I = means_over_seeds(first)
    other_I = means_over_seeds(second)
    both = [item for item in own_I if item in other_I]
    if not both:
        return None
    apart_I = np.array([own_I[item] - other_I[item] for item in both])
    mean = float(apart_I.mean())
    parts: list[tuple[float, float]] = []
    if len(both) > 1:
        parts.append((float(apart_I.var(ddof=1)) / len(both), len(both) - 1.0))
    for side in (first, second):
        of_seeds = []
        for scores in side.values():
            values = [scores[item] for item in both if item in scores]
            if values:
                of_seeds.append(float(np.mean(values)))
        if len(of_seeds) > 1:
            spread = float(np.var(of_seeds, ddof=1)) / len(of_seeds)
            parts.append((spread, len(of_seeds) - 1.0))
    known = [(spread, freedom) for spread, freedom in parts if spread > 1e-18]
    if not known:
        return SpreadMean(mean, (), len(both))
    total = sum(spread for spread, _ in known)
    freedom = total**2 / sum(spread**2 / own for spread, own in known)
    return SpreadMean(mean, (known[0], (total, freedom)), len(both))


def means_over_seeds(side: Mapping[Any, Mapping[str, float]]) -> dict[str, float]:
    """Item -> the mean over the seeds that have it.

    >>> means_over_seeds({1: {"a": 0.0}, 2: {"a": 1.0, "b": 0.25}})
    {'a': 0.5, 'b': 0.25}
    """
    values: dict[str, list[float]] = {}
    for scores in side.values():
        for item, score in scores.items():
            values.setdefault(item, []).append(score)
    return {item: float(np.mean(of_item)) for item, of_item in values.items()}
