"""The pay-off table of a league, with standard errors and missing cells.

Of scores only the order counts, P(i beats j) − P(j beats i), so judges with different scales agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from equipoise.errors import NoSignal


class Meeting(NamedTuple):
    """`first` met `second` and got `value`, None if unjudged; "" is a `cluster` of its own."""

    first: str
    second: str
    value: float | None
    cluster: str = ""


@dataclass(frozen=True, eq=False)
class PayoffTable:
    """Pay-offs of N players, row i against column j.

    payoff_NN: the mean of what i got from j; NaN where no meeting was judged. count_NN,
    unjudged_NN: meetings that are in the mean, and not. clusters_NN: prompts among the judged.
    se_NN: standard error by clusters; NaN with fewer than two. constant_sum: every meeting gave j
    the negative of what it gave i, so a player's pay-off against itself is 0. prompts_N: different
    prompts (clusters) on which a player was judged beside another; prompts: those of all players.
    """

    players: list[str]
    payoff_NN: np.ndarray
    count_NN: np.ndarray
    unjudged_NN: np.ndarray
    clusters_NN: np.ndarray
    se_NN: np.ndarray
    prompts_N: np.ndarray
    prompts: int
    constant_sum: bool = True

    @property
    def effective_NN(self) -> np.ndarray:
        """Independent wins and losses with this standard error: (1 − payoff²)/se², in [clusters,
        count].

        For pay-offs in [−1, 1]. The clusters where the standard error is unknown or 0. Source: Kish
        1965, §8.2.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            size_NN = (1 - self.payoff_NN**2) / self.se_NN**2
        size_NN = np.where(np.isfinite(size_NN), size_NN, self.clusters_NN)
        return np.clip(size_NN, self.clusters_NN, self.count_NN)

    def filled(self, value: float) -> np.ndarray:
        """payoff_NN with `value` where no meeting was judged."""
        return np.where(np.isnan(self.payoff_NN), value, self.payoff_NN)

    def complete(self) -> np.ndarray:
        """payoff_NN for a solver. Raises NoSignal, naming the pair, where a meeting is lacking."""
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

    With clusters g of n_g meetings and sum s_g, n = sum n_g: se² = G/(G−1) · sum_g (s_g −
    n_g·mean)² / n².

    `players` fixes the rows' order and may name players that never met. `constant_sum`: a meeting
    (i, j, v) is also one (j, i, −v). Raises ValueError for a player that `players` does not list
    and for a value that is not finite. Source: the cluster-robust variance of a mean, Liang and
    Zeger 1986, Biometrika 73; Miller 2024, arXiv 2411.00640.

    >>> table = tally([Meeting("a", "b", 1.0), Meeting("b", "a", 0.0)])
    >>> table.payoff_NN
    array([[ 0. ,  0.5],
           [-0.5,  0. ]])
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
    cell_R = cell_R[judged_R]
    value_R = value_R[judged_R]
    group_R = group_R[judged_R]
    i_R = i_R[judged_R]
    j_R = j_R[judged_R]
    prompts_N, prompts = count_prompts(len(players), i_R, j_R, group_R)
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
    return PayoffTable(
        players,
        payoff_NN,
        count_NN,
        unjudged_NN,
        clusters_NN,
        se_NN,
        prompts_N,
        prompts,
        constant_sum,
    )


def count_prompts(
    players: int, i_R: np.ndarray, j_R: np.ndarray, group_R: np.ndarray
) -> tuple[np.ndarray, int]:
    """(different clusters on which each player met another, those of all); group_R: the clusters of
    R judged meetings of i_R and j_R.

    >>> i_R, j_R, prompt_R = np.array([0, 0, 1]), np.array([1, 1, 2]), np.array([5, 6, 6])
    >>> prompts_N, prompts = count_prompts(3, i_R, j_R, prompt_R)
    >>> prompts_N.tolist(), prompts
    ([2, 2, 1], 2)
    """
    met_R = i_R != j_R
    both_R = np.concatenate([i_R[met_R], j_R[met_R]]).astype(np.int64)
    groups_R = np.concatenate([group_R[met_R], group_R[met_R]]).astype(np.int64)
    distinct = np.unique(np.stack([both_R, groups_R]), axis=1)
    prompts_N = np.bincount(distinct[0], minlength=players)
    return prompts_N, len(np.unique(groups_R))


def met_by_all(table: PayoffTable) -> list[int]:
    """The places of players that have all met each other, without those who met the fewest.

    >>> scores = {"a": {"p": [1]}, "b": {"p": [0], "q": [1]}, "c": {"q": [0]}}
    >>> met_by_all(cross_play(scores))
    [0, 1]
    """
    rest = list(range(len(table.players)))
    while rest:
        missing_N = np.isnan(table.payoff_NN[np.ix_(rest, rest)]).sum(axis=0)
        if not missing_N.any():
            break
        fewest = int(missing_N[::-1].argmax())
        rest.pop(len(rest) - 1 - fewest)
    return rest


Scores = Mapping[str, Mapping[str, Sequence[float | None]]]


def preference(score_a: float | None, score_b: float | None) -> float | None:
    """sign(score_a − score_b); None when unjudged. Raises ValueError for a score that is not
    finite.

    >>> preference(7, 5), preference(7, None)
    (1.0, None)
    """
    for score in (score_a, score_b):
        if score is not None and not np.isfinite(score):
            raise ValueError(f"a score is {score}; it must be finite, or None when unjudged")
    if score_a is None or score_b is None:
        return None
    return float(np.sign(score_a - score_b))


def cross_play(scores: Scores) -> PayoffTable:
    """Every player's answers against every other's, on the prompts that both answered.

    payoff[i, j] = mean over prompts p of mean over answer pairs (a of i, b of j) of sign(s_i,p,a −
    s_j,p,b). se[i, j] = standard deviation of the prompts' means / sqrt(prompts).

    `scores`: {player: {prompt id: [score of each answer, None where unjudged]}}. The table is
    constant-sum and counts answer pairs; a pair with an unjudged answer is unjudged; the diagonal
    is 0 with count 0. Raises ValueError for a score that is not finite. Source: the preference game
    of Munos et al. 2023, arXiv 2312.00886, §3, with P − ½ doubled.

    >>> cross_play({"a": {"p1": [3, 1]}, "b": {"p1": [2]}, "c": {"p1": [0]}}).payoff_NN[0]
    array([0., 0., 1.])
    """
    players = list(scores)
    prompts = list(dict.fromkeys(prompt for by_prompt in scores.values() for prompt in by_prompt))
    dense = [_dense(player, scores[player], prompts) for player in players]
    shape = (len(players), len(players))
    payoff_NN = np.full(shape, np.nan)
    se_NN = np.full(shape, np.nan)
    count_NN, unjudged_NN, clusters_NN = np.zeros((3, *shape), np.int64)
    met_PN = np.zeros((len(prompts), len(players)), bool)
    np.fill_diagonal(payoff_NN, 0.0)
    np.fill_diagonal(se_NN, 0.0)
    for i in range(len(players)):
        for j in range(i):
            (score_i_PA, answers_i_P), (score_j_PA, answers_j_P) = dense[i], dense[j]
            sum_P, pairs_P = _meet(score_i_PA, score_j_PA)
            mean_P = sum_P[pairs_P > 0] / pairs_P[pairs_P > 0]
            unjudged_P = answers_i_P * answers_j_P - pairs_P
            count_NN[i, j] = count_NN[j, i] = pairs_P.sum()
            unjudged_NN[i, j] = unjudged_NN[j, i] = unjudged_P.sum()
            clusters_NN[i, j] = clusters_NN[j, i] = len(mean_P)
            met_PN[:, i] |= pairs_P > 0
            met_PN[:, j] |= pairs_P > 0
            if len(mean_P):
                payoff_NN[i, j] = mean_P.mean()
                payoff_NN[j, i] = 0.0 - payoff_NN[i, j]
            if len(mean_P) > 1:
                se_NN[i, j] = se_NN[j, i] = mean_P.std(ddof=1) / np.sqrt(len(mean_P))
    return PayoffTable(
        players,
        payoff_NN,
        count_NN,
        unjudged_NN,
        clusters_NN,
        se_NN,
        met_PN.sum(axis=0),
        int(met_PN.any(axis=1).sum()),
    )


def cross_play_by_prompt(scores: Scores) -> np.ndarray:
    """payoff_PNN: the pay-off of player i against player j on each prompt, as in `cross_play`.

    NaN where no answers of the two to the prompt were judged; the diagonal is 0.

    >>> cross_play_by_prompt({"a": {"p1": [3], "p2": [1]}, "b": {"p1": [2], "p2": [2]}})[:, 0, 1]
    array([ 1., -1.])
    """
    players = list(scores)
    prompts = list(dict.fromkeys(prompt for by_prompt in scores.values() for prompt in by_prompt))
    dense = [_dense(player, scores[player], prompts)[0] for player in players]
    payoff_PNN = np.zeros((len(prompts), len(players), len(players)))
    for i in range(len(players)):
        for j in range(i):
            sum_P, pairs_P = _meet(dense[i], dense[j])
            with np.errstate(invalid="ignore"):
                payoff_PNN[:, i, j] = sum_P / pairs_P
            payoff_PNN[:, j, i] = 0.0 - payoff_PNN[:, i, j]
    return payoff_PNN


def _dense(
    player: str, by_prompt: Mapping[str, Sequence[float | None]], prompts: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """(score_PA padded with NaN, answers per prompt [P])."""
    answers = [by_prompt.get(prompt, ()) for prompt in prompts]
    score_PA = np.full((len(prompts), max(map(len, answers), default=0)), np.nan)
    for row_A, prompt, scores in zip(score_PA, prompts, answers, strict=True):
        judged = [score for score in scores if score is not None]
        if not np.isfinite(judged).all():
            raise ValueError(
                f"'{player}', prompt '{prompt}': scores must be finite, "
                f"or None when unjudged: {scores}"
            )
        row_A[: len(judged)] = judged
    return score_PA, np.array(list(map(len, answers)), np.int64)


def _meet(score_i_PA: np.ndarray, score_j_PA: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per prompt: the sum of signs over all judged answer pairs, and their number."""
    sum_P = np.zeros(len(score_i_PA))
    # One answer of i against all of j's at a time, so that memory stays that of the scores.
    for score_P in score_i_PA.T:
        sum_P += np.nansum(np.sign(score_P[:, None] - score_j_PA), axis=1)
    pairs_P = (~np.isnan(score_i_PA)).sum(1) * (~np.isnan(score_j_PA)).sum(1)
    return sum_P, pairs_P
