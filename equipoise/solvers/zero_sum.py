"""The Nash equilibrium of a zero-sum matrix game, by linear programming."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.optimize import linprog

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.solvers.base import Solver, checked_payoff, checked_role_payoffs, span
from equipoise.solvers.exploitability import nash_conv


def nash(payoff_AM: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(row_A, column_M, value) of the game in which the row player gets payoff_AM and the other
    −payoff_AM.

    max v subject to (rowᵀ·payoff)_m ≥ v for every m, row a distribution; the column player's
    mixture is the dual. Of several equilibria the LP's choice is returned. Raises ValueError for
    pay-offs that are no matrix or not finite, EquipoiseError when the LP cannot be solved. Source:
    von Neumann 1928; Dantzig 1951; solved by HiGHS.

    >>> row_A, column_M, value = nash(np.array([[2.0, -1.0], [-1.0, 1.0]]))
    >>> row_A.round(3), column_M.round(3), round(value, 3)
    (array([0.4, 0.6]), array([0.4, 0.6]), 0.2)
    """
    payoff_AM = checked_payoff(payoff_AM)
    middle = (payoff_AM.max() + payoff_AM.min()) / 2
    unit = span(payoff_AM) / 2
    # In [−1, 1], so that the LP's absolute tolerances fit any pay-off.
    scaled_AM = (payoff_AM - middle) / unit
    rows, columns = payoff_AM.shape
    solution = linprog(
        c=np.r_[np.zeros(rows), -1.0],
        A_ub=np.c_[-scaled_AM.T, np.ones(columns)],
        b_ub=np.zeros(columns),
        A_eq=np.r_[np.ones(rows), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    if solution.status != 0:
        raise EquipoiseError(
            f"the linear program of a {rows} × {columns} game was not solved: {solution.message}"
        )
    row_A = np.maximum(solution.x[:rows], 0.0)
    row_A = row_A / row_A.sum()
    column_M = np.maximum(-solution.ineqlin.marginals, 0.0)
    column_M = column_M / column_M.sum()
    gap = nash_conv(scaled_AM, row_A, column_M)
    if gap > 1e-6:
        raise EquipoiseError(
            f"the linear program of a {rows} × {columns} game left a gap of {gap * unit:.3g}"
        )
    return row_A, column_M, float(middle - unit * solution.fun)


class ZeroSum(Solver):
    """The population's Nash mixture, exactly; for constant-sum games only."""

    kind: Literal["zero_sum"] = "zero_sum"

    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        """mixture_N against which no player gains. Raises ConfigError where not constant-sum."""
        payoff_NN = checked_payoff(payoff_NN, "payoff_NN", square=True)
        if not is_constant_sum(payoff_NN, payoff_NN.T):
            raise ConfigError(
                "solver 'zero_sum' needs a constant-sum game, with payoff[i, j] + "
                "payoff[j, i] the same for every pair; for other games choose 'replicator' "
                "or 'multiplicative'"
            )
        return nash(payoff_NN)[0]

    def solve_roles(self, payoffs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Both roles' equilibrium mixtures. Raises ConfigError unless two, of constant sum."""
        tensors = checked_role_payoffs(payoffs)
        if len(tensors) != 2 or not is_constant_sum(tensors[0], tensors[1]):
            raise ConfigError(
                "solver 'zero_sum' needs two roles whose pay-offs always add up to the "
                f"same (there are {len(tensors)} roles); for other games choose "
                "'projected_replicator' or 'alpha_rank'"
            )
        row_A, column_M, _ = nash(tensors[0])
        return [row_A, column_M]


def is_constant_sum(first_AM: np.ndarray, second_AM: np.ndarray) -> bool:
    """True if both sides' pay-offs add up to the same in every cell.

    >>> is_constant_sum(np.array([[3.0, 0.0]]), np.array([[1.0, 4.0]]))
    True
    """
    largest = max(float(np.abs(first_AM).max()), 1.0)
    return bool(np.ptp(first_AM + second_AM) <= 1e-9 * largest)
