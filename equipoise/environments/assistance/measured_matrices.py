"""What the matrices that an assistant wrote on held-out prompts say, and whether its choices follow
from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean

from equipoise.environments.assistance.measured_answers import Answers, by_question, mean_point
from equipoise.environments.assistance.payoff_matrix import ACTIONS, CELLS, Cell, question_of
from equipoise.environments.assistance.record import ActualPay, WrittenGames
from equipoise.environments.assistance.written_game import consistent


def written_games(answers: Answers) -> WrittenGames:
    """The readable matrices among these answers: their means, the choices in them, and what the
    actions were really worth.
    """
    with_matrix = [answer for answer in answers if answer.output.matrix is not None]
    means = {question: _mean_matrix(group) for question, group in by_question(with_matrix).items()}
    chosen = Counter(answer.output.chosen or "none" for answer in with_matrix)
    paid = {
        question: pay
        for question, group in by_question(answers).items()
        if (pay := _actual_pay(group))
    }
    return WrittenGames(
        matrices=len(with_matrix),
        means=means,
        chosen=dict(chosen),
        typed=_share_of_true_type(with_matrix),
        paid=paid,
        consistent=_consistency(with_matrix),
    )


def _mean_matrix(answers: Answers) -> dict[str, Cell]:
    matrices = [answer.output.matrix for answer in answers if answer.output.matrix]
    return {
        name: Cell(
            fmean(matrix[name].user for matrix in matrices),
            fmean(matrix[name].llm for matrix in matrices),
        )
        for name in CELLS
    }


def _share_of_true_type(answers: Answers) -> float | None:
    """How often the chosen cell is of the question's true type."""
    true_type = {"detailed": "DQ", "vague": "VQ"}
    known = [
        question_of(answer.output.chosen) == true_type[answer.question]
        for answer in answers
        if answer.output.chosen is not None and answer.question in true_type
    ]
    return fmean(known) if known else None


def _actual_pay(answers: Answers) -> dict[str, ActualPay]:
    """Action -> what it was really worth, of those that were taken."""
    pay = {}
    for action in ACTIONS:
        taken = [answer for answer in answers if answer.utilities[action]]
        if taken:
            user, llm = mean_point(taken)
            pay[action] = ActualPay(user, llm, float(len(taken)))
    return pay


def _consistency(answers: Answers) -> dict[str, float]:
    """Solution -> how often it names the chosen cell, of the choices that were made."""
    by_solution: dict[str, list[bool]] = defaultdict(list)
    for answer in answers:
        for solution, holds in consistent(answer.output).items():
            by_solution[solution].append(holds)
    return {solution: fmean(holds) for solution, holds in by_solution.items()}
