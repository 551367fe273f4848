"""A game of second thoughts."""

from __future__ import annotations

from typing import Literal

from equipoise.games.base import Ask, Game, Referee
from equipoise.types import Message, Prompt, View


class SecondThoughts(Game):
    """Everyone answers, is asked the same again, and answers anew; the last answer counts."""

    kind: Literal["second_thoughts"] = "second_thoughts"

    @property
    def seats(self) -> tuple[str, ...]:
        """Two seats."""
        return ("1", "2")

    def role(self, seat: str) -> str:
        """Both seats play the same."""
        return "answerer"

    def referee(self, prompt: Prompt) -> Referee:
        """Ask each seat twice."""
        for seat in self.seats:
            first = yield Ask(seat, View(prompt.messages))
            again = (*prompt.messages, Message("assistant", first.text), *prompt.messages)
            yield Ask(seat, View(again))
