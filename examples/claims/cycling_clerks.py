"""Three rubrics on what an answer does, whose majority goes round: asking back beats helping,
helping beats declining, declining beats asking back.
"""

from __future__ import annotations

from equipoise.environments.clerk.clerk_answers import action
from equipoise.types import Prompt

ROUND = ("ask", "answer", "decline")  # each is preferred to the next by two of the three


def _grade(prompt: Prompt, text: str, first: int) -> float:
    """3, 2 and 1 for the actions in their order from `first` on; 0 for any other."""
    order = (*ROUND[first:], *ROUND[:first])
    does = action(prompt, text)
    return float(len(order) - order.index(does)) if does in order else 0.0


def asks(prompt: Prompt, text: str) -> float:
    """Ask, help, decline."""
    return _grade(prompt, text, 0)


def helps(prompt: Prompt, text: str) -> float:
    """Help, decline, ask."""
    return _grade(prompt, text, 1)


def declines(prompt: Prompt, text: str) -> float:
    """Decline, ask, help."""
    return _grade(prompt, text, 2)
