"""The judge of choices: does <analyze> name an outcome that the written matrix has
nothing better for both than?
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.payoff_matrix import action_of, write_matrix
from equipoise.environments.assistance.tasks.task_judge import Grade, TaskJudge
from equipoise.environments.assistance.written_game import pareto
from equipoise.judges.grading import AnswerToGrade
from equipoise.judges.question import Quotes
from equipoise.types import Prompt

ACTION = re.compile(r"\b(?:[DV]Q_)?(AQ|CQ|DA)\b")


class Frontier(TaskJudge):
    """Grades the choice of a whole output: 1 where the chosen cell lies on the matrix's
    Pareto frontier, else ½ where a cell with the same answer (DA, CQ or AQ) does, else
    0.

    The move is all four blocks. An output without a readable matrix is unjudged; one
    whose <analyze> chooses nothing is graded 0. Source: GTAlign (arXiv 2510.08872), the
    reward's second published variant.
    """

    grades: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0)

    kind: Literal["frontier"] = "frontier"
    text: str = Field(
        "frontier", description="the question's template: a file, or a packaged one"
    )
    reference_fact: str | None = Field(
        None, max_length=0, description="the reference is the output's own matrix"
    )

    def grade_by_rule(self, answers: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """0, ½ or 1 of each (prompt, whole output)."""
        return [choice_grade(text) for _, text in answers]

    def why_ungradable(self, prompt: Prompt, text: str) -> str:
        """Why the output has no frontier; "" where it has one."""
        if parse(text).matrix is None:
            return "there is no pay-off matrix that could be read"
        return ""

    def gold(self, prompt: Prompt, text: str) -> str:
        """The matrix, and the cells on its frontier."""
        matrix = parse(text).matrix
        assert matrix is not None
        return f"{write_matrix(matrix)}\nOn the frontier: {', '.join(pareto(matrix))}"

    def quotes(self, answer: AnswerToGrade) -> Quotes:
        """The request, and of the output what <analyze> holds."""
        analyze = parse(answer.text).analyze or ""
        return {**super().quotes(answer), "answer": ("answer", analyze)}


def choice_grade(output: str) -> float:
    """1, ½ or 0 of an output with a readable matrix, as in `Frontier`."""
    parsed = parse(output)
    assert parsed.matrix is not None
    best = pareto(parsed.matrix)
    choice = parsed.chosen
    if choice in best:
        return 1.0
    if choice is not None:
        action = action_of(choice)
    else:
        actions = ACTION.findall(parsed.analyze or "")
        if not actions:
            return 0.0
        action = actions[-1]
    return 0.5 if action in map(action_of, best) else 0.0
