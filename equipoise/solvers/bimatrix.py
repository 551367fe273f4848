"""Equilibria, a leader's commitment and Nash's bargaining solution of a small two-player game."""

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import EquipoiseError
from equipoise.solvers.base import checked_mixture, checked_sides, span
from equipoise.solvers.zero_sum import nash

Ties = Literal["strong", "weak"]

LARGEST = 20_000  # bases to try; a game of 8 × 8 has 12 870
FEASIBLE = 1e-9  # how far outside a polytope, in scaled units, a corner may lie


class Equilibrium(NamedTuple):
    """Mixtures from which neither side gains by deviating alone, and their pay-offs."""

    row_A: np.ndarray
    column_M: np.ndarray
    row_value: float
    column_value: float


def nash_gap(
    row_AM: np.ndarray, column_AM: np.ndarray, row_A: np.ndarray, column_M: np.ndarray
) -> float:
    """The larger gain of both sides from their best deviation, in units of the pay-off; 0 at
    equilibrium.

    max( max_a (row·y)_a − xᵀ·row·y, max_m (xᵀ·column)_m − xᵀ·column·y ), x = row_A, y = column_M.
    Raises ValueError for wrong shapes, distributions or pay-offs.

    >>> dilemma = np.array([[3.0, 0.0], [5.0, 1.0]])
    >>> nash_gap(dilemma, dilemma.T, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    2.0
    """
    row_AM, column_AM = checked_sides(row_AM, column_AM)
    x_A = checked_mixture(row_A, row_AM.shape[0], "row_A")
    y_M = checked_mixture(column_M, row_AM.shape[1], "column_M")
    row_reply_A, column_reply_M = row_AM @ y_M, x_A @ column_AM
    return max(
        0.0,
        float(row_reply_A.max() - x_A @ row_reply_A),
        float(column_reply_M.max() - column_reply_M @ y_M),
    )


def pure_equilibria(row_AM: np.ndarray, column_AM: np.ndarray) -> list[tuple[int, int]]:
    """The cells (a, m), by row, from which neither side gains by deviating alone; perhaps none.

    Raises ValueError for pay-offs that are no matrices of one shape, or not finite.

    >>> dilemma = np.array([[3.0, 0.0], [5.0, 1.0]])
    >>> pure_equilibria(dilemma, dilemma.T)
    [(1, 1)]
    """
    row_AM, column_AM = checked_sides(row_AM, column_AM)
    row_stays_AM = row_AM == row_AM.max(axis=0)
    column_stays_AM = column_AM == column_AM.max(axis=1, keepdims=True)
    cells = np.argwhere(row_stays_AM & column_stays_AM)
    return [(int(a), int(m)) for a, m in cells]


def equilibria(
    row_AM: np.ndarray, column_AM: np.ndarray, tolerance: float = 1e-9
) -> list[Equilibrium]:
    """All extreme equilibria, pure and mixed: pure ones first, then by the row side's mixture.

    With pay-offs made positive, the equilibria lie among the pairs of corners of the two polytopes

        { x ≥ 0, columnᵀ·x ≤ 1 },  { y ≥ 0, row·y ≤ 1 },

    each corner but 0 scaled to a mixture. The obvious method, supports of equal size, misses
    equilibria of degenerate games (ties; fewer replies than a mixture has actions). The corners
    miss none: where there are infinitely many, all are mixtures of the extreme ones. Every returned
    pair has a gap of at most `tolerance`, as a share of the larger side's span. Raises ValueError
    for pay-offs that are no matrices of one shape, or not finite, or too many actions. Source:
    Mangasarian 1964; Avis, Rosenberg, Savani and von Stengel 2010, Economic Theory 42.

    >>> chicken = np.array([[0.0, -1.0], [1.0, -2.0]])
    >>> [equilibrium.row_A.round(2).tolist() for equilibrium in equilibria(chicken, chicken.T)]
    [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    """
    row_AM, column_AM = checked_sides(row_AM, column_AM)
    rows, columns = row_AM.shape
    if comb(rows + columns, rows) > LARGEST:
        raise ValueError(
            f"a game of {rows} × {columns} has too many mixtures to try all; 8 × 8 is the largest"
        )
    scaled_row_AM = _positive(row_AM)
    scaled_column_AM = _positive(column_AM)
    x_IA = _corners(scaled_column_AM.T)
    y_JM = _corners(scaled_row_AM)
    reply_JA = y_JM @ scaled_row_AM.T
    reply_IM = x_IA @ scaled_column_AM
    row_gap_IJ = reply_JA.max(axis=1)[None] - x_IA @ reply_JA.T
    column_gap_IJ = reply_IM.max(axis=1)[:, None] - reply_IM @ y_JM.T
    gap_IJ = np.maximum(row_gap_IJ, column_gap_IJ)
    pairs = [(x_IA[i], y_JM[j]) for i, j in np.argwhere(gap_IJ <= tolerance)]
    if not pairs:
        raise EquipoiseError(
            f"no equilibrium of this {rows} × {columns} game within {tolerance:g}; "
            "raise the tolerance"
        )
    extreme = [
        Equilibrium(x_A, y_M, float(x_A @ row_AM @ y_M), float(x_A @ column_AM @ y_M))
        for x_A, y_M in pairs
    ]
    return sorted(extreme, key=lambda e: (_support(e), *(-e.row_A), *(-e.column_M)))


def _positive(payoff_AM: np.ndarray) -> np.ndarray:
    """The pay-offs scaled to [1, 2], which changes no equilibrium."""
    return (payoff_AM - payoff_AM.min()) / span(payoff_AM) + 1.0


def _support(equilibrium: Equilibrium) -> int:
    return int((equilibrium.row_A > 0).sum() + (equilibrium.column_M > 0).sum())


def _corners(payoff_KN: np.ndarray) -> np.ndarray:
    """The corners of { z ≥ 0, payoff·z ≤ 1 } but 0, as mixtures [I, N]; payoff_KN is positive."""
    k, n = payoff_KN.shape
    side_LN = np.concatenate([payoff_KN, -np.eye(n)])
    bound_L = np.r_[np.ones(k), np.zeros(n)]
    basis_CN = np.array(list(combinations(range(k + n), n)))
    basis_CN = basis_CN[basis_CN[:, 0] < k]  # all z = 0 is the corner 0
    matrix_CNN = side_LN[basis_CN]
    regular_C = np.isfinite(np.linalg.slogdet(matrix_CNN)[1])
    bound_CN1 = bound_L[basis_CN[regular_C]][..., None]
    corner_CN = np.linalg.solve(matrix_CNN[regular_C], bound_CN1)[..., 0]
    inside_C = np.all(corner_CN @ side_LN.T <= bound_L + FEASIBLE, axis=1)
    corner_IN = corner_CN[inside_C]
    corner_IN = np.where(corner_IN > FEASIBLE, corner_IN, 0.0)
    mixture_IN = corner_IN / corner_IN.sum(axis=1, keepdims=True)
    return np.array(list(_distinct(mixture_IN)))


def _distinct(mixture_IN: np.ndarray) -> Iterator[np.ndarray]:
    """Each mixture once: a degenerate corner solves several systems, each with its own rounding."""
    left_IN = mixture_IN
    while len(left_IN):
        yield left_IN[0]
        left_IN = left_IN[np.abs(left_IN - left_IN[0]).max(axis=1) > FEASIBLE]


class Commitment(NamedTuple):
    """The leader's mixture, the follower's reply to it, and each side's pay-off."""

    leader_A: np.ndarray
    reply: int
    leader_value: float
    follower_value: float


def pure_commitment(
    leader_AM: np.ndarray, follower_AM: np.ndarray, ties: Ties = "strong"
) -> Commitment:
    """The leader's best single action, max_a leader[a, m(a)] with m(a) in argmax_m follower[a, m].

    ties: of several best replies the follower gives the best ("strong") or worst ("weak") for the
    leader. Of equally good actions the one best for the follower is taken, then the first. Raises
    ValueError for pay-offs that are no matrices of one shape, or not finite, or other `ties`.
    Source: von Stackelberg 1934; strong and weak: Breton, Alj and Haurie 1988.

    >>> chicken = np.array([[0.0, -1.0], [1.0, -2.0]])
    >>> pure_commitment(chicken, chicken.T).leader_value
    1.0
    """
    leader_AM, follower_AM = checked_sides(leader_AM, follower_AM)
    if ties not in ("strong", "weak"):
        raise ValueError(f"ties must be strong or weak; they are {ties!r}")
    best_AM = follower_AM == follower_AM.max(axis=1, keepdims=True)
    order_AM = leader_AM if ties == "strong" else -leader_AM
    reply_A = np.where(best_AM, order_AM, -np.inf).argmax(axis=1)
    action_A = np.arange(len(leader_AM))
    leader_A = leader_AM[action_A, reply_A]
    follower_A = follower_AM[action_A, reply_A]
    a = int(np.lexsort((-follower_A, -leader_A))[0])
    return Commitment(
        np.eye(len(leader_AM))[a], int(reply_A[a]), float(leader_A[a]), float(follower_A[a])
    )


class Agreement(NamedTuple):
    """A distribution over the outcomes, both expected pay-offs, and the product of the gains."""

    weight_N: np.ndarray
    user: float
    llm: float
    product: float


def maxmin(row_AM: np.ndarray, column_AM: np.ndarray) -> tuple[float, float]:
    """The pay-off that each side can secure by its best mixture: the usual disagreement point.

    Raises ValueError for pay-offs that are no matrices of one shape, or not finite. Source: von
    Neumann 1928.

    >>> maxmin(np.array([[3.0, 0.0], [5.0, 1.0]]), np.array([[3.0, 5.0], [0.0, 1.0]]))
    (1.0, 1.0)
    """
    row_AM, column_AM = checked_sides(row_AM, column_AM)
    return nash(row_AM)[2], nash(column_AM.T)[2]


def pure_agreement(points_N2: ArrayLike, disagreement: tuple[float, float]) -> Agreement | None:
    """The outcome of the largest product of gains, (u − d_u)·(l − d_l), without a loss to either
    side.

    Of equal products the largest sum is taken, then the first. None where every outcome is a loss
    to one side. points_N2: (user, llm). Raises ValueError for wrong shapes or values. Source: Nash
    1950, Econometrica 18.

    >>> pure_agreement([(3, 3), (5, 0), (1, 1)], disagreement=(1, 1)).product
    4.0
    """
    points_N2, gain_N2 = _checked_gains(points_N2, disagreement)
    weight_NN = np.eye(len(points_N2))
    agreements = [_agreement(weight_N, points_N2, gain_N2) for weight_N in weight_NN]
    return _best_agreement(agreements, gain_N2)


def _checked_gains(
    points_N2: ArrayLike, disagreement: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
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


def _best_agreement(agreements: list[Agreement], gain_N2: np.ndarray) -> Agreement | None:
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
