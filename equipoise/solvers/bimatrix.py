"""Every Nash equilibrium of a small two-player game in which each side has its own pay-offs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from equipoise.errors import EquipoiseError
from equipoise.solvers.base import checked_mixture, checked_sides, span

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
    """The larger of both sides' gains from their best deviation, in units of the pay-off: 0 at an
    equilibrium.

    max( max_a (row·y)_a − xᵀ·row·y, max_m (xᵀ·column)_m − xᵀ·column·y ), x = row_A, y = column_M.
    row_AM, column_AM: each side's pay-offs. Raises ValueError for wrong shapes, distributions or
    pay-offs.
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


def pure(row_AM: np.ndarray, column_AM: np.ndarray) -> list[tuple[int, int]]:
    """The cells (a, m) from which neither side gains by deviating alone, row by row; there may be
    none.

    Raises ValueError for pay-offs that are no matrices of one shape, or not finite.
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

    each corner but 0 scaled to a mixture. The obvious method, supports of equal size, is right for
    almost all games but misses equilibria, sometimes all, of degenerate games (ties; fewer replies
    than a mixture has actions). The corners miss none: where there are infinitely many equilibria,
    all are mixtures of the extreme ones. Every returned pair has a gap of at most `tolerance`, as a
    share of the larger side's span; pairs as close as that to an equilibrium count as equilibria.
    Raises ValueError for pay-offs that are no matrices of one shape, or not finite, or too many
    actions. Source: Mangasarian 1964; Avis, Rosenberg, Savani and von Stengel 2010, Economic Theory
    42.
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
    """The corners of { z ≥ 0, payoff·z ≤ 1 } but 0, as mixtures [I, N]; payoff_KN is positive.

    A corner solves N of the K + N inequalities as equations and keeps the others.
    """
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
