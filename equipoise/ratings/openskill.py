"""OpenSkill ratings (Plackett–Luce), by the openskill package, independent of the matches' order.

OpenSkill is a filter: each match moves a belief, mean μ and deviation σ, and later ones move it
less. Players here do not change, so several passes in random order are averaged, and their variance
is added to the interval. The passes follow the players' results, not their names, so renaming
players moves no rating.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from equipoise.ratings.base import (
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


class OpenSkill(Ratings):
    """The mean belief over shuffled passes, μ ± 1.96·√(mean σ² + variance of μ over the passes).

    μ is in OpenSkill's own units: 6 of them (√2·β + what σ adds) are odds of e to one; its
    `ordinal` μ − 3σ would lie outside its own interval. For a weight of 2.3, each pass has two
    matches and with probability 0.3 a third. Groups that never met all keep the mean `mu`. Source:
    Weng and Lin 2011, JMLR 12, algorithm 4; Joshy 2024, arXiv 2401.05451.
    """

    kind: Literal["openskill"] = "openskill"
    mu: float = Field(25.0, description="μ of a player before its first match")
    sigma: float = Field(
        25 / 3, gt=0, description="σ of a player before its first match, in units of μ"
    )
    beta: float = Field(25 / 6, gt=0, description="the chance in a match, in units of μ")
    passes: int = Field(10, ge=2, description="shuffled passes through the matches")

    def rate(self, outcomes: Sequence[Outcome], seed: int = 0) -> list[Rating]:
        counts, class_N = by_results(count_outcomes(outcomes))
        if not counts.names:
            return []
        first_C, second_C, weight_C, tie_C = outcome_cells(counts)
        rng = generator(seed, "openskill")
        mu_PN, sigma_PN = np.empty((2, self.passes, len(counts.names)))
        for mu_N, sigma_N in zip(mu_PN, sigma_PN, strict=True):
            times_C = np.floor(weight_C + rng.random(len(weight_C))).astype(int)
            cell_M = rng.permutation(np.repeat(np.arange(len(weight_C)), times_C))
            mu_N[:], sigma_N[:] = self._walk(
                len(mu_N), first_C[cell_M], second_C[cell_M], tie_C[cell_M]
            )
        variance_N = (sigma_PN**2).mean(0) + mu_PN.var(0, ddof=1)
        value_N = mean_of_classes(mu_PN.mean(0), class_N)
        half_N = 1.959964 * np.sqrt(mean_of_classes(variance_N, class_N))
        return rank_players(counts.names, value_N, value_N - half_N, value_N + half_N)

    def _walk(
        self, players: int, first_M: np.ndarray, second_M: np.ndarray, tie_M: np.ndarray
    ) -> np.ndarray:
        """[2, N], every player's μ and σ after M matches in order."""
        from openskill.models import PlackettLuce

        # No drift (tau): players do not change.
        model = PlackettLuce(mu=self.mu, sigma=self.sigma, beta=self.beta, tau=0.0)
        beliefs = [model.rating() for _ in range(players)]
        matches = zip(first_M.tolist(), second_M.tolist(), tie_M.tolist(), strict=True)
        for i, j, tie in matches:
            teams = [[beliefs[i]], [beliefs[j]]]
            (beliefs[i],), (beliefs[j],) = model.rate(teams, ranks=[1, 1 if tie else 2])
        return np.array([(belief.mu, belief.sigma) for belief in beliefs]).T
