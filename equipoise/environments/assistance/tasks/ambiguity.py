"""The judge of questions that may be ambiguous: is the user asked back, or answered for several
readings, when that is needed, and only then?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.environments.assistance.readings import asks_about, gives_several
from equipoise.environments.assistance.response_action import response_action
from equipoise.environments.assistance.tasks.task_judge import Grade, TaskJudge
from equipoise.judges.grading import AnswerToGrade
from equipoise.judges.question import Quotes
from equipoise.judges.quoting import transcript
from equipoise.types import Prompt


class Ambiguity(TaskJudge):
    """1 where an ambiguous question is met by asking back about it, or by an answer for several of
    its readings, and a clear one by an answer; else 0.

    By the rule, what the response does is read from its words, not from its sense: whether the
    answer is right, or the question back a good one, only a model can say. A question back counts
    where it asks for a meaning, or shares a word of substance with the question or its meanings:
    "How are you today?" does neither. An empty response is neither. `asks` is 1 where the response
    asks something. Source: GTAlign (arXiv 2510.08872), the table of tasks.
    """

    needs_label: ClassVar[bool] = True

    kind: Literal["ambiguity"] = "ambiguity"
    text: str = Field("ambiguity", description="the question's template: a file, or a packaged one")
    reference_fact: str | None = Field(
        "ambiguous", description="the fact that says whether to ask back, true or false"
    )
    follow_up: Literal["asks", "answers", "both"] = Field(
        "asks", description="what an answer with a follow-up question counts as, by the rule"
    )

    def grade_by_rule(self, answers: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """1 or 0 of each (prompt, answer)."""
        return [float(bool(text.strip()) and self._suits(prompt, text)) for prompt, text in answers]

    def gold(self, prompt: Prompt, text: str) -> str:
        """Whether the question is ambiguous, with its meanings or its answer where the facts have
        them.
        """
        meanings, answer = prompt.facts.get("meanings", ""), prompt.facts.get("answer")
        if self._is_ambiguous(prompt):
            return f"The question is ambiguous.\n{meanings}".strip()
        if self.fact(prompt):
            return (
                f"The question was ambiguous; the user was asked, so it is clear now.\n{meanings}"
            ).strip()
        return "The question is clear." + (f" Its answer: {answer}" if answer else "")

    def quotes(self, answer: AnswerToGrade) -> Quotes:
        """The request; from the second turn on, the whole chat."""
        quotes = dict(super().quotes(answer))
        if _turn(answer.prompt) > 1:
            quotes["question"] = ("request", answer.chat)
        return quotes

    def utilities(self, prompt: Prompt, text: str, grade: float) -> dict[str, float]:
        """{"score": grade, "asks": 1 where the response asks something}, and {"right_action": 1}
        where it answers an ambiguous question for several readings.
        """
        utilities = {"score": grade, "asks": float(response_action(text) != "DA")}
        if self._is_ambiguous(prompt) and gives_several(text, _meanings(prompt)):
            utilities["right_action"] = 1.0
        return utilities

    def _is_ambiguous(self, prompt: Prompt) -> bool:
        """Whether to ask back now: at a later turn, once the user has been asked, an answer is
        due.
        """
        return bool(self.fact(prompt)) and _turn(prompt) == 1

    def _suits(self, prompt: Prompt, text: str) -> bool:
        """Whether the response is right for the question, ambiguous or clear."""
        action = response_action(text)
        if not self._is_ambiguous(prompt):
            follow_up = self.follow_up != "asks"
            return action == "DA" or (action == "AQ" and follow_up)
        meanings = _meanings(prompt)
        if gives_several(text, meanings):
            return True
        may_ask = action == "CQ" or (action == "AQ" and self.follow_up != "answers")
        return may_ask and asks_about(text, _question(prompt), meanings)


def _question(prompt: Prompt) -> str:
    """What was asked, without the instructions of a game."""
    return str(prompt.facts.get("request") or transcript(prompt.messages))


def _meanings(prompt: Prompt) -> str:
    return str(prompt.facts.get("meanings") or "")


def _turn(prompt: Prompt) -> int:
    """Which turn of the conversation the response is, from 1."""
    return int(prompt.facts.get("turn", 1))
