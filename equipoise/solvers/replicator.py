"""Replicator dynamics: choices that do better than the average grow.

The limit of multiplicative weights for small steps.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field
from scipy.integrate import solve_ivp

from equipoise.errors import EquipoiseError
from equipoise.solvers.base import (
    IterateName,
    Iterates,
    Profile,
    Solver,
    checked_payoff,
    checked_positive,
    checked_sides,
    checked_start,
    softmax,
    span,
)


def replicator(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None = None,
    *,
    time: float,
    start: Profile | None = None,
) -> Iterates:
    """The mixtures at `time`, and their averages over [0, time].

    d row_a/dt = row_a · ((payoff·column)_a − rowᵀ·payoff·column); the column player likewise with
    its own pay-offs. Integrated in Y_row = ∫ row dt and Y_column, since row(t) = softmax(log row(0)
    + payoff·Y_column(t)): no mixture can leave the simplex, and the averages Y/time are exact. From
    the uniform start their nash_conv is at most 2·ln(choices)/time. time: in 1/pay-off. start:
    where to begin, uniform by default. Raises ValueError for wrong pay-offs, start or time,
    EquipoiseError when the integration fails. Source: Taylor and Jonker 1978, Mathematical
    Biosciences 40; the exponential form, Hofbauer, Sorin and Viossat 2009, Mathematics of
    Operations Research 34.
    """
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(time=time)
    logit_A, logit_M = checked_start(start, row_payoff_AM.shape)
    rows = len(logit_A)

    def profile(integral: np.ndarray) -> Profile:
        row_A = softmax(logit_A + row_payoff_AM @ integral[rows:])
        return Profile(row_A, softmax(logit_M + integral[:rows] @ column_payoff_AM))

    solution = solve_ivp(
        lambda _, integral: np.concatenate(profile(integral)),
        (0.0, time),
        np.zeros(sum(row_payoff_AM.shape)),
        method="DOP853",
        rtol=1e-8,
        atol=1e-8,
        t_eval=[time],
    )
    if not solution.success:
        raise EquipoiseError(
            f"replicator dynamics could not be integrated to time {time}: {solution.message}"
        )
    integral = solution.y[:, -1]
    average = Profile(integral[:rows] / time, integral[rows:] / time)
    return Iterates(profile(integral), average)


class Replicator(Solver):
    """A population's mixture by replicator dynamics against itself."""

    kind: Literal["replicator"] = "replicator"
    time: float = Field(
        1000.0, gt=0, description="length of the path, in units of 1/(largest − smallest pay-off)"
    )
    iterate: IterateName = Field(
        "average", description="average converges in constant-sum games, last in many others"
    )

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        """mixture_N from a uniform start.

        Raises ValueError for pay-offs that are not square or not finite.
        """
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        time = self.time / span(payoff_NN)
        played = replicator(payoff_NN, payoff_NN.T, time=time)
        return played.pick(self.iterate).row_A
