"""Which two players should meet next, so that the match tells most about the ratings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from equipoise.ratings.base import Outcome
from equipoise.ratings.bradley_terry import fisher_information, fit
from equipoise.ratings.counts import count


def information_gain(
    outcomes: Sequence[Outcome], names: Sequence[str], prior: float = 1.0
) -> np.ndarray:
    """What one more match of i and j would add to what is known of all strengths, in nats.

        gain_ij = log det(H + p_ij·(1 − p_ij)·d dᵀ) − log det H
                = log(1 + p_ij·(1 − p_ij)·dᵀ H⁻¹ d),    d = e_i − e_j

    H is the Fisher information of the outcomes under Bradley–Terry with the prior of
    `BradleyTerry`, p_ij = P(i beats j). A match of two whose strengths are well known, or of whom
    one nearly always wins, adds little.

    Args: names: the players, met or not [N]; prior: games of each player against an average one,
    half won, above 0. Returns gain_NN [N, N], symmetric, 0 on its diagonal. Raises ValueError for a
    prior that is not above 0, for names that occur twice, and for an outcome of another player.
    Source: D-optimal design for paired comparisons; the matrix determinant lemma.
    """
    if prior <= 0:
        raise ValueError(f"prior is {prior}; it must be above 0")
    if len(set(names)) < len(names):
        raise ValueError("names holds a player twice")
    # A match of nobody against nobody names the players that never met.
    unmet = [Outcome(name, name, 0.5, 0.0) for name in names]
    counts = count([*outcomes, *unmet])
    strangers = set(counts.names) - set(names)
    if strangers:
        raise ValueError(f"outcomes of players without a name: {sorted(strangers)}")
    if not counts.names:
        return np.zeros((0, 0))
    strength_N = fit(counts, prior)
    covariance_NN = np.linalg.inv(fisher_information(counts, prior, strength_N))
    variance_N = np.diag(covariance_NN)
    apart_NN = variance_N[:, None] + variance_N[None, :] - 2 * covariance_NN
    chance_NN = expit(strength_N[:, None] - strength_N[None, :])
    gain_NN = np.log1p(chance_NN * (1 - chance_NN) * np.maximum(apart_NN, 0.0))
    np.fill_diagonal(gain_NN, 0.0)
    place = {name: i for i, name in enumerate(counts.names)}
    order_N = [place[name] for name in names]
    return gain_NN[np.ix_(order_N, order_N)]
