"""Mirror descent with a KL anchor: multiplicative weights that are also pulled back towards an
anchor.

The pull makes the last mixture converge, to the equilibrium of the regularised game, where plain
multiplicative weights circle. It is the game that KL-regularised preference optimisation plays: the
anchor is the reference policy.
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


def proximal_step(
    logit_A: np.ndarray,
    reward_A: np.ndarray,
    eta: float,
    tau: float = 0.0,
    anchor_A: np.ndarray | float = 0.0,
) -> np.ndarray:
    """The logits, [A], of the policy that gains most while it stays close to softmax(logit) and to
    softmax(anchor).

    argmax_π ⟨π, reward⟩ − tau·KL(π‖softmax(anchor)) − KL(π‖softmax(logit))/eta: (logit
    + eta·(tau·anchor + reward)) / (1 + eta·tau). With the uniform anchor, 0, the second
    term is tau times the entropy, up to a constant. reward_A: the pay-off of each
    choice. eta: step size in 1/pay-off. tau: weight of the anchor, in units of pay-off.
    Source: Sokota et al. 2022, arXiv 2206.05825, §3.
    """
    return (logit_A + eta * (tau * anchor_A + reward_A)) / (1 + eta * tau)


def mirror_descent(
    payoff_AM: np.ndarray,
    column_payoff_AM: np.ndarray | None = None,
    *,
    tau: float,
    steps: int,
    eta: float | None = None,
    anchor: Profile | None = None,
    start: Profile | None = None,
) -> Iterates:
    """The mixtures after `steps` simultaneous updates, and their averages over the steps played.

    row_{t+1} ∝ [row_t · anchor_row^(eta·tau) · exp(eta · payoff·column_t)]^(1/(1 +
    eta·tau)), which minimises −eta·⟨row, payoff·column_t⟩ + eta·tau·KL(row‖anchor_row)
    + KL(row‖row_t); the column player likewise. In zero-sum games `last` converges to
    the one profile with row ∝ anchor_row·exp(payoff·column/tau) and column alike, its
    KL distance shrinking by 1/(1 + eta·tau) a step. tau: weight of the anchor, in units
    of pay-off. eta: step size in 1/pay-off; None is 4·tau/span², the largest for which
    convergence is proved. anchor, start: uniform by default. Raises ValueError for
    wrong pay-offs, anchor, start, tau, steps or eta. Source: magnetic mirror descent,
    Sokota et al. 2022, arXiv 2206.05825, §3.
    """
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(tau=tau, steps=steps, eta=eta)
    anchor_A, anchor_M = checked_start(anchor, row_payoff_AM.shape, "anchor")
    logit_A, logit_M = checked_start(start, row_payoff_AM.shape)
    if eta is None:
        # Half the span bounds the pay-offs once a constant, which changes no mixture, is taken off.
        eta = 4 * tau / max(span(row_payoff_AM), span(column_payoff_AM)) ** 2
    row_A, column_M = softmax(logit_A), softmax(logit_M)
    sum_A, sum_M = np.zeros_like(row_A), np.zeros_like(column_M)
    for _ in range(steps):
        sum_A += row_A
        sum_M += column_M
        logit_A = proximal_step(logit_A, row_payoff_AM @ column_M, eta, tau, anchor_A)
        logit_M = proximal_step(logit_M, row_A @ column_payoff_AM, eta, tau, anchor_M)
        row_A, column_M = softmax(logit_A), softmax(logit_M)
    return Iterates(Profile(row_A, column_M), Profile(sum_A / steps, sum_M / steps))


class Mirror(Solver):
    """A population's mixture by anchored mirror descent against itself; the anchor is uniform."""

    kind: Literal["mirror"] = "mirror"
    tau: float = Field(
        0.02, gt=0, description="weight of the anchor, in units of (largest − smallest pay-off)"
    )
    eta: float | None = Field(
        None, gt=0, description="step size in 1/(that unit); null is 4·tau, proved to converge"
    )
    steps: int = Field(
        10_000,
        ge=1,
        description="updates; some 10/(eta·tau) of them reach the regularised equilibrium",
    )
    iterate: IterateName = Field(
        "last", description="last converges to the regularised equilibrium; average is slower"
    )

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        """mixture_N from a uniform start.

        Raises ValueError for pay-offs that are not square or not finite.
        """
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        scaled_NN = payoff_NN / span(payoff_NN)
        played = mirror_descent(
            scaled_NN, scaled_NN.T, tau=self.tau, eta=self.eta, steps=self.steps
        )
        return played.pick(self.iterate).row_A
