"""Outcomes summed to pair counts, so that the cost of a rating grows with the players and not with
the matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from equipoise.errors import DataError
from equipoise.ratings.base import Outcome


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each outcome happened.

    `names` are sorted, so the order of the outcomes changes nothing.

    win_NN[i, j]: i beat j. tie_NN[i, j] = tie_NN[j, i]: a tie of the two, counted once in each
    cell.
    """

    names: list[str]
    win_NN: np.ndarray
    tie_NN: np.ndarray

    @property
    def games_N(self) -> np.ndarray:
        """Each player's total weight of games."""
        return (self.win_NN + self.win_NN.T + self.tie_NN).sum(axis=1)


def count(outcomes: Sequence[Outcome]) -> Counts:
    """The pair counts of `outcomes`.

    A player's match against itself says nothing about its strength and is left out.

    Raises DataError for a value other than 0, ½ and 1, and for a weight that is negative or not
    finite.
    """
    weight_of: dict[tuple[str, str, float], float] = {}
    for outcome in outcomes:
        if not (outcome.weight >= 0 and isfinite(outcome.weight)):
            raise DataError(
                f"outcome of '{outcome.first}' and '{outcome.second}': "
                f"weight {outcome.weight} is not ≥ 0"
            )
        key = (outcome.first, outcome.second, outcome.value)
        weight_of[key] = weight_of.get(key, 0.0) + outcome.weight
    names = sorted({name for first, second, _ in weight_of for name in (first, second)})
    index = {name: i for i, name in enumerate(names)}
    win_NN, tie_NN = np.zeros((2, len(names), len(names)))
    for (first, second, value), weight in weight_of.items():
        i, j = index[first], index[second]
        if value not in (0.0, 0.5, 1.0):
            raise DataError(
                f"outcome of '{first}' and '{second}' is {value}; "
                "it must be 1 (won), 0 (lost) or 0.5 (tie)"
            )
        if i == j:
            continue
        if value == 0.5:
            tie_NN[i, j] += weight
            tie_NN[j, i] += weight
        else:
            win_NN[(i, j) if value == 1.0 else (j, i)] += weight
    return Counts(names, win_NN, tie_NN)


def cells(counts: Counts) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The C different outcomes as (first_C, second_C, weight_C, tie_C): first beat second, or tied
    with it where tie_C, weight_C times.
    """
    win_C2, tie_C2 = np.argwhere(counts.win_NN), np.argwhere(np.triu(counts.tie_NN))
    weight_C = np.concatenate([counts.win_NN[tuple(win_C2.T)], counts.tie_NN[tuple(tie_C2.T)]])
    first_C, second_C = np.concatenate([win_C2, tie_C2]).T
    return first_C, second_C, weight_C, np.arange(len(weight_C)) >= len(win_C2)
