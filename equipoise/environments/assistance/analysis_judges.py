"""Judges of <analyze>: does it name an action of the true frontier, as published; or, ours, does
its choice lie there?
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.environments.assistance.blocks import ParsedOutput, parse
from equipoise.environments.assistance.named_actions import named_on_frontier
from equipoise.environments.assistance.payoff_matrix import PayoffMatrix, action_of, write_matrix
from equipoise.environments.assistance.task_judge import Grade, TaskJudge
from equipoise.environments.assistance.written_game import pareto
from equipoise.judges.grading import AnswerToGrade
from equipoise.judges.question import Quotes
from equipoise.types import Prompt

ACTION = re.compile(r"\b(?:[DV]Q_)?(AQ|CQ|DA)\b")


class AnalysisJudge(TaskJudge):
    """Grades what an output's <analyze> says of the matrix that it wrote: 0, ½ or 1.

    The move is all four blocks. An output without a readable matrix is unjudged; one without
    <analyze> is graded 0, and nobody is asked about it.
    """

    grades: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0)

    reference_fact: str | None = Field(
        None, max_length=0, description="the reference is the output's own matrix"
    )

    @abstractmethod
    def grade_of(self, parsed: ParsedOutput, matrix: PayoffMatrix) -> float:
        """The grade by the rule, of an output with this matrix."""

    def grade_by_rule(self, answers: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        grades: list[Grade] = []
        for _, text in answers:
            parsed = parse(text)
            assert parsed.matrix is not None
            grades.append(self.grade_of(parsed, parsed.matrix))
        return grades

    def why_ungradable(self, prompt: Prompt, text: str) -> str:
        if parse(text).matrix is None:
            return "there is no pay-off matrix that could be read"
        return ""

    def plain_grade(self, prompt: Prompt, text: str) -> float | None:
        return None if parse(text).analyze else 0.0

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """Always "": an output is held against its own matrix."""
        return ""

    def gold(self, prompt: Prompt, text: str) -> str:
        matrix = parse(text).matrix
        assert matrix is not None
        return f"{write_matrix(matrix)}\nOn the frontier: {', '.join(pareto(matrix))}"

    def quotes(self, answer: AnswerToGrade) -> Quotes:
        """The request, and of the output the text of <analyze>."""
        analyze = parse(answer.text).analyze or ""
        return {**super().quotes(answer), "answer": ("answer", analyze)}


class Frontier(AnalysisJudge):
    """As published: 1 where <analyze> clearly names at least one action of the true frontier, ½
    where it only implies one or stresses wrong ones more, else 0.

    Source: GTAlign (arXiv 2510.08872), the reward's second published variant; by the rule,
    `named_on_frontier`.
    """

    kind: Literal["frontier"] = "frontier"
    text: str = Field("frontier", description="the question's template: a file, or a packaged one")

    def grade_of(self, parsed: ParsedOutput, matrix: PayoffMatrix) -> float:
        return named_on_frontier(parsed.analyze, pareto(matrix))


class Choice(AnalysisJudge):
    """Ours: 1 where the outcome that <analyze> chooses lies on the matrix's frontier, else ½ where
    an outcome with the same action does, else 0.

    To list the frontier rightly and then to choose another outcome is worth nothing here; as
    published it may be worth 1.
    """

    kind: Literal["chosen_outcome"] = "chosen_outcome"
    text: str = Field("choice", description="the question's template: a file, or a packaged one")

    def grade_of(self, parsed: ParsedOutput, matrix: PayoffMatrix) -> float:
        """The grade of the chosen outcome, or of the action that is named last where
        none is chosen.
        """
        best = pareto(matrix)
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
