"""Points (user, llm), both maximised: their front, its area, and the comparison of two runs."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

TINY = 1e-9  # added to a coordinate under a root


def front(points_N2: ArrayLike) -> np.ndarray:
    """Indices, ascending, of the points that no other point dominates; of equal points all are
    kept.

    To dominate is to have at least as much in both coordinates, and more in one. Raises ValueError
    for wrong shapes or values that are not finite.

    >>> front([(1, 3), (2, 2), (1, 1), (3, 0)])
    array([0, 1, 3])
    """
    points_N2 = checked_points(points_N2, "points_N2")
    order_N = np.lexsort((-points_N2[:, 1], -points_N2[:, 0]))
    kept = []
    best_x = np.inf
    best_y = -np.inf
    # From the largest first coordinate down: a point is kept when its second coordinate is larger
    # than those of all before.
    for n in order_N:
        x, y = points_N2[n]
        if y > best_y or (y == best_y and x == best_x):
            kept.append(n)
            best_x = x
            best_y = y
    return np.sort(np.array(kept, dtype=int))


def hypervolume(points_N2: ArrayLike, reference_2: ArrayLike, as_released: bool = False) -> float:
    """The area that some point dominates and that dominates the reference; both are maximised.

    Σ over the front, from the largest x down, of (x − reference_x)·(y − the y before).
    `as_released`: of the first of these alone, as GTAlign's code has it. Raises ValueError for
    wrong shapes or values. Source: Zitzler and Thiele 1998; exact in two dimensions.

    >>> hypervolume([(1, 3), (2, 2)], (0, 0))
    5.0
    """
    points_N2 = checked_points(points_N2, "points_N2")
    reference_2 = np.asarray(reference_2, float)
    if reference_2.shape != (2,) or not np.isfinite(reference_2).all():
        raise ValueError(f"reference_2 must be two finite numbers; it is {reference_2}")
    gain_N2 = np.maximum(points_N2 - reference_2, 0.0)
    # Falling in the first coordinate, so rising in the second.
    gain_N2 = np.unique(gain_N2[front(gain_N2)], axis=0)[::-1]
    if as_released:
        gain_N2 = gain_N2[:1]
    return float((gain_N2[:, 0] * np.diff(gain_N2[:, 1], prepend=0.0)).sum())


@dataclass(frozen=True, slots=True)
class ParetoSummary:
    """One of two runs that are compared.

    coverage      share of its points that fall short of a point on the joint front by
                  ε × range at most, in both coordinates
    regret        mean over its points of the nearest such point's larger shortfall, as
                  a share of the range
    nash_welfare  mean of √(u + 1e-9)·√(l + 1e-9), negatives at 0
    cobb_douglas  mean of (u + 1e-9)^α·(l + 1e-9)^(1 − α), negatives at 0
    spread_user, spread_llm, spread   (max − min) / joint range in either coordinate,
                  and their mean
    """

    coverage: float
    regret: float
    nash_welfare: float
    cobb_douglas: float
    spread_user: float
    spread_llm: float
    spread: float


@dataclass(frozen=True, slots=True)
class ParetoComparison:
    """Two runs' points for the same inputs: how many of them one dominates alone, or neither does.

    `equal`: the incomparable whose points are the same and, as under an ε above 0, dominate
    neither; (min, max) over both runs.
    """

    first_dominates: int
    second_dominates: int
    equal: int
    incomparable: int
    range_user: tuple[float, float]
    range_llm: tuple[float, float]
    first: ParetoSummary
    second: ParetoSummary


def compare(
    first_N2: ArrayLike, second_N2: ArrayLike, eps: float = 0.0, alpha: float = 0.5
) -> ParetoComparison:
    """Two runs' points (user, llm), row n of both for the same input.

    b ε-dominates a when b ≥ a − ε in both coordinates and b > a − ε in one; where each dominates
    the other, or neither, they are incomparable. eps: ε, for dominance in units of the pay-off, for
    coverage as a share of the joint range; alpha: the user's weight in `cobb_douglas`. A coordinate
    in which all points agree has spread 0. Raises ValueError for wrong shapes, values that are not
    finite, or points that do not pair up. Source: GTAlign (arXiv 2510.08872), the published
    comparison.

    >>> comparison = compare([(1, 1), (2, 0)], [(0, 1), (0, 2)])
    >>> comparison.first_dominates, comparison.incomparable
    (1, 1)
    """
    first_N2 = checked_points(first_N2, "first_N2")
    second_N2 = checked_points(second_N2, "second_N2")
    if first_N2.shape != second_N2.shape or not len(first_N2):
        raise ValueError(
            "two runs need points for the same inputs; "
            f"there are {len(first_N2)} and {len(second_N2)}"
        )
    if not eps >= 0 or not 0 <= alpha <= 1:
        raise ValueError(f"eps must be at least 0 and alpha in [0, 1]; they are {eps} and {alpha}")
    first_N = _dominates(first_N2, second_N2, eps)
    second_N = _dominates(second_N2, first_N2, eps)
    wins = int((first_N & ~second_N).sum())
    losses = int((second_N & ~first_N).sum())
    same_N = np.all(first_N2 == second_N2, axis=1)
    both_N2 = np.concatenate([first_N2, second_N2])
    low_2 = both_N2.min(axis=0)
    high_2 = both_N2.max(axis=0)
    front_F2 = both_N2[front(both_N2)]
    range_2 = high_2 - low_2
    return ParetoComparison(
        first_dominates=wins,
        second_dominates=losses,
        equal=int((same_N & ~first_N).sum()),
        incomparable=len(first_N2) - wins - losses,
        range_user=(float(low_2[0]), float(high_2[0])),
        range_llm=(float(low_2[1]), float(high_2[1])),
        first=_summary(first_N2, front_F2, range_2, eps, alpha),
        second=_summary(second_N2, front_F2, range_2, eps, alpha),
    )


def _dominates(b_N2: np.ndarray, a_N2: np.ndarray, eps: float) -> np.ndarray:
    more_N2 = b_N2 - (a_N2 - eps)
    return np.all(more_N2 >= 0, axis=1) & np.any(more_N2 > 0, axis=1)


def _summary(
    points_N2: np.ndarray, front_F2: np.ndarray, range_2: np.ndarray, eps: float, alpha: float
) -> ParetoSummary:
    # Without a range there is no shortfall either.
    unit_2 = np.where(range_2 > 0, range_2, 1.0)
    shortfall_NF2 = front_F2[None] - points_N2[:, None]
    near_N = np.all(shortfall_NF2 <= eps * range_2, axis=2).any(axis=1)
    regret_N = np.maximum(shortfall_NF2 / unit_2, 0.0).max(axis=2).min(axis=1)
    user_N, llm_N = (np.maximum(points_N2, 0.0) + TINY).T
    spread_user, spread_llm = (np.ptp(points_N2, axis=0) / unit_2).tolist()
    return ParetoSummary(
        coverage=float(near_N.mean()),
        regret=float(regret_N.mean()),
        nash_welfare=float((np.sqrt(user_N) * np.sqrt(llm_N)).mean()),
        cobb_douglas=float((user_N**alpha * llm_N ** (1 - alpha)).mean()),
        spread_user=spread_user,
        spread_llm=spread_llm,
        spread=(spread_user + spread_llm) / 2,
    )


def epsilon_indicator(
    first_N2: ArrayLike, second_M2: ArrayLike, as_released: bool = False
) -> float:
    """The least ε by which the first points must be raised to match the second in both coordinates.

        ε = max_b min_a max_k (b_k − a_k), a among the first, b among the second

    `as_released`: as GTAlign's code has it, max_a min_b: what the worst of the first lacks to a
    point of the second. Raises ValueError for wrong shapes, values that are not finite, or none.
    Source: Zitzler et al. 2003, Performance Assessment of Multiobjective Optimizers.

    >>> epsilon_indicator([(1, 0)], [(1, 1), (2, 0)]), epsilon_indicator([(1, 0)], [(1, 1)], True)
    (1.0, 1.0)
    """
    first_N2 = checked_points(first_N2, "first_N2")
    second_M2 = checked_points(second_M2, "second_M2")
    if not len(first_N2) or not len(second_M2):
        raise ValueError("first_N2 and second_M2 need a point each")
    lack_NM = (second_M2[None] - first_N2[:, None]).max(axis=2)
    return float(lack_NM.min(axis=1).max() if as_released else lack_NM.min(axis=0).max())


class ScalarisationRegret(NamedTuple):
    """What the best point of a run lacks to that of all, by weights of the user."""

    mean: float
    median: float
    ninetieth: float


def scalarisation_regret(
    points_N2: ArrayLike, all_M2: ArrayLike, weight_W: ArrayLike | None = None
) -> ScalarisationRegret:
    """The best w·user + (1 − w)·llm of `all_M2`, less that of the points, over weights w.

    weight_W: the weights; by default 1000, evenly spread over [0, 1], of which GTAlign's code draws
    as many. Raises ValueError as `front` does, for no points and for weights outside [0, 1].

    >>> scalarisation_regret([(1, 0)], [(1, 0), (0, 1)], [0.25, 0.75]).mean
    0.25
    """
    points_N2 = checked_points(points_N2, "points_N2")
    all_M2 = checked_points(all_M2, "all_M2")
    weight_W = (np.arange(1000) + 0.5) / 1000 if weight_W is None else np.asarray(weight_W, float)
    if not len(points_N2) or not len(all_M2) or not len(weight_W):
        raise ValueError("points_N2, all_M2 and weight_W must not be empty")
    if not ((weight_W >= 0) & (weight_W <= 1)).all():
        raise ValueError("weight_W holds weights outside [0, 1]")
    weight_2W = np.stack([weight_W, 1 - weight_W])
    regret_W = (all_M2 @ weight_2W).max(axis=0) - (points_N2 @ weight_2W).max(axis=0)
    median, ninetieth = np.percentile(regret_W, [50, 90]).tolist()
    return ScalarisationRegret(float(regret_W.mean()), median, ninetieth)


def constrained_area(
    points_N2: ArrayLike,
    all_M2: ArrayLike,
    constrained: Literal["user", "llm"] = "llm",
    level_L: ArrayLike | None = None,
    as_released: bool = False,
) -> float:
    """The best pay-off to one side while the other gets a level or more, as a share of the best
    among `all_M2`: its mean over the levels.

    level_L: by default 20 from 0 to 1. A level that none of `all_M2` reaches with a positive
    pay-off is left out; `as_released` it counts as 0, as in GTAlign's code (constrained AUC). NaN
    where no level is left. Raises ValueError as `front` does.

    >>> constrained_area([(1, 1)], [(1, 1), (2, 0)], level_L=[0, 1, 3])
    0.75
    """
    points_N2 = checked_points(points_N2, "points_N2")
    all_M2 = checked_points(all_M2, "all_M2")
    level_L = np.linspace(0, 1, 20) if level_L is None else np.asarray(level_L, float)
    held = 0 if constrained == "user" else 1
    shares = []
    for level in level_L:
        own, best = (
            point_N2[point_N2[:, held] >= level, 1 - held].max(initial=-np.inf)
            for point_N2 in (points_N2, all_M2)
        )
        if best > 0:
            shares.append(own / best if np.isfinite(own) else 0.0)
        elif as_released:
            shares.append(0.0)
    return float(np.mean(shares)) if shares else float("nan")


def checked_points(points_N2: ArrayLike, name: str) -> np.ndarray:
    """`points_N2` as floats [N, 2]; ValueError for another shape or values that are not finite."""
    points_N2 = np.asarray(points_N2, float)
    if points_N2.size == 0:
        points_N2 = points_N2.reshape(0, 2)
    if points_N2.ndim != 2 or points_N2.shape[1] != 2:
        raise ValueError(
            f"{name} must have two columns, user and llm; its shape is {points_N2.shape}"
        )
    if not np.isfinite(points_N2).all():
        n = int(np.argwhere(~np.isfinite(points_N2))[0][0])
        raise ValueError(f"{name}[{n}] is {points_N2[n]}; leave out the points that are missing")
    return points_N2
