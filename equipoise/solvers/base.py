"""Solvers: from a symmetric game's pay-offs to a mixture over its players.

Each is a free function on the two-player matrix game (the column player gets −payoff_AM unless
another matrix is given) and a component that runs it on a population against itself.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from equipoise.component import Component
from equipoise.errors import ConfigError, DataError

Mixtures = list[np.ndarray]
"""A distribution for each role, over its players."""
IterateName = Literal["average", "last"]


class Solver(Component):
    """Turns `payoff_NN[i, j]` (what i gets when it meets j) into a mixture over the N players."""

    KINDS: ClassVar = {
        "zero_sum": "equipoise.solvers.zero_sum:ZeroSum",
        "multiplicative": "equipoise.solvers.dynamics:Multiplicative",
        "replicator": "equipoise.solvers.dynamics:Replicator",
        "fictitious": "equipoise.solvers.dynamics:Fictitious",
        "mirror": "equipoise.solvers.dynamics:Mirror",
        "gpo": "equipoise.solvers.gpo:GPO",
        "projected_replicator": "equipoise.solvers.projected_replicator:ProjectedReplicator",
        "alpha_rank": "equipoise.solvers.alpha_rank:AlphaRank",
    }

    @abstractmethod
    def solve(self, payoff_NN: np.ndarray) -> np.ndarray:
        """mixture_N. Raises ValueError for pay-offs that are not square or not finite."""

    def solve_roles(self, payoffs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A mixture for each role; payoffs[r][i_1, …, i_R] is what role r gets.

        Raises ConfigError where this solver knows populations that meet themselves only.
        """
        raise ConfigError(
            f"solver '{self.kind}' solves a population against itself; for roles with "
            "players of their own choose 'zero_sum', 'projected_replicator' or "
            "'alpha_rank'"
        )


class Profile(NamedTuple):
    """One mixture for each side."""

    row_A: np.ndarray
    column_M: np.ndarray


class Iterates(NamedTuple):
    """The last profile of a dynamic, and the mean of all: often only that converges (zero sum)."""

    last: Profile
    average: Profile

    def pick(self, name: IterateName) -> Profile:
        """`last` or `average`."""
        return self.average if name == "average" else self.last


def checked_payoff(
    payoff_AM: np.ndarray, name: str = "payoff_AM", square: bool = False
) -> np.ndarray:
    """`payoff_AM` as floats; ValueError for its shape, DataError where not finite."""
    payoff_AM = np.asarray(payoff_AM, dtype=float)
    shape = payoff_AM.shape
    if payoff_AM.ndim != 2 or not payoff_AM.size or (square and shape[0] != shape[1]):
        required = (
            "square, with a row and a column for each player"
            if square
            else "a matrix with at least one row and column"
        )
        raise ValueError(f"{name} must be {required}; its shape is {shape}")
    if not np.isfinite(payoff_AM).all():
        a, m = np.argwhere(~np.isfinite(payoff_AM))[0]
        raise DataError(
            f"{name}[{a}, {m}] is {payoff_AM[a, m]}; a solver needs every pay-off "
            "(see payoffs.table.PayoffTable)"
        )
    return payoff_AM


def checked_sides(
    payoff_AM: np.ndarray, column_payoff_AM: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Both players' pay-offs; the column's default is −payoff_AM. Raises as `checked_payoff`."""
    payoff_AM = checked_payoff(payoff_AM)
    if column_payoff_AM is None:
        return payoff_AM, -payoff_AM
    column_payoff_AM = checked_payoff(column_payoff_AM, "column_payoff_AM")
    if column_payoff_AM.shape != payoff_AM.shape:
        raise ValueError(
            f"column_payoff_AM has shape {column_payoff_AM.shape}, payoff_AM {payoff_AM.shape}"
        )
    return payoff_AM, column_payoff_AM


def checked_mixture(mixture_A: np.ndarray, size: int, name: str) -> np.ndarray:
    """`mixture_A` as floats; raises ValueError when it is no distribution over `size` choices."""
    mixture_A = np.asarray(mixture_A, dtype=float)
    if mixture_A.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},); its shape is {mixture_A.shape}")
    finite = np.isfinite(mixture_A).all()
    if not finite or mixture_A.min() < -1e-9 or abs(mixture_A.sum() - 1) > 1e-6:
        raise ValueError(f"{name} must be non-negative and sum to one: {mixture_A}")
    mixture_A = np.maximum(mixture_A, 0.0)
    return mixture_A / mixture_A.sum()


def checked_role_payoffs(payoffs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The R roles' pay-offs as float tensors of one shape [N_1, …, N_R].

    Raises ValueError for their shapes, DataError (a ValueError too) for a pay-off that is not
    finite.
    """
    tensors = [np.asarray(tensor, dtype=float) for tensor in payoffs]
    shapes = {tensor.shape for tensor in tensors}
    if len(shapes) != 1 or not tensors[0].size or tensors[0].ndim != len(tensors):
        raise ValueError(
            f"payoffs must be {len(tensors)} tensors of one shape, with an axis for "
            f"each role and at least one choice on it; the shapes are {sorted(shapes)}"
        )
    for role, tensor in enumerate(tensors):
        if not np.isfinite(tensor).all():
            cell = tuple(int(i) for i in np.argwhere(~np.isfinite(tensor))[0])
            raise DataError(
                f"payoffs[{role}][{', '.join(map(str, cell))}] is {tensor[cell]}; a "
                "solver needs every pay-off"
            )
    return tensors


def checked_mixtures(
    mixtures: Sequence[np.ndarray], shape: Sequence[int], name: str = "mixtures"
) -> Mixtures:
    """A distribution for each role. Raises ValueError where one is none."""
    if len(mixtures) != len(shape):
        raise ValueError(f"{name} must be {len(shape)}, one for each role")
    return [
        checked_mixture(mixture, size, f"{name}[{role}]")
        for role, (mixture, size) in enumerate(zip(mixtures, shape, strict=True))
    ]


def checked_start(start: Profile | None, shape: tuple[int, int], name: str = "start") -> Profile:
    """The logarithms of both mixtures, uniform where None. Raises ValueError for a chance of 0."""
    rows, columns = shape
    if start is None:
        start = Profile(np.full(rows, 1 / rows), np.full(columns, 1 / columns))
    row_A = checked_mixture(start.row_A, rows, name)
    column_M = checked_mixture(start.column_M, columns, name)
    if min(row_A.min(), column_M.min()) <= 0:
        raise ValueError(
            f"{name} must give every choice a probability above zero: "
            "a choice that has none never gets any"
        )
    return Profile(np.log(row_A), np.log(column_M))


def checked_positive(**numbers: float | None) -> None:
    """Raises ValueError for a number that is neither None nor finite and above zero."""
    for name, number in numbers.items():
        if number is not None and not 0 < number < float("inf"):
            raise ValueError(f"{name} must be a number above zero; it is {number}")


def span(payoff_AM: np.ndarray) -> float:
    """The largest pay-off less the smallest, or 1 when all are equal: the unit of step sizes.

    >>> span(np.array([[3.0, -1.0]])), span(np.zeros((2, 2)))
    (4.0, 1.0)
    """
    return float(np.ptp(payoff_AM)) or 1.0
