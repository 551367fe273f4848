"""The share of a pay-off that is intransitive: rock beats scissors beats paper beats rock.

An antisymmetric pay-off splits into a part that ratings explain, f_i − f_j, and a part made of
cycles; the two are orthogonal. Where the cyclic part is large no single rating orders the players
and a mixture is the honest answer.
"""

from math import comb

import numpy as np

CYCLIC = 0.1  # share of cyclic triples above which a single rating misleads


def cycle_share(payoff_NN: np.ndarray) -> float:
    """|cyclic|² / |payoff|² in [0, 1]: 0 for differences of ratings or ties, 1 for
    rock–paper–scissors.

    Two things other than cycles raise it. Sampling noise: pure noise has an expected share of (N −
    2)/N. Saturation: when each player beats *all* weaker ones by the same 1, the share is (N −
    2)/(3N), and `cyclic_triples` 0. Raises ValueError unless `payoff_NN` is antisymmetric and
    finite. Source: Jiang, Lim, Yao and Ye 2011 (HodgeRank), arXiv 0811.1067, §4; Balduzzi et al.
    2019, arXiv 1901.08106, §2, for its reading as a game.

    >>> cycle_share(np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]))
    1.0
    """
    payoff_NN = _antisymmetric(payoff_NN)
    scale = np.abs(payoff_NN).max()
    if scale == 0:
        return 0.0
    payoff_NN = payoff_NN / scale  # squares of tiny pay-offs would underflow
    rating_N = payoff_NN.mean(axis=1)  # of the least squares: the Hodge decomposition
    cyclic_NN = payoff_NN - np.subtract.outer(rating_N, rating_N)
    return float(min(1.0, (cyclic_NN**2).sum() / (payoff_NN**2).sum()))


def cyclic_triples(payoff_NN: np.ndarray) -> float:
    """The share of triples in which i beats j beats k beats i; by how much does not count.

    trace(B³)/3 / C(N, 3) with B[i, j] = 1 where payoff_ij > 0. 0 for fewer than three players; 1/4
    for coin flips. Raises ValueError unless `payoff_NN` is antisymmetric and finite. Source:
    Kendall and Babington Smith 1940, Biometrika 31.

    >>> cyclic_triples(np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]))
    1.0
    """
    beats_NN = (_antisymmetric(payoff_NN) > 0).astype(float)
    if len(beats_NN) < 3:
        return 0.0
    cycles = ((beats_NN @ beats_NN) * beats_NN.T).sum() / 3
    return float(cycles / comb(len(beats_NN), 3))


def circles(payoff_NN: np.ndarray) -> list[tuple[tuple[int, int, int], float]]:
    """Every triple of players in which each beats the next, with the least of its three pay-offs,
    the clearest first.

    >>> circles(np.array([[0.0, -0.5, 1], [0.5, 0, -1], [-1, 1, 0]]))
    [((0, 2, 1), 0.5)]
    """
    triples = []
    for i, j in np.argwhere(payoff_NN > 0).tolist():
        for k in np.flatnonzero((payoff_NN[j] > 0) & (payoff_NN[:, i] > 0)).tolist():
            if i < min(j, k):
                least = float(min(payoff_NN[i, j], payoff_NN[j, k], payoff_NN[k, i]))
                triples.append(((i, j, k), least))
    triples.sort(key=lambda circle: -circle[1])
    return triples


def cyclic_warning(triples: float) -> str:
    """The warning where `cyclic_triples` is too large for one rating a player, else empty; so it is
    for NaN, the share of fewer than three players.

    >>> cyclic_warning(0.05), cyclic_warning(np.nan)
    ('', '')
    """
    if np.isnan(triples) or triples <= CYCLIC:
        return ""
    return (
        f"{100 * triples:.0f} % of the triples go round in a circle (coin flips: 25 %): "
        "one rating per player misleads"
    )


def _antisymmetric(payoff_NN: np.ndarray) -> np.ndarray:
    payoff_NN = np.asarray(payoff_NN, dtype=float)
    square = payoff_NN.ndim == 2 and payoff_NN.shape[0] == payoff_NN.shape[1]
    if not square or not payoff_NN.size:
        raise ValueError(
            "payoff_NN must be a square matrix of at least one player; "
            f"its shape is {payoff_NN.shape}"
        )
    if not np.isfinite(payoff_NN).all():
        i, j = np.argwhere(~np.isfinite(payoff_NN))[0]
        raise ValueError(
            f"payoff_NN[{i}, {j}] is {payoff_NN[i, j]}; every pair must have a pay-off"
        )
    tolerance = 1e-9 * np.abs(payoff_NN).max()
    if not np.allclose(payoff_NN, -payoff_NN.T, rtol=0, atol=tolerance):
        raise ValueError(
            "payoff_NN must be antisymmetric, payoff[i, j] = −payoff[j, i]; "
            "from win rates, use 2·rate − 1"
        )
    return payoff_NN
