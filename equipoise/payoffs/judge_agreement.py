"""Agreement of judges beyond chance, of predictions with the truth and of scores with each other;
and the scale on which leads foretell what people prefer.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, ndtri

from equipoise.errors import ConfigError

Level = Literal["ordinal", "interval"]


def krippendorff_alpha(ratings_JU: npt.ArrayLike, level: Level = "interval") -> float:
    """Krippendorff's alpha: 1 for perfect agreement, 0 for that of chance, negative below it.

        alpha = 1 − D_o / D_e
        D_o = 1/n · Σ_u 1/(m_u − 1) · Σ_{i≠j in u} d(v_i, v_j)
        D_e = 1/(n(n − 1)) · Σ_{i≠j} d(v_i, v_j)

    over the n ratings of units u that have m_u ≥ 2 of them. d is the squared difference
    ("interval") or that of the middle ranks ("ordinal").

    Args: ratings_JU: judge j's rating of unit u [J, U], NaN where there is none. NaN where no unit
    has two ratings, or no two differ. Raises ValueError for another shape or infinite ratings.
    Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, §C–E.

    >>> round(krippendorff_alpha([[1, 2, 3, 4], [1, 2, 3, 5]]), 3)
    0.937
    """
    ratings_JU = np.asarray(ratings_JU, float)
    if ratings_JU.ndim != 2:
        raise ValueError(f"ratings_JU must be judges by units; its shape is {ratings_JU.shape}")
    if np.isinf(ratings_JU).any():
        raise ValueError(
            "ratings_JU holds infinity; a rating must be finite, or NaN where there is none"
        )
    given_JU = ~np.isnan(ratings_JU)
    given_JU &= given_JU.sum(0) >= 2
    value_n = ratings_JU[given_JU]
    unit_n = np.nonzero(given_JU)[1]
    if not len(value_n) or value_n.min() == value_n.max():
        return math.nan
    point_nF = _points(value_n, level)
    # Centred, the differences stay as they are, and large ratings lose no digits.
    point_nF = point_nF - point_nF.mean(0)
    count_U = given_JU.sum(0)
    spread_U = _spread(point_nF, unit_n, count_U)
    observed = (spread_U[count_U > 0] / (count_U[count_U > 0] - 1)).sum()
    one_unit_n = np.zeros(len(value_n), int)
    (expected,) = _spread(point_nF, one_unit_n, np.array([len(value_n)]))
    return float(1 - (len(value_n) - 1) * observed / expected)


def _points(value_n: np.ndarray, level: Level) -> np.ndarray:
    """Points [n, F] whose squared distances are the level's d, up to a factor that cancels."""
    _, place_n, count_V = np.unique(value_n, return_inverse=True, return_counts=True)
    if level == "interval":
        return value_n[:, None]
    if level == "ordinal":
        return (np.cumsum(count_V) - count_V / 2)[place_n][:, None]
    raise ValueError(f"level '{level}' is not known; it is ordinal or interval")


def _spread(point_nF: np.ndarray, unit_n: np.ndarray, count_U: np.ndarray) -> np.ndarray:
    """Per unit, half of Σ_{i≠j} |x_i − x_j|² = m Σ |x|² − |Σ x|²."""
    square_U = np.bincount(unit_n, (point_nF**2).sum(1), len(count_U))
    sum_FU = np.stack([np.bincount(unit_n, feature_n, len(count_U)) for feature_n in point_nF.T])
    return np.maximum(count_U * square_U - (sum_FU**2).sum(0), 0.0)


class ClassScore(NamedTuple):
    """How well one class is told from the others; `total` of it are true."""

    precision: float
    recall: float
    f1: float
    total: int


def class_scores(true_B: Sequence[str], predicted_B: Sequence[str]) -> dict[str, ClassScore]:
    """Precision, recall and F1 of every class that is true or predicted somewhere, 0 where there is
    nothing to divide by; ordered by name.

    Raises ValueError for other lengths.

    >>> class_scores(["a", "a", "b"], ["a", "b", "b"])["a"]
    ClassScore(precision=1.0, recall=0.5, f1=0.6666666666666666, total=2)
    """
    pairs = Counter(zip(true_B, predicted_B, strict=True))
    true = Counter(true_B)
    predicted = Counter(predicted_B)
    scores = {}
    for name in sorted({*true, *predicted}):
        right = pairs[name, name]
        precision = right / predicted[name] if predicted[name] else 0.0
        recall = right / true[name] if true[name] else 0.0
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        scores[name] = ClassScore(precision, recall, f1, true[name])
    return scores


class Correlations(NamedTuple):
    """Three coefficients of two scores; NaN where one of them is constant."""

    pearson: float
    spearman: float
    kendall: float


def correlations(one_B: npt.ArrayLike, other_B: npt.ArrayLike) -> Correlations:
    """Pearson's, Spearman's and Kendall's (τ-b) coefficients of two scores.

    Raises ValueError for shapes that differ.

    >>> correlations([1, 2, 3], [1, 3, 2]).spearman
    0.5
    """
    from scipy import stats  # here: it takes a second to import

    one_B = np.asarray(one_B, float)
    other_B = np.asarray(other_B, float)
    if one_B.ndim != 1 or one_B.shape != other_B.shape:
        raise ValueError(f"shapes differ: {one_B.shape} and {other_B.shape}")
    if len(one_B) < 2 or not np.ptp(one_B) or not np.ptp(other_B):
        return Correlations(math.nan, math.nan, math.nan)
    ranks = (stats.rankdata(values_B) for values_B in (one_B, other_B))
    return Correlations(
        pearson=float(np.corrcoef(one_B, other_B)[0, 1]),
        spearman=float(np.corrcoef(*ranks)[0, 1]),
        kendall=float(np.asarray(stats.kendalltau(one_B, other_B))[0]),
    )


class Calibration(NamedTuple):
    """P(people prefer the first answer) = σ(slope · lead), with the slope's 95 % interval.

    `log_loss`: held-out mean of −log P(what people preferred), in nats; log 2 is that of a coin.
    """

    slope: float
    low: float
    high: float
    log_loss: float


def calibrate(
    lead_n: npt.ArrayLike, preferred_n: npt.ArrayLike, folds: int = 5
) -> Calibration | None:
    """The slope with which a judge's leads foretell what people prefer.

        maximise Σ y·log σ(b·d) + (1 − y)·log σ(−b·d) − b²·s²/18,  s² = mean d²

    The last term is a prior of deviation 3 on b·s, so that it stays finite where the judge is
    always right.

    Args: lead_n: the judge's score of the first answer less that of the second; preferred_n: the
    share of people who prefer the first, ties as ½; folds: parts foretold by the others, in turn.
    None for fewer than `folds` comparisons, or where the judge never prefers one. Raises ValueError
    for other shapes, and shares outside [0, 1]. Source: Platt 1999, Probabilistic outputs for
    support vector machines, without an intercept.

    >>> lead_n, preferred_n = [2, 1, 1, -1, -2, -1], [1, 1, 0, 0, 0, 1]
    >>> round(calibrate(lead_n, preferred_n).slope, 2)
    0.68
    """
    lead_n = np.asarray(lead_n, float)
    preferred_n = np.asarray(preferred_n, float)
    if lead_n.ndim != 1 or lead_n.shape != preferred_n.shape:
        raise ValueError(f"shapes differ: {lead_n.shape} and {preferred_n.shape}")
    if ((preferred_n < 0) | (preferred_n > 1)).any():
        raise ValueError("preferred_n holds shares outside [0, 1]")
    scale = math.sqrt(float(np.mean(lead_n**2))) if len(lead_n) else 0.0
    if len(lead_n) < folds or scale == 0:
        return None
    unit_n = lead_n / scale
    part_n = np.arange(len(unit_n)) % folds
    losses: list[float] = []
    for part in range(folds):
        slope = _slope(unit_n[part_n != part], preferred_n[part_n != part])
        known_n = part_n == part
        losses += _losses(slope, unit_n[known_n], preferred_n[known_n]).tolist()
    slope = _slope(unit_n, preferred_n)
    chance_n = expit(slope * unit_n)
    curvature = float((unit_n**2 * chance_n * (1 - chance_n)).sum() + PRIOR)
    half = float(ndtri(0.975)) / math.sqrt(curvature)
    return Calibration(
        slope / scale, (slope - half) / scale, (slope + half) / scale, float(np.mean(losses))
    )


PRIOR = 1 / 9  # of the slope of a standard lead: 1/deviation²


def _slope(unit_n: np.ndarray, preferred_n: np.ndarray) -> float:
    """The zero of the objective's derivative, which falls steadily, by halving."""
    low = -100.0
    high = 100.0
    for _ in range(60):
        middle = (low + high) / 2
        gradient = (unit_n * (preferred_n - expit(middle * unit_n))).sum()
        if gradient - PRIOR * middle > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _losses(slope: float, unit_n: np.ndarray, preferred_n: np.ndarray) -> np.ndarray:
    for_n = log_expit(slope * unit_n)
    against_n = log_expit(-slope * unit_n)
    return -(preferred_n * for_n + (1 - preferred_n) * against_n)


def first_place(reward_N: ArrayLike) -> np.ndarray:
    """P(each comes first) of rewards in logits. Raises ConfigError where one is not finite.

    >>> first_place(np.log([1.0, 3.0]))
    array([0.25, 0.75])
    """
    values_N = np.asarray(reward_N, float)
    if not np.isfinite(values_N).all():
        raise ConfigError(f"Plackett–Luce needs finite rewards, got {values_N}")
    odds_N = np.exp(values_N - values_N.max())
    return odds_N / odds_N.sum()
