"""The judge that is a language model comparing two answers, in both orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.judges.comparing import Comparing, Comparison
from equipoise.judges.question import (
    PLACEHOLDERS,
    Question,
    QuestionSettings,
    Quotes,
    Reading,
    control_tokens_of,
    read_move,
)
from equipoise.judges.quoting import transcript
from equipoise.judges.read_verdict import Unread, read_choice
from equipoise.players.base import Player

PROBABILITY: Mapping[str, float] = {"A": 1.0, "B": 0.0, "tie": 0.5}


class Pairwise(Comparing, QuestionSettings):
    """Scores each seat by the verdicts of `model` on its answer and each other seat's.

    A verdict is A, B or tie; each pair is shown in both orders.
    """

    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "first", "second")

    kind: Literal["pairwise"] = "pairwise"
    model: Player = Field(description="the judging model, a player that no seat holds")
    text: str = Field(
        default="pairwise",
        description="the question's template: a file, or a packaged one (pairwise, or "
        "pairwise_compact for small models)",
    )

    def questions(self, seats: int, pool: int) -> int:
        """One for each ordered pair of seats."""
        return seats * (seats - 1)

    def prepare(self) -> None:
        """Raises DataError for a template that cannot be used."""
        _ = self.question

    @cached_property
    def question(self) -> Question:
        """What the model is asked. Raises DataError."""
        quoted = ("first", "second")
        question = self.question_with(quoted, needed=quoted)
        schema = {"type": "string", "enum": list(PROBABILITY)}
        return replace(question, verdict="verdict", verdict_schema=schema)

    def compare(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question 1, 0 or ½, or why the verdict could not be read; one batch."""
        tokens = control_tokens_of(self.judge_context.actor(self.model))
        views = [
            self.question.view(self._quotes(comparison), comparison.seed, tokens)
            for comparison in questions
        ]
        seeds = [comparison.seed for comparison in questions]
        moves = self.judge_context.ask(self.model, views, seeds)
        return [
            read_move(move, _read, self.question.code(seed))
            for move, seed in zip(moves, seeds, strict=True)
        ]

    def _quotes(self, comparison: Comparison) -> Quotes:
        return {
            "question": ("request", transcript(comparison.messages)),
            "first": ("answer A", comparison.first),
            "second": ("answer B", comparison.second),
            "reference": ("reference", self.reference(comparison.prompt)),
        }


def _read(reply: str, code: str) -> float | Unread:
    """The probability that A wins, as the reply has it."""
    label = read_choice(reply, tuple(PROBABILITY), code, alone=not code)
    return label if isinstance(label, Unread) else PROBABILITY[label]
