"""One side commits first, and the other, which sees the commitment, gives its best reply."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linprog

from equipoise.errors import EquipoiseError
from equipoise.solvers.base import checked_sides, span

Ties = Literal["strong", "weak"]


class Commitment(NamedTuple):
    """The leader's mixture, the follower's reply to it, and each side's pay-off."""

    leader_A: np.ndarray
    reply: int
    leader_value: float
    follower_value: float


def pure(leader_AM: np.ndarray, follower_AM: np.ndarray, ties: Ties = "strong") -> Commitment:
    """The leader's best single action.

    max_a leader[a, m(a)] with m(a) in argmax_m follower[a, m]. ties: where several replies are best
    for the follower, it gives the one that is best ("strong") or worst ("weak") for the leader. Of
    equally good actions the one that is best for the follower is taken, then the first. leader_AM,
    follower_AM: each side's pay-offs, the leader's actions as rows. Raises ValueError for pay-offs
    that are no matrices of one shape, or not finite, or other `ties`. Source: von Stackelberg 1934;
    strong and weak: Breton, Alj and Haurie 1988.
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


def mixed(leader_AM: np.ndarray, follower_AM: np.ndarray) -> Commitment:
    """The leader's best mixture, where the follower breaks ties in the leader's favour; the leader
    gets at least as much as in any equilibrium.

    For every reply m: max xᵀ·leader_m subject to xᵀ·follower_m ≥ xᵀ·follower_k for all k, x a
    distribution; the best of these programs. Against a follower that breaks ties the other way
    there is no best mixture in general, only mixtures whose value comes arbitrarily close. Raises
    ValueError for pay-offs that are no matrices of one shape, or not finite; EquipoiseError when no
    program is solved. Source: Conitzer and Sandholm 2006, Computing the optimal strategy to commit
    to; solved by HiGHS.
    """
    leader_AM, follower_AM = checked_sides(leader_AM, follower_AM)
    rows, columns = leader_AM.shape
    scaled_AM = follower_AM / span(follower_AM)
    slack = 1e-9 * span(leader_AM)
    best: Commitment | None = None
    for m in range(columns):
        solution = linprog(
            c=-leader_AM[:, m] / span(leader_AM),
            A_ub=(scaled_AM - scaled_AM[:, [m]]).T,
            b_ub=np.zeros(columns),
            A_eq=np.ones((1, rows)),
            b_eq=[1.0],
            bounds=(0, None),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        if solution.status != 0:  # no mixture makes m the best reply
            continue
        x_A = np.maximum(solution.x, 0.0)
        x_A = x_A / x_A.sum()
        commitment = Commitment(
            x_A, m, float(x_A @ leader_AM[:, m]), float(x_A @ follower_AM[:, m])
        )
        if best is None or commitment.leader_value > best.leader_value + slack:
            best = commitment
    if best is None:
        raise EquipoiseError(
            f"no linear program of a {rows} × {columns} game of commitment was solved"
        )
    return best
