"""The outcome of a written game that an answer goes on with.

Source: GTAlign (arXiv 2510.08872), steering at inference.
"""

from __future__ import annotations

import numpy as np

from equipoise.component import nearest
from equipoise.environments.assistance import written_game
from equipoise.environments.assistance.payoff_matrix import PayoffMatrix
from equipoise.errors import ConfigError
from equipoise.payoffs.welfare import Welfare

BY = ("welfare", "sum", "product", "product_released", "nash", "stackelberg", "bargaining")


def check_choice(by: str | Welfare) -> None:
    """Raises ConfigError unless outcomes can be chosen `by` this."""
    known = (*BY, *Welfare.KINDS)
    if isinstance(by, str) and by not in known:
        raise ConfigError(f"unknown choice '{by:.40}'; {nearest(by, list(known))}")


def selection(
    matrix: PayoffMatrix, by: str | Welfare, dice: np.random.Generator, question: str | None = None
) -> str:
    """The cell of `matrix` to go on with.

    welfare (Cobb–Douglas), a welfare's kind or a `Welfare`
                      the largest, of equals the largest sum
    sum               the largest sum, of equals the user's best
    product           the largest product among cells good for both; without any, the
                      largest sum
    product_released  the largest product whatever the signs, as published; ties at
                      random
    nash              an equilibrium: of pure ones that of the largest sum; without any,
                      drawn from a mixed one
    stackelberg       where the assistant, who leads, would end up
    bargaining        the Nash bargaining solution; without an agreement, the largest
                      sum

    question: "DQ" or "VQ" where the question has been asked, so that three cells are left (nash and
    stackelberg are the assistant's best reply then); None: all six. dice: for ties and mixtures.
    Raises ConfigError for another `by` or `question`.
    """
    names = written_game.outcomes(question)
    if not names:
        raise ConfigError(f"question: must be DQ, VQ or none; it is {question!r:.40}")
    try:
        check_choice(by)
    except ConfigError as error:
        raise ConfigError(f"by: {error}") from error
    match by:
        case "sum":
            return written_game.largest_sum(matrix, question)
        case "product":
            return written_game.largest_product(matrix, question)
        case "product_released":
            tied = largest_products(matrix, question)
            return tied[int(dice.integers(len(tied)))]
        case "nash":
            return _equilibrium(matrix, question, dice)
        case "stackelberg":
            return written_game.stackelberg_outcome(matrix, question)
        case "bargaining":
            agreement = written_game.bargaining_outcome(matrix, question)
            return agreement or written_game.largest_sum(matrix, question)
    return _best_welfare(matrix, _welfare(by), names)


def _welfare(by: str | Welfare) -> Welfare:
    if isinstance(by, Welfare):
        return by
    return Welfare.build("cobb_douglas" if by == "welfare" else by)


def largest_products(matrix: PayoffMatrix, question: str | None = None) -> tuple[str, ...]:
    """The cells of the largest user · LLM, whatever the signs: two negatives make a large one."""
    products = {
        name: matrix[name].user * matrix[name].llm for name in written_game.outcomes(question)
    }
    most = max(products.values())
    return tuple(name for name, product in products.items() if product == most)


def _best_welfare(matrix: PayoffMatrix, welfare: Welfare, names: tuple[str, ...]) -> str:
    user_N, llm_N = np.array([matrix[name] for name in names], float).T
    value_N = np.round(welfare.value(user_N, llm_N), written_game.DIGITS)
    tied = [names[n] for n in np.flatnonzero(value_N == value_N.max())]
    return max(tied, key=lambda name: written_game.precedence(matrix, name))


def _equilibrium(matrix: PayoffMatrix, question: str | None, dice: np.random.Generator) -> str:
    cells = written_game.nash(matrix, question)
    if cells:
        return max(cells, key=lambda name: written_game.precedence(matrix, name))
    strategies = written_game.mixed(matrix)[0]
    # The outcomes in order: by type of question, then by action.
    chance_N = np.outer(strategies.row_A, strategies.column_M).ravel()
    drawn = dice.choice(len(chance_N), p=chance_N / chance_N.sum())
    return written_game.outcomes()[int(drawn)]
