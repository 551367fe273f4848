"""A judge that likes few words."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from equipoise.judges.pointwise import Pointwise, Verdict
from equipoise.types import Prompt


class Terse(Pointwise):
    """1 for an answer of at most `words` words, and less for each word more."""

    kind: Literal["terse"] = "terse"
    words: int = Field(10, ge=1, description="most words of the best answer")

    def score(self, prompt: Prompt, text: str) -> Verdict:
        """The share of an answer's words that fit; without words there is nothing to judge."""
        count = len(text.split())
        return {"score": min(1.0, self.words / count)} if count else "the answer holds no word"
