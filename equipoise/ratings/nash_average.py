"""Nash averaging: a player's rating is its pay-off against the equilibrium of the population.

A mean win rate rewards beating many copies of one weak player; against the equilibrium mixture,
copies and players outside its support change nothing. Of many equilibria the one of maximum entropy
is taken, which is unique and treats copies alike.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.linalg import null_space
from scipy.optimize import linprog, minimize
from scipy.special import softmax

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.ratings.base import (
    Counts,
    Outcome,
    Rating,
    Ratings,
    by_results,
    count_outcomes,
    rank_players,
)
from equipoise.seeds import generator

# Pay-offs that differ less count as equal: the precision of the linear programme.
TIGHT = 1e-7


class NashAverage(Ratings):
    """value_N = payoff_NN · mixture_N, payoff_NN[i, j] = P(i beats j) − P(j beats i), a tie half of
    each.

    In [−1, 1]: 0 for all in the equilibrium mixture, at most 0 for the others. The interval is the
    middle 95 % over bootstrap resamples of the outcomes of each pair, with `prior` games added,
    half won, and widened to hold the value. Source: Balduzzi et al. 2018, arXiv 1806.02643, section
    4 (their table may hold log-odds; win rates are finite where one side always won).
    """

    kind: Literal["nash_average"] = "nash_average"
    resamples: int = Field(200, ge=40, description="bootstrap resamples")
    prior: float = Field(
        1.0, ge=0, description="games of each pair added to what is resampled, half won; 0 is plain"
    )

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Ratings of every player that appears, highest first.

        Raises ConfigError where two players never met, and DataError for an impossible outcome.
        """
        counts, _ = by_results(count_outcomes(outcomes))
        if not counts.names:
            return []
        value_N = _values(_payoff(counts))
        resampled = [_values(payoff_NN) for payoff_NN in self.resampled(counts, seed)]
        value_RN = np.stack([value_N, *resampled])
        low_N, high_N = np.quantile(value_RN, [0.025, 0.975], axis=0)
        return rank_players(
            counts.names, value_N, np.minimum(low_N, value_N), np.maximum(high_N, value_N)
        )

    def resampled(self, counts: Counts, seed: int) -> np.ndarray:
        """Pay-off tables [R, N, N] of resampled outcomes, in the order of `counts.names`."""
        players = len(counts.names)
        i_C, j_C = np.triu_indices(players, 1)
        won_C3 = np.stack(
            [counts.win_NN[i_C, j_C], counts.win_NN[j_C, i_C], counts.tie_NN[i_C, j_C]], axis=1
        )
        games_C = won_C3.sum(1)
        prior_3 = self.prior / 2 * np.array([1, 1, 0])
        share_C3 = (won_C3 + prior_3) / (games_C + self.prior)[:, None]
        times_C = np.maximum(1, np.rint(games_C)).astype(int)
        drawn_RC3 = generator(seed, "nash_average").multinomial(
            times_C, share_C3, size=(self.resamples, len(i_C))
        )
        payoff_RNN = np.zeros((self.resamples, players, players))
        payoff_RNN[:, i_C, j_C] = (drawn_RC3[..., 0] - drawn_RC3[..., 1]) / times_C
        return payoff_RNN - payoff_RNN.transpose(0, 2, 1)


def _payoff(counts: Counts) -> np.ndarray:
    """payoff_NN. Raises ConfigError for a pair that never met."""
    games_NN = counts.win_NN + counts.win_NN.T + counts.tie_NN
    games_NN = games_NN + np.eye(len(counts.names))
    if (games_NN == 0).any():
        strangers = np.argwhere(games_NN == 0)
        pairs = [sorted(counts.names[i] for i in pair) for pair in strangers]
        first, second = min(pairs)
        raise ConfigError(
            f"nash_average: '{first}' and '{second}' never met, and it "
            "needs every pair; play a round_robin, or rate by bradley_terry"
        )
    return (counts.win_NN - counts.win_NN.T) / games_NN


def _values(payoff_NN: np.ndarray) -> np.ndarray:
    return payoff_NN @ max_entropy_nash(payoff_NN)


def max_entropy_nash(payoff_NN: np.ndarray) -> np.ndarray:
    """The equilibrium mixture_N of largest entropy of the antisymmetric zero-sum game `payoff_NN`.

    Equilibria are the mixtures with payoff_NN · p ≤ 0. One linear programme finds the players in
    any of them, which earn 0 against every equilibrium (complementary slackness). A single mixture
    left is the result; else p_j ∝ exp(−Σ_i λ_i payoff[i, j]), λ from the convex dual min_λ log Σ_j
    exp(…), free for those players, ≥ 0 for the rest. Raises EquipoiseError where a solver fails.
    Source: Balduzzi et al. 2018, arXiv 1806.02643, theorem 1.

    >>> max_entropy_nash(np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])).round(3)
    array([0.333, 0.333, 0.333])
    """
    players = len(payoff_NN)
    weight_N, inside_N = _support(payoff_NN)
    level_SN = payoff_NN[np.ix_(inside_N, inside_N)]
    if null_space(level_SN, rcond=TIGHT).shape[1] == 1:
        return weight_N / weight_N.sum()
    rows_CS = payoff_NN[:, inside_N]
    bounds = [(None, None) if inside else (0.0, None) for inside in inside_N]

    def dual(force_C: np.ndarray) -> tuple[float, np.ndarray]:
        logit_S = -force_C @ rows_CS
        return float(np.logaddexp.reduce(logit_S)), -rows_CS @ softmax(logit_S)

    minimum = minimize(
        dual,
        np.zeros(players),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-9, "maxiter": 5000},
    )
    mixture_N = np.zeros(players)
    mixture_N[inside_N] = softmax(-minimum.x @ rows_CS)
    gain = float((payoff_NN @ mixture_N).max())
    if gain > 1e-5:
        raise EquipoiseError(
            f"nash_average: no equilibrium was found; the best reply still gains {gain:.2g}"
        )
    return mixture_N


def _support(payoff_NN: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An equilibrium, not normalised, of all players that are in any, and a mask of them."""
    players = len(payoff_NN)
    eye_NN = np.eye(players)
    # Equilibria, scaled, are a cone: x ≥ 0, payoff·x ≤ 0. In a cone, Σ min(x, 1) is largest where x
    # ≥ 1 for every player for which x > 0 is possible.
    A_ub = np.block([[payoff_NN, np.zeros_like(payoff_NN)], [-eye_NN, eye_NN]])
    bounds = [(0, None)] * players + [(0, 1)] * players
    solution = linprog(
        np.r_[np.zeros(players), -np.ones(players)],
        A_ub=A_ub,
        b_ub=np.zeros(2 * players),
        bounds=bounds,
        method="highs",
    )
    if not solution.success:
        raise EquipoiseError(f"nash_average: the linear programme failed: {solution.message}")
    weight_N = solution.x[:players]
    counted_N = solution.x[players:]
    inside_N = counted_N > 0.5
    return np.where(inside_N, weight_N, 0.0), inside_N
