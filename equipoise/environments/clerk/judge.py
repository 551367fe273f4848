"""The judge of the built-in world: right or wrong, by its rules."""

from __future__ import annotations

from typing import Literal

from equipoise.environments.clerk import world as clerk
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.types import Prompt


class Clerk(Pointwise):
    """Scores each seat's last answer 1 (right) or 0; `declined`, `asked` and `answered`
    say what it did, 1 or 0.

    A prompt from another world is not judged.
    """

    kind: Literal["clerk"] = "clerk"

    def score(self, prompt: Prompt, text: str) -> Verdict:
        """The utilities by `worlds.clerk.verdict`."""
        if prompt.facts.get("kind") not in clerk.KINDS or "answer" not in prompt.facts:
            return "the prompt is not of the clerk's world"
        said = clerk.verdict(prompt, text)
        did = said["action"]
        return {
            "score": float(said["score"]),
            "declined": float(did == "decline"),
            "asked": float(did in ("ask", "both")),
            "answered": float(did in ("answer", "both")),
        }
