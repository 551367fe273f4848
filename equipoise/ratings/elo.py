"""Elo ratings, by evalica, made independent of the order of the matches.

An Elo rating is a random walk: it depends on the order, starts from a guess and never settles,
while players here do not change. So many resamples of the outcomes are walked through in random
order, long enough to forget the start; the rating is the median of the ends, the interval their
middle 95 %. That covers also Elo's own jitter, ±2·sqrt(87·k) points however many matches there are,
which Bradley–Terry has not; Elo is here for readers who are used to it. The draws follow the
players' results, not their names, so renaming players moves no rating.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np
from pydantic import Field

from equipoise.ratings.base import (
    Counts,
    Outcome,
    Rating,
    Ratings,
    by_results,
    count_outcomes,
    mean_of_classes,
    outcome_cells,
    rank_players,
)
from equipoise.seeds import generator


class Elo(Ratings):
    """The median end of Elo walks over bootstrap resamples; interval: their 2.5 and 97.5
    percentiles.

    After a match, R_a += k·(s − E), R_b −= k·(s − E), E = 1/(1 + 10^((R_b − R_a)/scale)), s = 1, ½
    or 0. `prior` games a player, half won, are added to the opponents it met: one who never lost
    stays finite. The mean of all ratings is `initial`, also of each group that never met the
    others; a sole player has exactly that, and without a game no interval (NaN). Source: Elo 1978;
    bootstrap medians, Chiang et al. 2024, arXiv 2403.04132; the dependence on order, Boubdir et al.
    2023, arXiv 2311.17295.
    """

    kind: Literal["elo"] = "elo"
    k: float = Field(
        16.0, gt=0, description="points that a match moves at most; small is slow, large is jittery"
    )
    initial: float = Field(1000.0, description="points at the start, and the mean")
    scale: float = Field(400.0, gt=0, description="points for odds of ten to one")
    prior: float = Field(
        1.0, ge=0, description="games added to each player's own, half of them won"
    )
    resamples: int = Field(200, ge=40, description="bootstrap resamples")
    length: int = Field(
        500, ge=1, description="games per player in a walk; some 1000/k forget the start"
    )

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        counts, class_N = by_results(count_outcomes(outcomes))
        if len(counts.names) < 2:
            value_N = np.full(len(counts.names), self.initial)
            return rank_players(counts.names, value_N, value_N, value_N)
        bounds_3N = np.quantile(self._walks(counts, seed), [0.025, 0.5, 0.975], axis=0)
        low_N, value_N, high_N = (mean_of_classes(bound_N, class_N) for bound_N in bounds_3N)
        idle_N = counts.games_N == 0
        low_N[idle_N] = high_N[idle_N] = np.nan
        return rank_players(counts.names, value_N, low_N, high_N)

    def _walks(self, counts: Counts, seed: int) -> np.ndarray:
        import evalica  # here, since it imports pandas, which takes a second
        import pandas

        first_C, second_C, weight_C, tie_C = _cells(counts, self.prior)
        if not len(weight_C):
            return np.full((self.resamples, len(counts.names)), self.initial)
        winner_C = np.where(tie_C, evalica.Winner.Draw, evalica.Winner.X)
        winner_C = winner_C.astype(np.uint8)
        players = pandas.RangeIndex(len(counts.names))
        games = max(1, round(weight_C.sum()))
        steps = max(1, self.length * len(players) // 2)
        rng = generator(seed, "elo")
        ends = np.empty((self.resamples, len(players)))
        for end_N in ends:
            drawn_C = rng.multinomial(games, weight_C / weight_C.sum())
            edges_C = np.cumsum(drawn_C)
            place_R = rng.integers(edges_C[-1], size=steps)
            cell_R = np.searchsorted(edges_C, place_R, side="right")
            walked = evalica.elo(
                cast("list[int]", first_C[cell_R]),
                cast("list[int]", second_C[cell_R]),
                cast("list[evalica.Winner]", winner_C[cell_R]),
                index=players,
                initial=self.initial,
                scale=self.scale,
                k=self.k,
            )
            end_N[:] = walked.scores.sort_index().to_numpy()
        return ends


def _cells(counts: Counts, prior: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    games_NN = counts.win_NN + counts.win_NN.T + counts.tie_NN
    share_NN = games_NN / np.maximum(counts.games_N[:, None], np.finfo(float).tiny)
    prior_NN = prior * (share_NN + share_NN.T) / 4
    return outcome_cells(replace(counts, win_NN=counts.win_NN + prior_NN))
