"""The judge of the built-in world: whether an answer is right, by rule."""

from __future__ import annotations

from typing import Literal

from equipoise.environments.clerk.answers import rate
from equipoise.environments.clerk.world import KINDS
from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.types import Prompt


class ClerkJudge(Pointwise):
    """Scores each seat's last answer 1 (right) or 0.

    `declined`, `asked` and `answered` say what the answer did, 1 or 0. A prompt from another world
    is not judged.
    """

    kind: Literal["clerk"] = "clerk"

    def score(self, prompt: Prompt, text: str) -> Verdict:
        """The utilities of `text`, by `answers.rate`."""
        reason = self.why_unjudgeable(prompt)
        if reason:
            return reason
        rated = rate(prompt, text)
        return {
            "score": float(rated.right),
            "declined": float(rated.action == "decline"),
            "asked": float(rated.action in ("ask", "both")),
            "answered": float(rated.action in ("answer", "both")),
        }

    @property
    def score_range(self) -> tuple[float, float]:
        """0 to 1."""
        return 0.0, 1.0

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """That it is no question of the clerk's world."""
        if prompt.facts.get("kind") not in KINDS or "answer" not in prompt.facts:
            return "the prompt is not of the clerk's world"
        return ""
