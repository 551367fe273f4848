"""What a source of prompts is."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from equipoise.component import Component
from equipoise.types import Prompt


class Prompts(Component):
    """Where prompts come from, and how many a generation plays.

    `held_out` prompts are set aside before anything is trained. Where the source has its own held-out part (a test
    file), that part is used and `held_out` says how many of it.
    """

    KINDS: ClassVar = {
        "blank": "equipoise.prompts.builtin:Blank",
        "world": "equipoise.prompts.builtin:World",
        "files": "equipoise.prompts.files:Files",
        "hub": "equipoise.prompts.hub:Hub",
    }

    per_generation: int = Field(1000, ge=1, description="prompts a generation plays; parts are disjoint")
    held_out: int = Field(200, ge=0, description="at most this many prompts are kept away from training")
    reuse: bool = Field(False, description="start over, newly shuffled, when the prompts run out (else: an error)")

    def load(self, folder: Path = Path()) -> tuple[list[Prompt], list[Prompt] | None]:
        """(all prompts to split, or the training part; the source's own held-out part or None).

        Relative paths are relative to `folder`. Raises DataError naming file and line.
        """
        raise TypeError(f"{type(self).__name__} must define load()")
