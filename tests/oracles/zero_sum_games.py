"""Values of random zero-sum games, by the column player's linear programme, and what the best
deviations gain against given mixtures.
"""

import numpy as np
from scipy.optimize import linprog

SHAPES = ((2, 2), (3, 4), (5, 3), (6, 6), (9, 7))


def value(payoff_AM: np.ndarray) -> float:
    """min over columns' mixtures of the best row's pay-off."""
    rows, columns = payoff_AM.shape
    solved = linprog(
        c=[*np.zeros(columns), 1.0],
        A_ub=np.c_[payoff_AM, -np.ones(rows)],
        b_ub=np.zeros(rows),
        A_eq=[[*np.ones(columns), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
    )
    return float(solved.x[-1])


def vectors() -> dict:
    dice = np.random.default_rng(37)
    games, symmetric = [], []
    for rows, columns in SHAPES:
        payoff_AM = dice.normal(size=(rows, columns)).round(3)
        row_A, column_M = (dice.dirichlet(np.ones(rows)), dice.dirichlet(np.ones(columns)))
        best_row = max(float(line @ column_M) for line in payoff_AM)
        best_column = min(float(line @ row_A) for line in payoff_AM.T)
        games.append(
            {
                "row_payoff": payoff_AM.tolist(),
                "value": value(payoff_AM),
                "row_strategy": row_A.tolist(),
                "column_strategy": column_M.tolist(),
                "nash_conv": best_row - best_column,
            }
        )
    for size in (3, 5, 8):
        upper = np.triu(dice.normal(size=(size, size)).round(3), 1)
        payoff_NN = upper - upper.T
        mixture_N = dice.dirichlet(np.ones(size))
        gains = [float(line @ mixture_N) for line in payoff_NN]
        own = sum(w * gain for w, gain in zip(mixture_N, gains, strict=True))
        symmetric.append(
            {
                "row_payoff": payoff_NN.tolist(),
                "value": 0.0,
                "strategy": mixture_N.tolist(),
                "exploitability": float(max(gains) - own),
            }
        )
    return {"zero_sum": games, "symmetric": symmetric}
