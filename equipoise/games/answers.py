"""The game of answers: every seat answers the same prompt, once, at the same time."""

from typing import ClassVar, Literal

from pydantic import Field

from equipoise.games.base import Ask, Game, Referee
from equipoise.types import Prompt, View


class Answers(Game):
    """`samples` seats answer the prompt, all of one player or shared out."""

    needs_text: ClassVar = True
    kind: Literal["answers"] = "answers"
    samples: int = Field(4, ge=1, description="answers to each prompt, one a seat")

    @property
    def seats(self) -> tuple[str, ...]:
        return tuple(str(i + 1) for i in range(self.samples))

    def role(self, seat: str) -> str:
        return "answer"

    def referee(self, prompt: Prompt) -> Referee:
        """Ask all seats at once; none sees another's answer."""
        yield [Ask(seat, View(prompt.messages)) for seat in self.seats]
