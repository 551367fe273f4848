"""The Nash bargaining solution: the agreement of two sides that divide the gain over having no
agreement.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.solvers.base import checked_sides
from equipoise.solvers.zero_sum import nash


class Agreement(NamedTuple):
    """A distribution over the outcomes, each side's expected pay-off, and the product of both
    gains.
    """

    weight_N: np.ndarray
    user: float
    llm: float
    product: float


def maxmin(row_AM: np.ndarray, column_AM: np.ndarray) -> tuple[float, float]:
    """What each side can secure by itself with its best mixture: the usual disagreement point.

    Raises ValueError for pay-offs that are no matrices of one shape, or not finite. Source: von
    Neumann 1928.
    """
    row_AM, column_AM = checked_sides(row_AM, column_AM)
    return nash(row_AM)[2], nash(column_AM.T)[2]


def pure(points_N2: ArrayLike, disagreement: tuple[float, float]) -> Agreement | None:
    """The outcome of the largest product of gains, (u − d_u)·(l − d_l), among those without a loss
    to either side.

    Of equal products the largest sum is taken, then the first. None where every outcome is a loss
    to one side. points_N2: (user, llm) of each outcome. Raises ValueError for wrong shapes or
    values. Source: Nash 1950, Econometrica 18.
    """
    points_N2, gain_N2 = _gains(points_N2, disagreement)
    weight_NN = np.eye(len(points_N2))
    agreements = [_agreement(weight_N, points_N2, gain_N2) for weight_N in weight_NN]
    return _best(agreements, gain_N2)


def lottery(points_N2: ArrayLike, disagreement: tuple[float, float]) -> Agreement | None:
    """The lottery over outcomes of the largest product of expected gains: the solution on the
    points' convex hull.

    The best point of a hull lies on an edge, so between two outcomes a, b. There the product is a
    parabola in the weight t of b, with its top at t = −(a_u·d_l + a_l·d_u) / (2·d_u·d_l), a the
    gains at the outcome a, d = b − a. None where every lottery is a loss to one side, which none is
    against the disagreement point `maxmin`. points_N2: (user, llm) of each outcome. Raises
    ValueError for wrong shapes or values. Source: Nash 1950, Econometrica 18.
    """
    points_N2, gain_N2 = _gains(points_N2, disagreement)
    weight_NN = np.eye(len(points_N2))
    agreements = [_agreement(weight_N, points_N2, gain_N2) for weight_N in weight_NN]
    for a, b in combinations(range(len(points_N2)), 2):
        step_2 = gain_N2[b] - gain_N2[a]
        # Where one of the sides gains nothing.
        shares = [-gain_N2[a][side] / step_2[side] for side in (0, 1) if step_2[side]]
        if step_2.prod():
            shares.append(-(gain_N2[a] @ step_2[::-1]) / (2 * step_2.prod()))
        for t in shares:
            if 0 < t < 1:
                weight_N = (1 - t) * weight_NN[a] + t * weight_NN[b]
                agreements.append(_agreement(weight_N, points_N2, gain_N2))
    return _best(agreements, gain_N2)


def _gains(
    points_N2: ArrayLike, disagreement: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The points and their gains. Raises ValueError for wrong shapes or values."""
    points_N2 = np.asarray(points_N2, float)
    points = points_N2.ndim == 2 and points_N2.shape[1] == 2 and len(points_N2)
    if not points or not np.isfinite(points_N2).all():
        raise ValueError(
            "points_N2 must be finite points (user, llm), at least one; "
            f"its shape is {points_N2.shape}"
        )
    if len(disagreement) != 2 or not np.isfinite(disagreement).all():
        raise ValueError(
            "disagreement must be two finite numbers, the user's and the model's; "
            f"it is {disagreement}"
        )
    return points_N2, points_N2 - np.asarray(disagreement, float)


def _agreement(weight_N: np.ndarray, points_N2: np.ndarray, gain_N2: np.ndarray) -> Agreement:
    gains = weight_N @ gain_N2
    user, llm = weight_N @ points_N2
    return Agreement(weight_N, float(user), float(llm), float(gains[0] * gains[1]))


def _best(agreements: list[Agreement], gain_N2: np.ndarray) -> Agreement | None:
    """The largest product among those without a loss, up to rounding; then the largest sum."""
    slack = 1e-9 * max(1.0, float(np.abs(gain_N2).max()))
    without_loss = [
        agreement for agreement in agreements if (agreement.weight_N @ gain_N2).min() >= -slack
    ]
    if not without_loss:
        return None
    largest = max(agreement.product for agreement in without_loss)
    least = largest - 1e-12 * max(1.0, abs(largest))
    best = [agreement for agreement in without_loss if agreement.product >= least]
    return max(best, key=lambda agreement: agreement.user + agreement.llm)
