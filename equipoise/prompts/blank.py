"""Prompts without a text, for finite games."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.prompts.base import Prompts, PromptSource
from equipoise.types import Prompt, record_id


class Blank(Prompts):
    """Numbered prompts without a text, for games that need nothing but their rules."""

    kind: Literal["blank"] = "blank"
    reuse: bool | Literal["same"] = Field(
        True,
        description="every generation plays the same blanks; false is an error after the first",
    )

    def load(self, folder: Path = Path()) -> PromptSource:
        """`per_generation` blanks, `held_out` and `test` others."""
        return PromptSource(
            self._blanks("train", self.per_generation),
            self._blanks("held_out", self.held_out),
            self._blanks("test", self.test),
        )

    def _blanks(self, part: str, count: int) -> list[Prompt]:
        return [
            Prompt(record_id("blank", part, number), (), {"number": number}, "blank")
            for number in range(count)
        ]
