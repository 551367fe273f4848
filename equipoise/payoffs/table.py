"""The pay-off table: what each player gets when it meets each other player, with standard errors,
and what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from equipoise.errors import NoSignal


class Meeting(NamedTuple):
    """`first` met `second` and got `value`, or None where the meeting could not be judged.

    Meetings that share a `cluster` (a prompt's id) are not independent of each other; "" is a
    cluster of its own.
    """

    first: str
    second: str
    value: float | None
    cluster: str = ""


@dataclass(frozen=True, eq=False)
class PayoffTable:
    """Pay-offs of N players, row i against column j.

    payoff_NN: the mean of what i got when it met j; NaN where no meeting was judged. count_NN:
    judged meetings. unjudged_NN: meetings that could not be judged; they are in no mean.
    clusters_NN: clusters (prompts) among the judged meetings. se_NN: standard error of payoff_NN,
    clusters taken whole; NaN with fewer than two clusters. constant_sum: every meeting gave j the
    negative of what it gave i, so a player's pay-off against itself is 0.
    """

    players: list[str]
    payoff_NN: np.ndarray
    count_NN: np.ndarray
    unjudged_NN: np.ndarray
    clusters_NN: np.ndarray
    se_NN: np.ndarray
    constant_sum: bool = True

    @property
    def unjudged_share(self) -> float:
        """Unjudged meetings over all meetings; NaN when there was none."""
        once_NN = np.ones_like(self.count_NN)
        if self.constant_sum:
            # Each meeting of two players is counted in two cells.
            once_NN = np.triu(once_NN)
        unjudged = float((once_NN * self.unjudged_NN).sum())
        met = unjudged + float((once_NN * self.count_NN).sum())
        return unjudged / met if met else float("nan")

    @property
    def effective_NN(self) -> np.ndarray:
        """How many independent wins and losses would have this standard error: (1 − payoff²)/se²,
        within [clusters, count].

        For pay-offs in [−1, 1]. It falls to the clusters where the standard error is unknown or 0.
        Source: the effective sample size of a clustered sample, Kish 1965, §8.2.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            size_NN = (1 - self.payoff_NN**2) / self.se_NN**2
        size_NN = np.where(np.isfinite(size_NN), size_NN, self.clusters_NN)
        return np.clip(size_NN, self.clusters_NN, self.count_NN)

    def filled(self, value: float) -> np.ndarray:
        """payoff_NN with `value` where no meeting was judged: the caller states what a missing
        pay-off counts as.
        """
        return np.where(np.isnan(self.payoff_NN), value, self.payoff_NN)

    def complete(self) -> np.ndarray:
        """payoff_NN for a solver; antisymmetric when `constant_sum`.

        Raises NoSignal, naming the pair, when two players have no judged meeting.
        """
        missing = np.argwhere(np.isnan(self.payoff_NN))
        if len(missing):
            i, j = missing[0]
            raise NoSignal(
                f"pay-off table: '{self.players[i]}' and '{self.players[j]}' have no judged "
                f"meeting ({int(self.unjudged_NN[i, j])} unjudged; {len(missing)} of "
                f"{self.payoff_NN.size} cells are empty). Let the schedule pair them, or look "
                "at why the judge gave no verdict."
            )
        return self.payoff_NN.copy()


def tally(
    meetings: Iterable[Meeting], players: Sequence[str] | None = None, constant_sum: bool = True
) -> PayoffTable:
    """The table of `meetings`: payoff[i, j] = mean value of i's meetings with j.

    Standard error with clusters g of n_g meetings and sum s_g, n = sum n_g, G clusters: se² =
    G/(G−1) · sum_g (s_g − n_g·mean)² / n², which is the usual s²/n when each meeting is its own
    cluster.

    `players` fixes the rows' order and may name players that never met; else the order of first
    appearance. `constant_sum`: a meeting (i, j, v) is also one (j, i, −v). Raises ValueError for a
    player that `players` does not list and for a value that is not a finite number. Source: the
    cluster-robust variance of a mean, Liang and Zeger 1986, Biometrika 73; Miller 2024, arXiv
    2411.00640.
    """
    index = {name: i for i, name in enumerate(players or ())}
    cluster_ids: dict[str | int, int] = {}
    rows: list[tuple[int, int, float, int]] = []
    for number, (first, second, value, cluster) in enumerate(meetings):
        for name in (first, second):
            if name not in index and players is not None:
                raise ValueError(
                    f"meeting of '{first}' and '{second}': '{name}' is not among the players"
                )
            index.setdefault(name, len(index))
        if value is not None and not np.isfinite(value):
            raise ValueError(
                f"meeting of '{first}' and '{second}' has value {value}; it must be finite, "
                "or None when unjudged"
            )
        group = cluster_ids.setdefault(cluster or number, len(cluster_ids))
        known = np.nan if value is None else value
        rows.append((index[first], index[second], known, group))
    if not rows:
        return _table(list(index), *np.zeros((4, 0)), constant_sum=constant_sum)
    i_R, j_R, value_R, group_R = (np.array(column) for column in zip(*rows, strict=True))
    if constant_sum:
        # Seen from the player listed first; against itself 0, since what one seat gains the other
        # loses.
        value_R = value_R * np.sign(j_R - i_R)
        i_R, j_R = np.minimum(i_R, j_R), np.maximum(i_R, j_R)
    return _table(list(index), i_R, j_R, value_R, group_R, constant_sum=constant_sum)


def _table(
    players: list[str],
    i_R: np.ndarray,
    j_R: np.ndarray,
    value_R: np.ndarray,
    group_R: np.ndarray,
    constant_sum: bool,
) -> PayoffTable:
    """Means and clustered standard errors of R meetings; NaN values are unjudged."""
    cells = len(players) ** 2
    cell_R = (i_R * len(players) + j_R).astype(np.int64)
    unjudged_R = np.isnan(value_R)
    unjudged_C = np.bincount(cell_R[unjudged_R], minlength=cells)
    judged_R = ~unjudged_R
    cell_R, value_R, group_R = cell_R[judged_R], value_R[judged_R], group_R[judged_R]
    count_C = np.bincount(cell_R, minlength=cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_C = np.bincount(cell_R, value_R, cells) / count_C
        groups = int(group_R.max(initial=0)) + 1
        key_R = cell_R * groups + group_R.astype(np.int64)
        key_G, cluster_R = np.unique(key_R, return_inverse=True)
        cell_G = key_G // groups
        residual_G = np.bincount(cluster_R, value_R - mean_C[cell_R], len(cell_G))
        clusters_C = np.bincount(cell_G, minlength=cells)
        square_C = np.bincount(cell_G, residual_G**2, cells)
        se_C = np.sqrt(clusters_C / (clusters_C - 1) * square_C) / count_C
        se_C = np.where(clusters_C > 1, se_C, np.nan)
    payoff_NN, count_NN, unjudged_NN, clusters_NN, se_NN = (
        column.reshape(len(players), len(players))
        for column in (mean_C, count_C, unjudged_C, clusters_C, se_C)
    )
    if constant_sum:
        lower = np.tril_indices(len(players), -1)
        payoff_NN[lower] = 0.0 - payoff_NN.T[lower]
        for mirrored_NN in (count_NN, unjudged_NN, clusters_NN, se_NN):
            mirrored_NN[lower] = mirrored_NN.T[lower]
        np.fill_diagonal(payoff_NN, 0.0)
        np.fill_diagonal(se_NN, 0.0)
    return PayoffTable(players, payoff_NN, count_NN, unjudged_NN, clusters_NN, se_NN, constant_sum)
