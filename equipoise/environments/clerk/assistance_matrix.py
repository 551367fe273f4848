"""The pay-offs that the rule-based clerk writes into its four blocks.

They are a few drawn matrices, in which the chosen cell has the largest sum.
"""

from __future__ import annotations

import numpy as np

from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, PayoffMatrix

# By the cell that is right: (user, llm) of the cells DQ_AQ DQ_CQ DQ_DA VQ_AQ VQ_CQ VQ_DA. In the
# second matrix of each, the model would gain by another move, so that two cells are on the front.
DRAWN: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "DQ_DA": (
        ((2.5, 1.5), (-0.5, 1.0), (4.0, 3.5), (1.0, 0.5), (2.0, 1.5), (-1.5, -0.5)),
        ((2.0, 1.0), (0.5, 3.0), (4.0, 2.5), (1.0, 1.5), (1.5, 2.0), (-1.0, 0.5)),
    ),
    "VQ_CQ": (
        ((1.0, 0.5), (-0.5, 0.5), (2.5, 2.0), (2.0, 1.0), (3.5, 4.0), (-2.0, -1.0)),
        ((1.5, 0.5), (0.5, 1.0), (2.0, 2.5), (3.0, 1.0), (2.5, 4.0), (-1.5, 0.5)),
    ),
}
NOISE = 2  # tenths, either way


def matrix(cell: str, dice: np.random.Generator, equal: float = 0.0) -> PayoffMatrix:
    """A matrix in which `cell` has the largest sum of all.

    With probability `equal` a cell gives both sides one value. Where another cell is right for the
    type of question, the two change places. The least sums lie 0.7 below the largest.
    """
    best = "VQ_CQ" if cell.startswith("VQ") else "DQ_DA"
    values = dict(zip(CELLS, DRAWN[best][dice.integers(2)], strict=True))
    values[cell], values[best] = values[best], values[cell]
    drawn: dict[str, Cell] = {}
    for name, pair in values.items():
        noise, same = dice.integers(-NOISE, NOISE + 1, 2) / 10, dice.random() < equal
        user, llm = (
            round(float(value + shift), 1) for value, shift in zip(pair, noise, strict=True)
        )
        if same:
            # Upwards for the chosen cell and downwards for others: it stays the best.
            user = llm = max(user, llm) if name == cell else min(user, llm)
        drawn[name] = Cell(user, llm)
    return drawn


def front(values: PayoffMatrix) -> list[str]:
    """The cells that no other one beats: as good for both sides, and better for one."""
    return [
        name
        for name, cell in values.items()
        if not any(_beats(other, cell) for other in values.values())
    ]


def _beats(other: Cell, cell: Cell) -> bool:
    return other.user >= cell.user and other.llm >= cell.llm and other != cell
