"""The judge of questions that may be ambiguous: is the user asked back when that is
needed, and only then?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from equipoise.environments.assistance.response_action import response_action
from equipoise.environments.assistance.tasks.base import Grade, Task, why_no_label
from equipoise.types import Prompt


class Ambiguity(Task):
    """1 where an ambiguous question is met by asking back and a clear one by an answer,
    else 0.

    By the rule, what the response does is read from its form, not from its sense:
    whether the answer is right, or the question back a good one, only a model can say.
    An empty response does neither. `asks` is 1 where the response asks something.
    """

    kind: Literal["ambiguity"] = "ambiguity"
    text: str = Field(
        "ambiguity", description="the question's template: a file, or a packaged one"
    )
    reference_fact: str | None = Field(
        "ambiguous", description="the fact that says whether to ask back, true or false"
    )
    follow_up: Literal["asks", "answers", "both"] = Field(
        "asks",
        description="what an answer with a follow-up question counts as, by the rule",
    )

    def rule(self, asked: Sequence[tuple[Prompt, str]]) -> list[Grade]:
        """1 or 0 of each (prompt, answer)."""
        return [
            float(bool(text.strip()) and self._ambiguous(prompt) in self._does(text))
            for prompt, text in asked
        ]

    def lacking(self, prompt: Prompt, text: str) -> str:
        """Why the answer cannot be judged; "" where the fact is true or false."""
        return why_no_label(self, prompt)

    def gold(self, prompt: Prompt, text: str) -> str:
        """Whether the question is ambiguous, with its meanings or its answer where the
        facts have them.
        """
        if self.fact(prompt):
            said = (
                "is ambiguous."
                if self._ambiguous(prompt)
                else "was ambiguous; the user was asked, so it is clear now."
            )
            return f"The question {said}\n{prompt.facts.get('meanings', '')}".strip()
        answer = prompt.facts.get("answer")
        return "The question is clear." + (f" Its answer: {answer}" if answer else "")

    def shown(self, prompt: Prompt, text: str, chat: str) -> dict[str, tuple[str, str]]:
        """The request, or the whole chat once something was said about it."""
        return {
            **super().shown(prompt, text, chat),
            **({"question": ("request", chat)} if _turn(prompt) > 1 else {}),
        }

    def paid(self, prompt: Prompt, text: str, grade: float) -> dict[str, float]:
        """{"score": grade, "asks": 1 where the response asks something}."""
        return {"score": grade, "asks": float(response_action(text) != "DA")}

    def _ambiguous(self, prompt: Prompt) -> bool:
        """Whether to ask back now: once the user has been asked, at a later turn, an
        answer is due.
        """
        return bool(self.fact(prompt)) and _turn(prompt) == 1

    def _does(self, text: str) -> tuple[bool, ...]:
        """The questions that the response is right for: ambiguous (True), clear
        (False), or both.
        """
        move = response_action(text)
        if move == "AQ":
            return {"asks": (True,), "answers": (False,), "both": (True, False)}[
                self.follow_up
            ]
        return (move == "CQ",)


def _turn(prompt: Prompt) -> int:
    """Which turn of the conversation the response is, from 1."""
    return int(prompt.facts.get("turn", 1))
