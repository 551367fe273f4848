"""The Nash bargaining solution: what two sides agree on who share out the gain over
having no agreement.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.solvers.base import checked_sides
from equipoise.solvers.zero_sum import nash


class Agreement(NamedTuple):
    """A distribution over the outcomes, what either side has of it, and the product of
    both gains.
    """

    weight_N: np.ndarray
    user: float
    llm: float
    product: float


def maxmin(row_AM: np.ndarray, column_AM: np.ndarray) -> tuple[float, float]:
    """What either side can be sure of by itself, mixing as it likes: the usual
    disagreement point.

    Raises ValueError for pay-offs that are no matrices of one shape, or not finite.
    Source: von Neumann 1928.
    """
    row_AM, column_AM = checked_sides(row_AM, column_AM)
    return nash(row_AM)[2], nash(column_AM.T)[2]


def pure(points_N2: ArrayLike, disagreement: tuple[float, float]) -> Agreement | None:
    """The outcome of the largest product of gains, (u − d_u)·(l − d_l), among those
    with no loss to either side.

    Of equal products the largest sum is taken, then the first. None where every outcome
    is a loss to someone. points_N2: (user, llm) of each outcome. Raises ValueError for
    wrong shapes or values. Source: Nash 1950, Econometrica 18.
    """
    points_N2, gain_N2 = _gains(points_N2, disagreement)
    weight_NN = np.eye(len(points_N2))
    return _best(
        [_agreement(weight_NN[n], points_N2, gain_N2) for n in range(len(points_N2))],
        gain_N2,
    )


def lottery(
    points_N2: ArrayLike, disagreement: tuple[float, float]
) -> Agreement | None:
    """The lottery over outcomes of the largest product of expected gains: the solution
    on the points' convex hull.

    The best point of a hull lies on an edge, so between two outcomes a, b. There the
    product is a parabola in the weight t of b, with its top at t = −(a_u·d_l + a_l·d_u)
    / (2·d_u·d_l), a the gains at the outcome a, d = b − a. None where every lottery is
    a loss to someone. Against the disagreement point `maxmin` there is always one.
    points_N2: (user, llm) of each outcome. Raises ValueError for wrong shapes or
    values. Source: Nash 1950, Econometrica 18.
    """
    points_N2, gain_N2 = _gains(points_N2, disagreement)
    weight_NN = np.eye(len(points_N2))
    found = [_agreement(weight_N, points_N2, gain_N2) for weight_N in weight_NN]
    for a, b in combinations(range(len(points_N2)), 2):
        step_2 = gain_N2[b] - gain_N2[a]
        shares = [
            -gain_N2[a][side] / step_2[side] for side in (0, 1) if step_2[side]
        ]  # where one side gains nothing
        if step_2.prod():
            shares.append(-(gain_N2[a] @ step_2[::-1]) / (2 * step_2.prod()))
        for t in shares:
            if 0 < t < 1:
                found.append(
                    _agreement(
                        (1 - t) * weight_NN[a] + t * weight_NN[b], points_N2, gain_N2
                    )
                )
    return _best(found, gain_N2)


def _gains(
    points_N2: ArrayLike, disagreement: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The points and their gains. Raises ValueError for wrong shapes or values."""
    points_N2 = np.asarray(points_N2, float)
    if (
        points_N2.ndim != 2
        or points_N2.shape[1] != 2
        or not len(points_N2)
        or not np.isfinite(points_N2).all()
    ):
        raise ValueError(
            f"points_N2 must be finite points (user, llm), at least one; its shape is {points_N2.shape}"
        )
    if len(disagreement) != 2 or not np.isfinite(disagreement).all():
        raise ValueError(
            f"disagreement must be two finite numbers, the user's and the model's; it is {disagreement}"
        )
    return points_N2, points_N2 - np.asarray(disagreement, float)


def _agreement(
    weight_N: np.ndarray, points_N2: np.ndarray, gain_N2: np.ndarray
) -> Agreement:
    gains = weight_N @ gain_N2
    user, llm = weight_N @ points_N2
    return Agreement(weight_N, float(user), float(llm), float(gains[0] * gains[1]))


def _best(found: list[Agreement], gain_N2: np.ndarray) -> Agreement | None:
    """The largest product among those without a loss, up to rounding; then the largest
    sum.
    """
    slack = 1e-9 * max(1.0, float(np.abs(gain_N2).max()))
    held = [one for one in found if (one.weight_N @ gain_N2).min() >= -slack]
    if not held:
        return None
    top = max(one.product for one in held)
    return max(
        (one for one in held if one.product >= top - 1e-12 * max(1.0, abs(top))),
        key=lambda one: one.user + one.llm,
    )
