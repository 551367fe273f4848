"""How far judges agree beyond chance, for any number of judges, any scale, and with missing
ratings.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

Level = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings_JU: npt.ArrayLike, level: Level = "interval") -> float:
    """Krippendorff's alpha: 1 for perfect agreement, 0 for that of chance, negative below it.

        alpha = 1 − D_o / D_e
        D_o = 1/n · Σ_u 1/(m_u − 1) · Σ_{i≠j in u} d(v_i, v_j)
        D_e = 1/(n(n − 1)) · Σ_{i≠j} d(v_i, v_j)

    over the n ratings of units u that have m_u ≥ 2 of them. d is the squared difference
    ("interval"), that of the middle ranks ("ordinal": Krippendorff's metric, whose Σ_{g=c..k} n_g −
    (n_c + n_k)/2 is their distance), or whether two ratings differ ("nominal").

    Args: ratings_JU: judge j's rating of unit u [J, U], NaN where there is none. NaN is returned
    where alpha is not defined: no unit with two ratings, or no two ratings that differ. Raises
    ValueError for another shape or infinite ratings. Source: Krippendorff 2011, Computing
    Krippendorff's Alpha-Reliability, §C–E.
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
    value_n, unit_n = ratings_JU[given_JU], np.nonzero(given_JU)[1]
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
    if level == "nominal":
        return np.eye(len(count_V))[place_n]
    raise ValueError(f"level '{level}' is not known; it is nominal, ordinal or interval")


def _spread(point_nF: np.ndarray, unit_n: np.ndarray, count_U: np.ndarray) -> np.ndarray:
    """Per unit, half of Σ_{i≠j} |x_i − x_j|² = m Σ |x|² − |Σ x|²."""
    square_U = np.bincount(unit_n, (point_nF**2).sum(1), len(count_U))
    sum_FU = np.stack([np.bincount(unit_n, feature_n, len(count_U)) for feature_n in point_nF.T])
    return np.maximum(count_U * square_U - (sum_FU**2).sum(0), 0.0)
