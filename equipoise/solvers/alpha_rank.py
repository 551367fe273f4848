"""α-rank: the share of time that evolution spends with each player, given rare mutants.

A mutant either takes its population over or dies out. It ranks the players of any game, with any
number of roles, and is unique, but no equilibrium: of rock, paper, scissors with unequal stakes
each gets a third.
"""

from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np
from pydantic import Field

from equipoise.solvers.base import (
    Mixtures,
    Solver,
    checked_payoff,
    checked_positive,
    checked_role_payoffs,
)

POPULATION = 50
"""Members of each population, as published."""
EQUAL = 1e-14
"""A difference of pay-offs up to which neither is better."""


def fixation(
    advantage: np.ndarray, alpha: float | None, members: int, epsilon: float
) -> np.ndarray:
    """The probability that one mutant takes over its population, element by element.

    u = alpha·advantage, of the mutant over the residents: (1 − e^−u) / (1 − e^(−members·u)), and
    1/members at u = 0. alpha None is its infinite limit, made irreducible: 1 − epsilon for an
    advantage, ½ for none, epsilon for a disadvantage. Source: Omidshafiei et al. 2019, arXiv
    1903.01373.

    >>> fixation(np.array([1.0, 0.0]), alpha=1.0, members=2, epsilon=1e-6).round(3)
    array([0.731, 0.5  ])
    """
    advantage = np.asarray(advantage, float)
    equal = np.abs(advantage) <= EQUAL
    if alpha is None:
        better = np.where(advantage > 0, 1 - epsilon, epsilon)
        return np.where(equal, 0.5, better)
    u = alpha * np.where(equal, 1.0, advantage)
    size = np.abs(u)
    # Of −u the same in powers of e^−|u|, which cannot overflow.
    downwards = np.exp(-(members - 1) * size)
    ratio = np.expm1(-size) / np.expm1(-members * size)
    return np.where(equal, 1 / members, np.where(u > 0, ratio, ratio * downwards))


def stationary(chain_SS: np.ndarray) -> np.ndarray:
    """The stationary distribution [S] of an irreducible chain_SS[from, to], whose diagonal is not
    read.

    Eliminates states without a subtraction, which keeps the digits of small probabilities. Raises
    ValueError where a state cannot be left towards those before it. Source: Grassmann, Taksar and
    Heyman 1985, Operations Research 33.

    >>> stationary(np.array([[0.0, 0.3], [0.1, 0.0]]))
    array([0.25, 0.75])
    """
    rates_SS = np.array(chain_SS, float)
    for last in range(len(rates_SS) - 1, 0, -1):
        leaving = rates_SS[last, :last].sum()
        if not leaving > 0:
            raise ValueError(
                "the chain is not irreducible: some player is never replaced; choose a "
                "smaller alpha"
            )
        rates_SS[:last, last] /= leaving
        rates_SS[:last, :last] += np.outer(rates_SS[:last, last], rates_SS[last, :last])
    weight_S = np.ones(len(rates_SS))
    for state in range(1, len(rates_SS)):
        weight_S[state] = weight_S[:state] @ rates_SS[:state, state]
    return weight_S / weight_S.sum()


def alpha_rank(
    payoff_NN: np.ndarray,
    *,
    alpha: float | None = None,
    members: int = POPULATION,
    epsilon: float = 1e-6,
) -> np.ndarray:
    """The share of time [N] with each player of one population that meets itself.

    From s to r ≠ s with probability fixation(payoff[r, s] − payoff[s, r]) / (N − 1). alpha:
    strength of selection in 1/pay-off, None: its infinite limit; epsilon: of that, the chance of a
    player that does worse. Raises ValueError for pay-offs that are not square or not finite.
    Source: Omidshafiei et al. 2019, arXiv 1903.01373, with the local model of selection.

    >>> alpha_rank(np.array([[0.0, -1, 5], [1, 0, -1], [-5, 1, 0]])).round(3)
    array([0.333, 0.333, 0.333])
    """
    payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
    checked_positive(alpha=alpha, members=members, epsilon=epsilon)
    advantage_NN = payoff_NN.T - payoff_NN
    return stationary(fixation(advantage_NN, alpha, members, epsilon))


def alpha_rank_roles(
    payoffs: Sequence[np.ndarray],
    *,
    alpha: float | None = None,
    members: int = POPULATION,
    epsilon: float = 1e-6,
) -> np.ndarray:
    """The share of time with each profile [N_1, …, N_R], where each role has its own population.

    To a profile that differs in role r alone with probability fixation(the gain of role r) / Σ_r
    (N_r − 1). payoffs: a tensor [N_1, …, N_R] for each role; other args, and the source, as
    `alpha_rank`. Raises ValueError for pay-offs that do not fit.

    >>> same = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> alpha_rank_roles([same, same], epsilon=1e-3).round(2)
    array([[1., 0.],
           [0., 0.]])
    """
    tensors = checked_role_payoffs(payoffs)
    checked_positive(alpha=alpha, members=members, epsilon=epsilon)
    shape = tensors[0].shape
    chain_SS = np.zeros((tensors[0].size, tensors[0].size))
    for profile in product(*map(range, shape)):
        here = np.ravel_multi_index(profile, shape)
        for role, tensor in enumerate(tensors):
            line = (*profile[:role], slice(None), *profile[role + 1 :])
            chance_N = fixation(tensor[line] - tensor[profile], alpha, members, epsilon)
            there_N = np.arange(tensor.size).reshape(shape)[line]
            moved_N = there_N != here
            chain_SS[here, there_N[moved_N]] = chance_N[moved_N]
    return stationary(chain_SS).reshape(shape)


class AlphaRank(Solver):
    """Mixtures by α-rank, for any pay-offs and any number of roles; a ranking, no equilibrium."""

    kind: Literal["alpha_rank"] = "alpha_rank"
    alpha: float | None = Field(
        None, gt=0, description="strength of selection, in 1/pay-off; null: infinite"
    )
    members: int = Field(POPULATION, ge=2, description="of each population; read with an alpha")
    epsilon: float = Field(
        1e-6,
        gt=0,
        lt=0.5,
        description="without an alpha: the chance that a player takes over which does worse",
    )

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        return alpha_rank(payoff_NN, alpha=self.alpha, members=self.members, epsilon=self.epsilon)

    def solve_roles(self, payoffs: Sequence[np.ndarray]) -> Mixtures:
        """Each role's share of time with each player. Raises ValueError for misfits."""
        shares = alpha_rank_roles(
            payoffs, alpha=self.alpha, members=self.members, epsilon=self.epsilon
        )
        roles = range(shares.ndim)
        return [shares.sum(tuple(other for other in roles if other != r)) for r in roles]
