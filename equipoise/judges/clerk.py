"""The judge of the built-in world: right or wrong, by its rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from equipoise.judges.base import Judge
from equipoise.types import Judgement, Match, Prompt
from equipoise.worlds import clerk


class Clerk(Judge):
    """Scores each seat's last answer 1 (right) or 0; `declined`, `asked` and `answered` say what it did, 1 or 0.

    A seat whose move failed is unjudged; so is a match on a prompt from another world.
    """

    kind: Literal["clerk"] = "clerk"

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match, by `worlds.clerk.verdict`."""
        return [self._one(match, prompts[match.prompt]) for match in matches]

    def _one(self, match: Match, prompt: Prompt) -> Judgement:
        if prompt.facts.get("kind") not in clerk.KINDS or "answer" not in prompt.facts:
            return self.judgement(match, None, "the prompt is not of the clerk's world")
        moves = {turn.seat: turn.move for turn in match.turns}
        scores = {seat: _scores(prompt, move.text) for seat, move in moves.items() if move.finish != "error"}
        return self.judgement(match, scores) if scores else self.judgement(match, None, "every move failed")


def _scores(prompt: Prompt, text: str) -> dict[str, float]:
    said = clerk.verdict(prompt, text)
    did = said["action"]
    return {
        "score": float(said["score"]),
        "declined": float(did == "decline"),
        "asked": float(did in ("ask", "both")),
        "answered": float(did in ("answer", "both")),
    }
