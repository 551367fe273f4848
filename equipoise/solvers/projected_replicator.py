"""Projected replicator dynamics: choices better than average grow, and none falls below a small
share.

The solver with which policy-space response oracles were introduced, for any number of roles.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from equipoise.solvers.base import (
    IterateName,
    Mixtures,
    Solver,
    checked_mixtures,
    checked_payoff,
    checked_positive,
    checked_role_payoffs,
    span,
)
from equipoise.solvers.exploitability import own_axis_first, replies


class RoleIterates(NamedTuple):
    """The last mixtures of a dynamic, one for each role, and the means of all with the start."""

    last: Mixtures
    average: Mixtures


def project(point_A: np.ndarray, least: float) -> np.ndarray:
    """The nearest distribution in which every choice has at least the share `least`.

    max(point + shift, least), with the shift at which it sums to one. Raises ValueError where not
    all can have that share. Source: Wang and Carreira-Perpiñán 2013, arXiv 1309.1541, for least =
    0.

    >>> project(np.array([0.8, 0.6, -0.5]), least=0.0)
    array([0.6, 0.4, 0. ])
    """
    size = len(point_A)
    if size * least > 1 + 1e-12:
        raise ValueError(f"{size} choices cannot each have a share of {least}")
    sorted_A = np.sort(point_A)[::-1] - least
    surplus_A = (1 - size * least - sorted_A.cumsum()) / np.arange(1, size + 1)
    kept = int(np.flatnonzero(sorted_A + surplus_A > 0)[-1]) if size * least < 1 else 0
    return np.maximum(point_A + surplus_A[kept], least)


def projected_replicator(
    payoffs: Sequence[np.ndarray],
    *,
    steps: int,
    step_size: float,
    least: float,
    start: Sequence[np.ndarray] | None = None,
) -> RoleIterates:
    """The mixtures after `steps` simultaneous updates, and the means of all.

    mixture_r ← P(mixture_r + step_size · mixture_r · (reply_r − value_r)), P the projection onto
    the distributions that give every choice at least `least`. payoffs: a tensor [N_1, …, N_R] a
    role. step_size: in 1/pay-off. Raises ValueError for wrong pay-offs, starts or numbers. Source:
    Lanctot et al. 2017, arXiv 1711.00832, appendix A.

    >>> dominated = np.array([[2.0, 2.0], [0.0, 1.0]])
    >>> settings = {"steps": 500, "step_size": 0.1, "least": 0.01}
    >>> projected_replicator([dominated, -dominated], **settings).last[0]
    array([0.99, 0.01])
    """
    tensors = checked_role_payoffs(payoffs)
    checked_positive(steps=steps, step_size=step_size, least=least)
    shape = tensors[0].shape
    uniform = [np.full(size, 1 / size) for size in shape]
    mixtures = checked_mixtures(uniform if start is None else start, shape, "start")
    sums = [mixture.copy() for mixture in mixtures]
    own_first = own_axis_first(tensors)
    for _ in range(steps):
        rewards = replies(own_first, mixtures)
        for role, reward in enumerate(rewards):
            mixture = mixtures[role]
            moved = mixture + step_size * mixture * (reward - mixture @ reward)
            # The step itself keeps the sum.
            mixtures[role] = moved if moved.min() >= least else project(moved, least)
            sums[role] += mixtures[role]
    return RoleIterates(mixtures, [total / (steps + 1) for total in sums])


class ProjectedReplicator(Solver):
    """Mixtures by projected replicator dynamics, for any pay-offs and any number of roles."""

    kind: Literal["projected_replicator"] = "projected_replicator"
    steps: int = Field(10_000, ge=1, description="updates from the uniform start")
    step_size: float = Field(0.03, gt=0, description="in units of 1/(largest − smallest pay-off)")
    least: float = Field(1e-6, gt=0, lt=1, description="the share that every player keeps")
    iterate: IterateName = Field(
        "average", description="average converges in constant-sum games, last in many others"
    )

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        return self.solve_roles([payoff_NN, payoff_NN.T])[0]

    def solve_roles(self, payoffs: Sequence[np.ndarray]) -> Mixtures:
        tensors = checked_role_payoffs(payoffs)
        played = projected_replicator(
            tensors,
            steps=self.steps,
            step_size=self.step_size / max(map(span, tensors)),
            least=min(self.least, 1 / max(tensors[0].shape)),
        )
        return played.average if self.iterate == "average" else played.last
