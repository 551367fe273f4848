"""From a preference table to outcomes that weigh no more than they tell."""

from __future__ import annotations

from equipoise.payoffs.table import Table
from equipoise.ratings.base import Outcome


def outcomes(table: Table) -> list[Outcome]:
    """A win and a loss of each pair that met, weighted so that a rating's interval is
    as wide as the table says.

    weight of i beating j = effective[i, j] · (1 + payoff[i, j])/2, where `effective`
    counts independent meetings: many answers to one prompt are not that many meetings.
    A tie is half of each. `table`: constant-sum, pay-offs P(i beats j) − P(j beats i).
    """
    effective_NN = table.effective_NN
    return [
        Outcome(first, second, won, float(effective_NN[i, j] * share))
        for i, first in enumerate(table.players)
        for j, second in enumerate(table.players[:i])
        if table.count_NN[i, j]
        for won, share in (
            (1.0, (1 + table.payoff_NN[i, j]) / 2),
            (0.0, (1 - table.payoff_NN[i, j]) / 2),
        )
    ]
