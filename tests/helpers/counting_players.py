"""Scripted answers that count how often they are asked for, and a judge of two."""

from typing import Literal

from equipoise.judges.pairwise import Comparing
from equipoise.judges.question import Reading
from equipoise.types import View

ASKED: list[tuple[str, ...]] = []  # the texts of each chat that was answered


def adds(view: View, seed: int) -> str:
    """The sum that the last message asks for, `2+3`; every message is answered."""
    ASKED.append(tuple(message.content for message in view.messages))
    text = view.messages[-1].content
    return str(sum(map(int, text.split("+")))) if "+" in text else text.upper()


def guesses(view: View, seed: int) -> str:
    """A wrong sum."""
    ASKED.append(tuple(message.content for message in view.messages))
    return "7"


class Larger(Comparing):
    """The larger number wins."""

    kind: Literal["larger"] = "larger"

    def answer(self, questions):
        values = [float(int(q.first) > int(q.second)) for q in questions]
        return [Reading(value) for value in values]
