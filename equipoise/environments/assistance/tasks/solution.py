"""The judge of mathematical tasks: does the response give the right answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from equipoise.environments.assistance.tasks.task_judge import Grade, TaskJudge
from equipoise.judges.rules import Math
from equipoise.types import Prompt


class Solution(TaskJudge):
    """1 where the response gives the right answer, else 0: by math-verify, or as a model says.

    By the rule, a response without mathematics is wrong, so asking back is too.
    """

    kind: Literal["solution"] = "solution"
    text: str = Field("solution", description="the question's template: a file, or a packaged one")
    reference_fact: str | None = Field(
        "answer", description="the fact that holds the right answer, LaTeX or plain"
    )
    timeout: float = Field(
        5.0, gt=0, description="seconds of computing that one comparison by the rule may take"
    )

    def grade_by_rule(self, answers: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """1 or 0 of each (prompt, answer), or why it could not be decided."""
        math = Math(fact=str(self.reference_fact), timeout=self.timeout)
        verdicts = math.scores(answers)
        return [verdict if isinstance(verdict, str) else verdict["score"] for verdict in verdicts]

    def gold(self, prompt: Prompt, text: str) -> str:
        """The right answer."""
        return str(self.fact(prompt))
