"""From a pay-off table to outcomes with the weight of independent matches."""

from __future__ import annotations

from equipoise.payoffs.table import PayoffTable
from equipoise.ratings.base import Outcome


def outcomes(table: PayoffTable) -> list[Outcome]:
    """A win and a loss for each pair that met, weighted so that a rating's interval is as wide as
    the table's.

    weight of i beating j = effective[i, j] · (1 + payoff[i, j])/2, where `effective` counts
    independent meetings: many answers to one prompt are not that many meetings. A tie is half of
    each. `table`: constant-sum, pay-offs P(i beats j) − P(j beats i).
    """
    weighted = []
    effective_NN = table.effective_NN
    for i, first in enumerate(table.players):
        for j, second in enumerate(table.players[:i]):
            if table.count_NN[i, j]:
                won = (1 + table.payoff_NN[i, j]) / 2
                lost = (1 - table.payoff_NN[i, j]) / 2
                weight = effective_NN[i, j]
                weighted.append(Outcome(first, second, 1.0, float(weight * won)))
                weighted.append(Outcome(first, second, 0.0, float(weight * lost)))
    return weighted
