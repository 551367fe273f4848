"""Values made comparable between groups: each group by itself is brought to the same centre and
width, or to ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

Method = Literal["none", "z_score", "min_max", "robust_z", "rank"]

MAD = 1.4826  # standard deviations in a median absolute deviation, for normal values
MEAN_AD = np.sqrt(np.pi / 2)  # and in a mean absolute deviation


def normalised(values_B: ArrayLike, groups_B: ArrayLike, method: Method) -> np.ndarray:
    """values_B, each group normalised by itself.

    none      as they are
    z_score   (x − mean) / σ, the population's σ
    min_max   (x − min) / (max − min)
    robust_z  (x − median) / (1.4826 · MAD), MAD the median of |x − median|; where more
              than half of a group has one value MAD is 0, and √(π/2) times the mean of
              |x − median| takes its place
    rank      (rank − 1) / (n − 1), of ties the mid-rank

    A group of one value, once or repeated, has no width: it becomes 0 (z_score,
    robust_z) or ½ (min_max, rank). values_B finite [B]; groups_B labels [B]. Returns
    float [B]. Raises ValueError for another method, other shapes, or a value that is
    not finite: missing values must be left out before. Source: GTAlign (arXiv
    2510.08872), mixed training; Iglewicz and Hoaglin 1993, for the median's.
    """
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; it is {method!r}")
    values_B, groups_B = np.asarray(values_B, float), np.asarray(groups_B)
    if values_B.ndim != 1 or values_B.shape != groups_B.shape:
        raise ValueError(
            "values_B and groups_B must be as long as each other: "
            f"{values_B.shape}, {groups_B.shape}"
        )
    if not np.isfinite(values_B).all():
        b = int(np.argmin(np.isfinite(values_B)))
        raise ValueError(f"values_B[{b}] is {values_B[b]}; leave out missing values")
    result_B = values_B.copy()
    if method == "none":
        return result_B
    constant, apply = _METHODS[method]
    for group in np.unique(groups_B):
        in_group_B = groups_B == group
        value_G = values_B[in_group_B]
        result_B[in_group_B] = constant if np.ptp(value_G) == 0 else apply(value_G)
    return result_B


def _z_score(value_G: np.ndarray) -> np.ndarray:
    return (value_G - value_G.mean()) / value_G.std()


def _min_max(value_G: np.ndarray) -> np.ndarray:
    return (value_G - value_G.min()) / np.ptp(value_G)


def _robust_z(value_G: np.ndarray) -> np.ndarray:
    deviation_G = value_G - np.median(value_G)
    distance_G = np.abs(deviation_G)
    return deviation_G / (MAD * np.median(distance_G) or MEAN_AD * distance_G.mean())


def _rank(value_G: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # here: it takes a second to import

    return (rankdata(value_G) - 1) / (len(value_G) - 1)


# method -> (the value of a group without width, the function for any other group)
_METHODS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "z_score": (0.0, _z_score),
    "min_max": (0.5, _min_max),
    "robust_z": (0.0, _robust_z),
    "rank": (0.5, _rank),
}
