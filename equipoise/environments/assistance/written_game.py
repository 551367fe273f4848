"""Solutions of a written pay-off matrix, and consistency of the choice with them.

The user picks the row (detailed or vague question), the assistant the column (answer, clarifying
question, or both). Two views: all six outcomes, and the three given the question's type. Source:
GTAlign (arXiv 2510.08872), section 3, for the game; the solvers for the solutions.
"""

import numpy as np

from equipoise.environments.assistance.blocks import ParsedOutput
from equipoise.environments.assistance.payoff_matrix import (
    ACTIONS,
    CELLS,
    QUESTION_TYPES,
    PayoffMatrix,
    cell_name,
    question_of,
)
from equipoise.payoffs.pareto import front
from equipoise.payoffs.welfare import nash_bargaining
from equipoise.solvers import bimatrix

# Ends the name of a solution of the game in which the user has moved.
GIVEN = "_given_question"
DIGITS = 9  # sums and products of one-decimal numbers that differ by less are equal


def outcomes(question: str | None = None) -> tuple[str, ...]:
    """The six outcomes, or the three that are left once the question is "DQ" or "VQ"."""
    return tuple(name for name in CELLS if question in (None, question_of(name)))


def tables(matrix: PayoffMatrix) -> tuple[np.ndarray, np.ndarray]:
    """(user_TA, llm_TA): pay-offs by question and action, in units of each side's largest."""
    points_N2 = _points(matrix, CELLS)
    points_N2 = points_N2 / _unit(points_N2)
    # CELLS are ordered by type, then by action.
    user_TA, llm_TA = points_N2.T.reshape(2, len(QUESTION_TYPES), len(ACTIONS))
    return user_TA, llm_TA


def permuted(matrix: PayoffMatrix, shift: int) -> PayoffMatrix:
    """The pay-offs of each action given to the action `shift` places on, of either type of
    question.
    """
    return {
        cell_name(question, ACTIONS[(place + shift) % len(ACTIONS)]): matrix[
            cell_name(question, action)
        ]
        for question in QUESTION_TYPES
        for place, action in enumerate(ACTIONS)
    }


def pareto(matrix: PayoffMatrix, question: str | None = None) -> tuple[str, ...]:
    """The outcomes that no other is better than for one side without being worse for the other."""
    names = outcomes(question)
    return tuple(names[n] for n in front(_points(matrix, names)))


def largest_sum(matrix: PayoffMatrix, question: str | None = None) -> str:
    """The outcome with the largest user + LLM, of equal ones the user's best, then the LLM's."""
    return max(outcomes(question), key=lambda name: precedence(matrix, name))


def largest_product(matrix: PayoffMatrix, question: str | None = None) -> str:
    """The outcome with the largest user · LLM of those with both above 0; else the largest sum."""
    names = outcomes(question)
    scaled_N2 = _points(matrix, names) / _unit(_points(matrix, CELLS))
    product_N = nash_bargaining(*scaled_N2.T).round(DIGITS)
    products = dict(zip(names, product_N, strict=True))
    return max(names, key=lambda name: (products[name], precedence(matrix, name)))


def nash(matrix: PayoffMatrix, question: str | None = None) -> tuple[str, ...]:
    """The outcomes from which neither side gains alone; given the question, the best replies."""
    user_TA, llm_TA = tables(matrix)
    if question is None:
        return tuple(_name(t, a) for t, a in bimatrix.pure_equilibria(user_TA, llm_TA))
    t = QUESTION_TYPES.index(question)
    best = np.flatnonzero(llm_TA[t] == llm_TA[t].max())
    return tuple(_name(t, int(a)) for a in best)


def mixed_equilibria(matrix: PayoffMatrix) -> list[bimatrix.Equilibrium]:
    """All extreme equilibria: rows QUESTION_TYPES, columns ACTIONS, values as in `tables`."""
    return bimatrix.equilibria(*tables(matrix))


def stackelberg_outcome(matrix: PayoffMatrix, question: str | None = None) -> str:
    """The outcome where the assistant commits to an action, and the user asks as suits it best.

    Given the question, the assistant does what is best for itself.
    """
    if question is not None:
        return max(nash(matrix, question), key=lambda name: precedence(matrix, name))
    user_TA, llm_TA = tables(matrix)
    committed = bimatrix.pure_commitment(llm_TA.T, user_TA.T)
    return _name(committed.reply, int(committed.leader_A.argmax()))


def bargaining_outcome(matrix: PayoffMatrix, question: str | None = None) -> str | None:
    """The Nash bargaining solution, None where each outcome is a loss to one side.

    A loss against what that side can secure by itself in the whole game.
    """
    names = outcomes(question)
    points_N2 = _points(matrix, names) / _unit(_points(matrix, CELLS))
    threat = bimatrix.maxmin(*tables(matrix))
    agreement = bimatrix.pure_agreement(points_N2, threat)
    return None if agreement is None else names[int(agreement.weight_N.argmax())]


def solutions(matrix: PayoffMatrix, question: str | None = None) -> dict[str, tuple[str, ...]]:
    """Solution -> the outcomes that it names, perhaps none.

    front, sum, product, nash, nash_mixed (whole game only), stackelberg, bargaining.
    """
    agreement = bargaining_outcome(matrix, question)
    named = {
        "front": pareto(matrix, question),
        "sum": (largest_sum(matrix, question),),
        "product": (largest_product(matrix, question),),
        "nash": nash(matrix, question),
        "stackelberg": (stackelberg_outcome(matrix, question),),
        "bargaining": () if agreement is None else (agreement,),
    }
    if question is None:
        joint = [np.outer(mix.row_A, mix.column_M) for mix in mixed_equilibria(matrix)]
        chance_TA = np.sum(joint, axis=0)
        named["nash_mixed"] = tuple(_name(t, a) for t, a in np.argwhere(chance_TA > 0))
    return named


def consistency(parsed: ParsedOutput) -> dict[str, bool]:
    """Solution -> True if it names the outcome chosen; with `GIVEN`, given its question."""
    if parsed.matrix is None or parsed.chosen is None:
        return {}
    named = solutions(parsed.matrix)
    given = solutions(parsed.matrix, question_of(parsed.chosen))
    named |= {f"{name}{GIVEN}": cells for name, cells in given.items()}
    return {name: parsed.chosen in cells for name, cells in named.items() if cells}


def _points(matrix: PayoffMatrix, names: tuple[str, ...]) -> np.ndarray:
    return np.array([matrix[name] for name in names], float)


def _unit(points_N2: np.ndarray) -> np.ndarray:
    """Each side's largest pay-off, unsigned: units in which no product overflows."""
    largest_2 = np.abs(points_N2).max(axis=0)
    return np.where(largest_2 > 0, largest_2, 1.0)


def precedence(matrix: PayoffMatrix, name: str) -> tuple[float, float, float]:
    """The order of outcomes where nothing else decides: the sum, the user's, the LLM's."""
    user, llm = matrix[name]
    return round(float(user) + float(llm), DIGITS), user, llm


def _name(t: int, a: int) -> str:
    return cell_name(QUESTION_TYPES[t], ACTIONS[a])
