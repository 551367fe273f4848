"""A user's wish and its two forms: detailed and vague."""

from __future__ import annotations

from equipoise.environments.assistance.payoff_matrix import QUESTION_TYPES
from equipoise.types import Prompt


def wish_forms(prompt: Prompt) -> tuple[str, str]:
    """What a simulated user wants, (detailed, vague); "" where there is no vague form."""
    last = prompt.messages[-1].content if prompt.messages else ""
    return str(prompt.facts.get("detailed", last)), str(prompt.facts.get("vague", ""))


def opening_question(move: str, prompt: Prompt) -> str:
    """The question that the user's opening move asks: the detailed wish ("DQ"), the vague one
    ("VQ"), or the move's own text.
    """
    wish, vague = wish_forms(prompt)
    if move in QUESTION_TYPES and vague:
        return wish if move == "DQ" else vague
    return move


def vague_by_move(move: str, prompt: Prompt) -> bool | None:
    """Whether an opening move asks vaguely, by its name or by the text of either form; None for a
    text of its own.
    """
    known = {
        "DQ": False,
        "VQ": True,
        prompt.facts.get("detailed"): False,
        prompt.facts.get("vague"): True,
    }
    return known.get(move)


def vague_by_facts(prompt: Prompt) -> bool | None:
    """Whether the prompt's facts say that its question is vague: `ambiguous`, or `kind` in the
    built-in world; None where they say nothing.
    """
    if "ambiguous" in prompt.facts:
        return bool(prompt.facts["ambiguous"])
    if "kind" in prompt.facts:
        return prompt.facts["kind"] == "vague"
    return None
