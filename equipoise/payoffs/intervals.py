"""The one home of intervals: of held-out scores, win rates, differences and numbers over seeds.

Report, leaderboard, comparison, `status` and tables take theirs from here, so that one number has
one interval. Answers to one prompt are not independent of each other, so the unit is the prompt
(the cluster). Mean ± 1.96·se is too narrow with few clusters (t quantiles help) and has no width
when every answer is right (Wilson's score interval helps). No interval has a width of zero: what
has no spread and no bounds either has no interval (NaN). Several numbers that are read together
take `level_together`, or a level of `told_apart.joint_level`.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.payoffs.deviation import ROUNDING


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its interval and the number of values behind it; NaN where unknown."""

    mean: float
    low: float
    high: float
    n: int

    def text(self, unit: str = "") -> str:
        """`0.861 (0.830 to 0.889)`, or for unit "%" `86.1 % (83.0 to 88.9)` of shares in [0, 1].

        Decimals are chosen so that half the interval's width shows two digits.
        """
        if math.isnan(self.mean):
            return "–"
        scale, digits = (100.0, 1) if unit == "%" else (1.0, 3)
        half = scale * (self.high - self.low) / 2
        if math.isfinite(half) and half > 0 and unit != "%":
            digits = min(max(1 - math.floor(math.log10(half)), 0), 6)
        mean, low, high = (
            f"{scale * value:.{digits}f}" for value in (self.mean, self.low, self.high)
        )
        ending = f" {unit}" if unit else ""
        interval = f"n = {self.n}, no interval" if math.isnan(half) else f"{low} to {high}"
        return f"{mean}{ending} ({interval})"

    def percent(self) -> str:
        """A share as percent: `86.1 % (83.0 to 88.9)`."""
        return self.text("%")

    def __str__(self) -> str:
        return self.text()


def difference(before: Interval, after: Interval) -> Interval:
    """after − before with its interval, of two means as if they were independent.

    The distances to the bounds are added in squares (Zou and Donner 2008), so that neither interval
    has to be symmetric; NaN bounds where one of them is not known.

    >>> difference(Interval(0.4, 0.3, 0.5, 50), Interval(0.7, 0.6, 0.8, 50)).text()
    '0.30 (0.16 to 0.44)'
    """
    mean = after.mean - before.mean
    down = math.hypot(after.mean - after.low, before.high - before.mean)
    up = math.hypot(after.high - after.mean, before.mean - before.low)
    return Interval(mean, mean - down, mean + up, min(before.n, after.n))


def _norm(share: float) -> float:
    # Not from scipy.stats, which takes a second to import.
    from scipy.special import ndtri

    return float(ndtri(share))


def _student(share: float, freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def _finite(values: Sequence[float] | np.ndarray) -> np.ndarray:
    value_B = np.asarray(values, float)
    if value_B.ndim != 1:
        raise ValueError(f"values must be one list of numbers, not of shape {value_B.shape}")
    if not np.isfinite(value_B).all():
        raise ValueError(
            "values hold NaN or infinity; leave out missing values, and count them, "
            "before taking the mean"
        )
    return value_B


def _wilson(mean: float, n: float, level: float) -> tuple[float, float]:
    """Score interval of a proportion; `n` may be fractional (an effective number)."""
    z2 = _norm(0.5 + level / 2) ** 2
    centre = (mean + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (mean * (1 - mean) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def mean_interval(
    values: Sequence[float] | np.ndarray,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    *,
    share: bool | None = None,
) -> Interval:
    """The mean of `values` and an interval that counts clusters, not values, as independent.

        se² = G/(G−1) · Σ_g (Σ_{i in g} (v_i − mean))² / n²;   mean ± t_{G−1} · se

    Shares get Wilson's interval at the effective number n* = mean·(1−mean)/se² · (z/t_{G−1})²;
    plain Wilson with one 0/1 value a cluster. Without any spread n* = G.

    Args: values [n]; clusters: one label a value (the prompt's id), None: every value its own;
    level: coverage; share: None: values that all lie in [0, 1] are taken for shares. NaN bounds
    with a single cluster and for alike values that are no shares, NaN mean without values. Raises
    ValueError for missing values, unequal lengths, or a share outside [0, 1]. Source: Liang &
    Zeger, Biometrika 73 (1986); Wilson, JASA 22 (1927); Korn & Graubard, Survey Methodology 24
    (1998).

    >>> mean_interval([1, 1, 1, 0]).percent()
    '75.0 % (30.1 to 95.4)'
    """
    value_B = _finite(values)
    n = len(value_B)
    if clusters is not None and len(clusters) != n:
        raise ValueError(f"{n} values but {len(clusters)} cluster labels")
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    lie_within = bool(value_B.min() >= 0 and value_B.max() <= 1)
    if share is None:
        share = lie_within
    if share and not lie_within:
        raise ValueError(
            f"shares must lie in [0, 1]; these reach from {value_B.min():g} to {value_B.max():g}"
        )
    labels = range(n) if clusters is None else clusters
    number = {label: g for g, label in enumerate(dict.fromkeys(labels))}
    groups = len(number)
    mean = float(value_B.mean())
    binary = bool(np.isin(value_B, (0.0, 1.0)).all())
    if binary and groups == n:
        return Interval(mean, *_wilson(mean, n, level), n)
    if groups == 1:
        return Interval(mean, math.nan, math.nan, n)
    group_B = [number[label] for label in labels]
    deviation_G = np.bincount(group_B, value_B - mean, groups)
    se = math.sqrt(groups / (groups - 1) * float(deviation_G @ deviation_G)) / n
    if binary or share:
        return Interval(mean, *_share_bounds(mean, se, groups, level), n)
    if se <= ROUNDING * abs(mean):
        return Interval(mean, math.nan, math.nan, n)
    half = _student(0.5 + level / 2, groups - 1) * se
    return Interval(mean, mean - half, mean + half, n)


def level_together(numbers: int, level: float = 0.95) -> float:
    """The level of each of so many intervals that hold their numbers together at `level`, however
    these depend on each other (Bonferroni).

    >>> round(level_together(5), 3)
    0.99
    """
    return 1 - (1 - level) / max(numbers, 1)


def from_standard_error(
    mean: float, se: float | None, n: int, level: float = 0.95, *, share: bool = False
) -> Interval:
    """The interval of a mean of which only the standard error over `n` items is known.

    mean ± t_{n−1} · se, or under `share` Wilson's interval at the n* of `mean_interval`. NaN bounds
    without a standard error, with fewer than two items, or where a value that is no share has `se`
    = 0.

    >>> from_standard_error(0.5, 0.05, n=100).text()
    '0.500 (0.401 to 0.599)'
    """
    unknown = Interval(mean, math.nan, math.nan, n)
    if se is None or not math.isfinite(se) or n < 2:
        return unknown
    if not share:
        half = _student(0.5 + level / 2, n - 1) * se
        is_rounding = se <= ROUNDING * abs(mean)
        return unknown if is_rounding else Interval(mean, mean - half, mean + half, n)
    return Interval(mean, *_share_bounds(mean, se, n, level), n)


def payoff_interval(mean: float, se: float | None, n: int, level: float = 0.95) -> Interval:
    """The interval in [−1, 1] of a pay-off, twice the share of wins less one; NaN bounds as
    `from_standard_error`.

    >>> payoff_interval(0.9, 0.1, n=20).text()
    '0.90 (0.48 to 0.98)'
    """
    half = None if se is None else se / 2
    share = from_standard_error((mean + 1) / 2, half, n, level, share=True)
    return Interval(mean, 2 * share.low - 1, 2 * share.high - 1, n)


def _share_bounds(mean: float, se: float, n: int, level: float) -> tuple[float, float]:
    """Wilson's bounds at n* = mean·(1−mean)/se² · (z/t_{n−1})², which is n without any spread."""
    ratio = _norm(0.5 + level / 2) / _student(0.5 + level / 2, n - 1)
    effective = mean * (1 - mean) * (ratio / se) ** 2 if se > ROUNDING else n
    return _wilson(mean, effective, level)


def over_seeds(values: Sequence[float] | np.ndarray, level: float = 0.95) -> Interval:
    """Mean over independent repetitions, mean ± t_{n−1} · s/√n; NaN bounds for a single seed.

    Raises ValueError for missing values.

    >>> over_seeds([0.5, 0.7, 0.6]).text()
    '0.60 (0.35 to 0.85)'
    """
    value_S = _finite(values)
    n = len(value_S)
    if n < 2:
        return Interval(float(value_S[0]) if n else math.nan, math.nan, math.nan, n)
    mean = float(value_S.mean())
    half = float(_student(0.5 + level / 2, n - 1) * value_S.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def weighted_mean(
    values: Sequence[float] | np.ndarray, weights: Sequence[float] | np.ndarray, level: float = 0.95
) -> Interval:
    """The weighted mean of independent values, with Student's t interval; NaN bounds for a single
    one, and where all are alike.

        m = Σ w v / Σ w;   se² = n/(n−1) · Σ (w (v − m))² / (Σ w)²;   m ± t_{n−1} · se

    Raises ValueError for missing values, unequal numbers, or weights that are not above 0. Source:
    the ratio estimator, Cochran 1977, Sampling Techniques, section 6.3.

    >>> weighted_mean([0.0, 1.0], [1.0, 3.0]).mean
    0.75
    """
    value_B = _finite(values)
    weight_B = _finite(weights)
    if len(value_B) != len(weight_B) or (weight_B <= 0).any():
        raise ValueError("every value needs a weight, and every weight is above 0")
    n = len(value_B)
    if n < 2:
        return Interval(float(value_B[0]) if n else math.nan, math.nan, math.nan, n)
    mean = float(weight_B @ value_B / weight_B.sum())
    off_B = weight_B * (value_B - mean)
    se = math.sqrt(n / (n - 1) * float(off_B @ off_B)) / float(weight_B.sum())
    if se <= ROUNDING * abs(mean):
        return Interval(mean, math.nan, math.nan, n)
    half = _student(0.5 + level / 2, n - 1) * se
    return Interval(mean, mean - half, mean + half, n)


def paired_difference(
    values: Sequence[float] | np.ndarray,
    weights: Sequence[float] | np.ndarray | None = None,
    level: float = 0.95,
    *,
    share: bool = False,
) -> Interval:
    """The mean of differences of two scores, one an item, with its interval over the items.

    Student's t interval of `weighted_mean`. Differences of rights and wrongs (all −1, 0 or 1), and
    under `share` those without spread, get two more items, one of 1 and one of −1: with S the sum
    of n differences and Q that of their squares,

        m' = S/(n + 2);   se² = ((Q + 2)/(n + 2) − m'²)/(n + 2);   m' ± t_{n−1} · se

    within [−1, 1], and no narrower than holds S/n. So it keeps a width where all items agree.

    Args: values: first less second; weights: how often an item counts, None: once; share: both
    scores lie in [0, 1]. NaN bounds with one item, and for alike differences of other scores.
    Raises ValueError as `weighted_mean`. Source: Bonett & Price 2012, Journal of
    Educational and Behavioral Statistics 37.

    >>> paired_difference([0, 0, 0, 0, 1, 0, 0, 0, 0, 0], share=True).text()
    '0.10 (-0.24 to 0.41)'
    """
    value_B = _finite(values)
    n = len(value_B)
    weight_B = np.ones(n)
    if weights is not None:
        weight_B = np.asarray(weights, float)
    plain = weighted_mean(value_B, weight_B, level)
    binary = bool(np.isin(value_B, (-1.0, 0.0, 1.0)).all())
    alike = math.isnan(plain.low)
    if n < 2 or not share or not (binary or alike):
        return plain
    share_B = weight_B / weight_B.sum() * n
    centre = float(share_B @ value_B) / (n + 2)
    square = (float(share_B @ value_B**2) + 2) / (n + 2)
    se = math.sqrt((square - centre**2) / (n + 2))
    half = _student(0.5 + level / 2, n - 1) * se
    low = max(min(centre - half, plain.mean), -1.0)
    high = min(max(centre + half, plain.mean), 1.0)
    return Interval(plain.mean, low, high, n)


def win_rate(
    values: Sequence[float] | np.ndarray,
    prompts: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> Interval:
    """The first side's share of wins, ties counting half: mean (v + 1)/2 with its interval in [0,
    1].

    Args: values: 1 the first side won, −1 it lost, 0 a judged tie; prompts: of each match, the
    clusters. Raises ValueError for values outside [−1, 1] or missing.

    >>> win_rate([1, 1, 0, -1]).mean
    0.625
    """
    value_B = _finite(values)
    if len(value_B) and np.abs(value_B).max() > 1:
        largest = value_B[np.abs(value_B).argmax()]
        raise ValueError(f"preference values must lie in [-1, 1]; found {largest:g}")
    return mean_interval((value_B + 1) / 2, prompts, level, share=True)


def resampled_bounds(
    clusters: Sequence[Hashable],
    statistic: Callable[[np.ndarray], float],
    resamples: int = 200,
    seed: int = 0,
) -> tuple[float, float]:
    """The 2.5 % and 97.5 % quantile of a statistic over draws of the clusters with replacement.

    `clusters` labels each row; rows of one label are drawn together. `statistic` takes the numbers
    of the rows drawn. Source: Efron 1979, Annals of Statistics 7; percentile intervals.

    >>> value_B = np.array([1.0, 1.0, 0.0, 0.0])
    >>> resampled_bounds("aabb", lambda rows: value_B[rows].mean())
    (0.0, 1.0)
    """
    rows_of: dict[Hashable, list[int]] = {}
    for row, label in enumerate(clusters):
        rows_of.setdefault(label, []).append(row)
    groups = [np.array(rows) for rows in rows_of.values()]
    dice = np.random.default_rng(seed)
    values = []
    for _ in range(resamples):
        drawn = dice.integers(len(groups), size=len(groups))
        values.append(statistic(np.concatenate([groups[group] for group in drawn])))
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
