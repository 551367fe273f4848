"""Fictitious play: in each round, each side plays the best pure reply to the other's frequencies so
far.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from equipoise.solvers.base import (
    Iterates,
    Profile,
    Solver,
    checked_payoff,
    checked_positive,
    checked_sides,
)


def fictitious_play(
    payoff_AM: np.ndarray, column_payoff_AM: np.ndarray | None = None, *, steps: int
) -> Iterates:
    """The frequencies of the replies over `steps` simultaneous rounds; `last` is the last round's
    pure replies.

    a_{t+1} = argmax_a (payoff·column frequencies_t)_a, the lowest index on ties; the column player
    likewise with its own pay-offs. Beliefs start from one imagined round against a uniform
    opponent; the averages count real rounds only. In zero-sum games the frequencies converge, often
    like 1/sqrt(steps), in the worst case much slower (ties broken adversarially); elsewhere they
    may cycle. Raises ValueError for wrong pay-offs or steps. Source: Brown 1951; Robinson 1951,
    Annals of Mathematics 54; the slow case: Daskalakis and Pan 2014, arXiv 1412.1840
    """
    row_payoff_AM, column_payoff_AM = checked_sides(payoff_AM, column_payoff_AM)
    checked_positive(steps=steps)
    rows, columns = row_payoff_AM.shape
    sum_A, sum_M = row_payoff_AM.mean(1), column_payoff_AM.mean(0)
    played_A, played_M = np.zeros(rows), np.zeros(columns)
    a = m = 0
    for _ in range(steps):
        a, m = int(sum_A.argmax()), int(sum_M.argmax())
        played_A[a] += 1
        played_M[m] += 1
        sum_A += row_payoff_AM[:, m]
        sum_M += column_payoff_AM[a]
    return Iterates(
        Profile(np.eye(rows)[a], np.eye(columns)[m]), Profile(played_A / steps, played_M / steps)
    )


class Fictitious(Solver):
    """A population's mixture by fictitious play against itself: the frequencies of its best
    replies.
    """

    kind: Literal["fictitious"] = "fictitious"
    steps: int = Field(20_000, ge=1, description="rounds")

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        """mixture_N. Raises ValueError for pay-offs that are not square or not finite."""
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        return fictitious_play(payoff_NN, payoff_NN.T, steps=self.steps).average.row_A
