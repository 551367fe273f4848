"""Scripted players of the assistant's game on the clerk's questions.

`teacher` writes the four blocks, `customer` is a user who opens the conversation. Both are
functions for a scripted player's `call`.
"""

from __future__ import annotations

import re

from equipoise import seeds
from equipoise.environments.clerk.assistance_trace import Faults, trace
from equipoise.errors import DataError
from equipoise.types import View

TEACHING = Faults(plain=0.5, rambling=0.3, equal=0.3)


def teacher(view: View, seed: int) -> str:
    """A rule-based teacher: right in move and form, its brevity and help vary by seed."""
    return trace(view.messages, seeds.generator(seed, "desk", "teacher"), TEACHING)


def customer(view: View, seed: int) -> str:
    """A rule-based user: opens with "DQ" or "VQ" by seed, and answers what it is asked.

    It reads the lines "Wish: …", "Vague: …", "Told: …" and "Assistant: …" of its view's last
    message. Raises DataError where there is no wish.
    """
    text = view.messages[-1].content if view.messages else ""
    lines = dict(re.findall(r"^(Wish|Vague|Told|Assistant): (.*)$", text, re.MULTILINE))
    if "Wish" not in lines:
        raise DataError(
            "the clerk's customer: its view has no line 'Wish: …'; it plays the user in "
            "the game `assistance` with `simulated: true`"
        )
    if "Assistant" in lines:
        return lines.get("Told") or lines["Wish"]
    if not view.actions and "Vague" not in lines:
        return lines["Wish"]
    return ("DQ", "VQ")[seeds.generator(seed, "desk", "customer").integers(2)]
