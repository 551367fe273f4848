"""The judge of writing tasks: does the text do what the user had in mind, and how near is it to the
ideal one?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.environments.assistance.tasks.task_judge import Grade, TaskJudge
from equipoise.judges.grading import AnswerToGrade
from equipoise.judges.question import Quotes
from equipoise.payoffs.bleu import Unit, text_bleu
from equipoise.types import Prompt


class Writing(TaskJudge):
    """A model's grade from 0 to 4, over 4; the user is paid the text's BLEU to the ideal one.

    The grader sees the chat, what the user really wanted (the fact `request`), and the ideal text.
    By the rule, both are paid the BLEU: no rule reads an intent.
    """

    grades: ClassVar[tuple[float, ...]] = (0.0, 0.25, 0.5, 0.75, 1.0)

    placeholders: ClassVar[tuple[str, ...]] = (*TaskJudge.placeholders, "intent")

    kind: Literal["writing"] = "writing"
    text: str = Field("writing", description="the question's template: a file, or a packaged one")
    high: float = Field(
        4.0, description="the best of five grades that the grader may give; it counts as 1"
    )
    reference_fact: str | None = Field(
        "reference", description="the fact that holds the ideal text"
    )
    bleu: Unit = Field(
        "words", description="what BLEU counts: words, or characters as the released code does"
    )

    def grade_by_rule(self, answers: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """The BLEU of each (prompt, answer) to the ideal text."""
        return [self._bleu(prompt, text) for prompt, text in answers]

    def gold(self, prompt: Prompt, text: str) -> str:
        """The ideal text."""
        return str(self.fact(prompt))

    def utilities(self, prompt: Prompt, text: str, grade: float) -> dict[str, float]:
        """{"score": grade, "user": BLEU}."""
        return {"score": grade, "user": self._bleu(prompt, text)}

    def quotes(self, answer: AnswerToGrade) -> Quotes:
        """The chat as it went, with the intent that it did not say."""
        intent = str(answer.prompt.facts.get("request") or answer.chat)
        return {
            "question": ("request", answer.chat),
            "intent": ("intent", intent),
            "answer": ("answer", answer.text),
        }

    def _bleu(self, prompt: Prompt, text: str) -> float:
        """The BLEU of an answer to the ideal text, in [0, 1]."""
        return text_bleu(text, self.gold(prompt, text), self.bleu)
