"""The judge that is a language model comparing two answers, in both orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from equipoise.judges.asking import Asking, reading
from equipoise.judges.comparing import Comparing, Comparison
from equipoise.judges.quoting import transcript
from equipoise.judges.seated import Reading
from equipoise.judges.verdicts import Unread, choice
from equipoise.players.base import Player
from equipoise.types import View

PROBABILITY: Mapping[str, float] = {"A": 1.0, "B": 0.0, "tie": 0.5}


class Pairwise(Comparing, Asking):
    """Scores each seat by the verdicts of `model` on its answer against each other
    seat's: A, B or tie, both ways.
    """

    needed: ClassVar[tuple[str, ...]] = ("first", "second")
    placeholders: ClassVar[tuple[str, ...]] = (*Asking.placeholders, "first", "second")
    verdict: ClassVar[str] = "verdict"

    kind: Literal["pairwise"] = "pairwise"
    model: Player = Field(description="the judging model, a player that no seat holds")
    text: str = Field(
        default="pairwise",
        description="the question's template: a file, or the packaged one, pairwise",
    )

    def questions(self, seats: int, pool: int) -> int:
        """One for each ordered pair of seats."""
        return seats * (seats - 1)

    def compare(self, questions: Sequence[Comparison]) -> list[Reading]:
        """For each question 1, 0 or ½, or why the verdict could not be read; by one
        batch.
        """
        views = [self._view(question) for question in questions]
        moves = self.judge_context.ask(
            self.model, views, [question.seed for question in questions]
        )
        return [
            reading(move, self._parser(q.seed))
            for q, move in zip(questions, moves, strict=True)
        ]

    def _view(self, question: Comparison) -> View:
        quoted = {
            "question": ("request", transcript(question.messages)),
            "first": ("answer A", question.first),
            "second": ("answer B", question.second),
        }
        return self.view(question.prompt, quoted, question.seed)

    def _parser(self, seed: int) -> Callable[[str], float | Unread]:
        def parse(reply: str) -> float | Unread:
            found = choice(reply, tuple(PROBABILITY), self.code(seed))
            return found if isinstance(found, Unread) else PROBABILITY[found]

        return parse

    def _verdict_schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(PROBABILITY)}
