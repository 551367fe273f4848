"""Bradley–Terry ratings, fitted by evalica, with intervals from the Fisher information.

evalica's own interval is a bootstrap over the matches, whose cost grows with their number; the
information matrix gives the same interval from the pair counts alone.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, ndtri

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.ratings.base import (
    Counts,
    Outcome,
    Rating,
    Ratings,
    count_outcomes,
    outcome_cells,
    rank_players,
)


class BradleyTerry(Ratings):
    """Maximum-a-posteriori strengths in Elo points, mean `mean`.

    P(i beats j) = 1/(1 + 10^((R_j − R_i)/scale)); a tie is half a win of each. `prior` games of
    each player against an average one, half of them won, keep finite a player who never lost, and
    groups that never met. Interval: R ± 1.96·sqrt(diag(C H⁻¹ Cᵀ)), H the Fisher information of
    outcomes and prior, C = I − 11ᵀ/N since only differences are identified; ties make it a little
    too wide. A sole player has exactly `mean`. Source: Bradley and Terry 1952, Biometrika 39;
    Newman 2023, JMLR 24, for evalica's iteration and the prior (there of two games); the condition
    for prior = 0, Ford 1957, Am. Math. Monthly 64.
    """

    kind: Literal["bradley_terry"] = "bradley_terry"
    prior: float = Field(
        1.0, ge=0, description="games of each player against an average one, half won; 0 is pure ML"
    )
    mean: float = Field(1000.0, description="points of the average player")
    scale: float = Field(400.0, gt=0, description="points for odds of ten to one")

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        """Ratings of every player that appears, highest first; nothing is random.

        Raises ConfigError where `prior` is 0 and no finite rating exists, DataError for a bad
        outcome.
        """
        counts = count_outcomes(outcomes)
        if not counts.names:
            return []
        if self.prior == 0:
            _finite_or_raise(counts)
        strength_N = fit_strengths(counts, self.prior)
        se_N = _standard_error(counts, self.prior, strength_N)
        points = self.scale / np.log(10)
        value_N = self.mean + points * (strength_N - strength_N.mean())
        half_N = points * ndtri(0.975) * se_N
        return rank_players(counts.names, value_N, value_N - half_N, value_N + half_N)


def fit_strengths(counts: Counts, prior: float) -> np.ndarray:
    """strength_N in nats relative to the prior's average player (any origin when prior is 0).

    >>> fit_strengths(count_outcomes([Outcome("a", "b", 1.0)] * 3), prior=1.0).round(3)
    array([ 1.171, -1.171])
    """
    import evalica  # here, since it imports pandas, which takes a second
    import pandas

    players = len(counts.names)
    first_C, second_C, weight_C, tie_C = outcome_cells(counts)
    if prior:
        # The prior's average player is one more, which ties with each of the others.
        first_C = np.concatenate([first_C, np.arange(players)])
        second_C = np.concatenate([second_C, np.full(players, players)])
        weight_C = np.concatenate([weight_C, np.full(players, prior)])
        tie_C = np.concatenate([tie_C, np.full(players, True)])
    if not len(first_C):
        return np.zeros(players)
    winners = [evalica.Winner.Draw if tie else evalica.Winner.X for tie in tie_C]
    fitted = evalica.bradley_terry(
        first_C.tolist(),
        second_C.tolist(),
        winners,
        index=pandas.RangeIndex(players + bool(prior)),
        weights=weight_C.tolist(),
        tolerance=1e-10,
        limit=100_000,
    )
    strength = np.log(fitted.scores.sort_index().to_numpy())
    return strength[:players] - (strength[players] if prior else 0.0)


def fisher_information(counts: Counts, prior: float, strength_N: np.ndarray) -> np.ndarray:
    """The information [N, N] on the strengths, of the games and of the prior's, per nat².

    >>> fisher_information(count_outcomes([Outcome("a", "b", 1.0)]), 1.0, np.zeros(2))
    array([[ 0.5 , -0.25],
           [-0.25,  0.5 ]])
    """
    wins_NN = counts.win_NN + counts.tie_NN / 2
    chance_NN = expit(strength_N[:, None] - strength_N[None, :])
    # Against the prior's average player, whose strength is 0.
    chance_N = expit(strength_N)
    shared_NN = (wins_NN + wins_NN.T) * chance_NN * (1 - chance_NN)
    own_N = shared_NN.sum(1) + prior * chance_N * (1 - chance_N)
    return np.diag(own_N) - shared_NN


def _standard_error(counts: Counts, prior: float, strength_N: np.ndarray) -> np.ndarray:
    """Standard errors, in nats, of the strengths relative to their mean."""
    wins_NN = counts.win_NN + counts.tie_NN / 2
    games_NN = wins_NN + wins_NN.T
    chance_NN = expit(strength_N[:, None] - strength_N[None, :])
    chance_N = expit(strength_N)
    information_NN = fisher_information(counts, prior, strength_N)
    covariance_NN = np.linalg.pinv(information_NN, hermitian=True)
    gradient_N = (wins_NN - games_NN * chance_NN).sum(1) + prior * (0.5 - chance_N)
    centre_NN = np.eye(len(strength_N)) - 1 / len(strength_N)
    se_N = np.sqrt(np.maximum(np.diag(centre_NN @ covariance_NN @ centre_NN), 0.0))
    off_N = np.abs(centre_NN @ covariance_NN @ gradient_N)
    if (off_N > 1e-3 * se_N + 1e-9).any():
        name = counts.names[int(np.argmax(off_N - 1e-3 * se_N))]
        raise EquipoiseError(
            f"bradley_terry: the fit did not converge at '{name}'; a larger prior helps"
        )
    return se_N


def _finite_or_raise(counts: Counts) -> None:
    """Require that of every two groups of players each won something against the other."""
    beaten_NN = counts.win_NN + counts.tie_NN
    groups, group_N = connected_components(beaten_NN, connection="strong")
    if groups > 1:
        group = [
            name for name, number in zip(counts.names, group_N, strict=True) if number == group_N[0]
        ]
        raise ConfigError(
            "bradley_terry with prior 0 has no finite ratings: the group of "
            f"{', '.join(map(repr, group[:3]))} and the rest never met, or only one side "
            "ever won. Set prior above 0 or play more matches."
        )


def information_gain(
    outcomes: Sequence[Outcome], names: Sequence[str], prior: float = 1.0
) -> np.ndarray:
    """The information on all strengths that one more match of i and j would add, in nats.

        gain_ij = log det(H + p_ij·(1 − p_ij)·d dᵀ) − log det H
                = log(1 + p_ij·(1 − p_ij)·dᵀ H⁻¹ d),    d = e_i − e_j

    H is the Fisher information of the outcomes with `BradleyTerry`'s prior, p_ij = P(i beats j). Of
    two well-known strengths, or where one nearly always wins, a match adds little.

    Args: names: the players, met or not [N]; prior: above 0. Returns gain_NN [N, N], symmetric, 0
    on its diagonal. Raises ValueError for another prior, names that occur twice, and an outcome of
    another player. Source: D-optimal design for paired comparisons; the matrix determinant lemma.

    >>> information_gain([Outcome("a", "b", 1.0)] * 8, ["a", "b", "c"]).argmax(axis=1)
    array([2, 2, 1])
    """
    if prior <= 0:
        raise ValueError(f"prior is {prior}; it must be above 0")
    if len(set(names)) < len(names):
        raise ValueError("names holds a player twice")
    # A match of nobody against nobody names the players that never met.
    unmet = [Outcome(name, name, 0.5, 0.0) for name in names]
    counts = count_outcomes([*outcomes, *unmet])
    strangers = set(counts.names) - set(names)
    if strangers:
        raise ValueError(f"outcomes of players without a name: {sorted(strangers)}")
    if not counts.names:
        return np.zeros((0, 0))
    strength_N = fit_strengths(counts, prior)
    covariance_NN = np.linalg.inv(fisher_information(counts, prior, strength_N))
    variance_N = np.diag(covariance_NN)
    apart_NN = variance_N[:, None] + variance_N[None, :] - 2 * covariance_NN
    chance_NN = expit(strength_N[:, None] - strength_N[None, :])
    gain_NN = np.log1p(chance_NN * (1 - chance_NN) * np.maximum(apart_NN, 0.0))
    np.fill_diagonal(gain_NN, 0.0)
    place = {name: i for i, name in enumerate(counts.names)}
    order_N = [place[name] for name in names]
    return gain_NN[np.ix_(order_N, order_N)]
