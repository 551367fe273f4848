"""Prompts for games that bring their own text: numbered deals."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.prompts.base import Prompts, PromptSource
from equipoise.types import Prompt, record_id


class Deals(Prompts):
    """Deals without a text: a game takes its cards, dice and words from each one's number. The
    generations play different ones; all members of a league are measured on the same.
    """

    kind: Literal["deals"] = "deals"
    count: int = Field(5000, ge=1, description="deals to train on")
    reuse: bool | Literal["same"] = Field(
        True,
        description="true: start over, newly shuffled, when the deals run out; same: "
        "every generation plays the same; false: too few are an error",
    )

    def load(self, folder: Path = Path()) -> PromptSource:
        """`count` deals, `held_out` and `test` others."""
        return PromptSource(
            _deals("train", self.count),
            _deals("held_out", self.held_out),
            _deals("test", self.test),
        )


def _deals(part: str, count: int) -> list[Prompt]:
    return [
        Prompt(record_id("deal", part, number), (), {"deal": number}, "deals")
        for number in range(count)
    ]
