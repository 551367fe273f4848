"""Multiplicative weights (Hedge): both players reweight each choice by the exponential of the
pay-off that it would have got.

The average of the mixtures approaches equilibrium in zero-sum games; the last one circles it, ever
further out.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

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


def multiplicative_weights(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None = None,
    *,
    steps: int,
    eta: float | None = None,
    start: Profile | None = None,
) -> Iterates:
    """The mixtures after `steps` simultaneous updates, and their averages over the steps played.

    row_{t+1} ∝ row_t · exp(eta · payoff·column_t); the column player likewise with its own
    pay-offs. eta: step size in 1/pay-off; None is sqrt(8·ln(choices)/steps)/span, with which
    nash_conv of the averages is at most span·sqrt(2·ln(choices)/steps). start: where to begin,
    uniform by default. Raises ValueError for wrong pay-offs, start, steps or eta. Source: Freund
    and Schapire 1999, Games and Economic Behavior 29; Cesa-Bianchi and Lugosi 2006, Theorem 2.2.
    """
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(steps=steps, eta=eta)
    logit_A, logit_M = checked_start(start, row_payoff_AM.shape)
    if eta is None:
        unit = max(span(row_payoff_AM), span(column_payoff_AM))
        eta = float(np.sqrt(8 * np.log(max(2, *row_payoff_AM.shape)) / steps)) / unit
    row_A, column_M = softmax(logit_A), softmax(logit_M)
    sum_A, sum_M = np.zeros_like(row_A), np.zeros_like(column_M)
    for _ in range(steps):
        sum_A += row_A
        sum_M += column_M
        logit_A = logit_A + eta * (row_payoff_AM @ column_M)
        logit_M = logit_M + eta * (row_A @ column_payoff_AM)
        row_A, column_M = softmax(logit_A), softmax(logit_M)
    return Iterates(Profile(row_A, column_M), Profile(sum_A / steps, sum_M / steps))


class Multiplicative(Solver):
    """A population's mixture by multiplicative weights against itself."""

    kind: Literal["multiplicative"] = "multiplicative"
    steps: int = Field(10_000, ge=1, description="updates")
    eta: float | None = Field(
        None, gt=0, description="step size in 1/pay-off; null chooses it from steps and pay-offs"
    )
    iterate: IterateName = Field(
        "average", description="average converges in constant-sum games, last in many others"
    )

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        """mixture_N from a uniform start.

        Raises ValueError for pay-offs that are not square or not finite.
        """
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        played = multiplicative_weights(payoff_NN, payoff_NN.T, steps=self.steps, eta=self.eta)
        return played.pick(self.iterate).row_A
