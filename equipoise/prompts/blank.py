"""Prompts that ask nothing, for finite games."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from equipoise.prompts.base import Prompts, Source
from equipoise.types import Prompt, record_id


class Blank(Prompts):
    """Numbered prompts that ask nothing, for games whose rules are all there is to
    know.
    """

    kind: Literal["blank"] = "blank"
    reuse: bool = Field(
        True,
        description="every generation plays the same blanks; false is an error after the first",
    )

    def load(self, folder: Path = Path()) -> Source:
        """`per_generation` blanks, `held_out` and `test` others."""
        sizes = {
            "train": self.per_generation,
            "held_out": self.held_out,
            "test": self.test,
        }
        return Source(*(self._blanks(part, count) for part, count in sizes.items()))

    def _blanks(self, part: str, count: int) -> list[Prompt]:
        return [
            Prompt(record_id("blank", part, number), (), {"number": number}, "blank")
            for number in range(count)
        ]
