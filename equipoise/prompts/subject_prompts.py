"""Prompts about subjects, which are dealt whole to training, held-out questions and test."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.prompts.base import Prompts, PromptSource
from equipoise.system.effects import Text
from equipoise.types import Message, Prompt, record_id, user


class DealtPrompts(Prompts):
    """The base of sources that ask the same questions about many subjects.

    The subjects are shuffled by `seed` and dealt by `shares`, so that no two parts share one, and
    what is measured is asked about subjects of which nothing was trained.
    """

    subject: ClassVar[str]  # what a subject is called, in the plural
    shares: ClassVar[tuple[float, float]]  # of training and held-out; the rest is the test's

    system: Text = Field("Answer briefly.", description="the system message; empty: none")
    seed: int = Field(0, ge=0, description="seed of the subjects' order")

    @abstractmethod
    def subjects(self) -> Sequence[str]:
        """All subjects, in an order that never changes."""

    @abstractmethod
    def about(self, subjects: Sequence[str]) -> list[Prompt]:
        """Every question about these subjects, in a drawn order."""

    def load(self, folder: Path = Path()) -> PromptSource:
        """Raises ConfigError where more are held out than there are."""
        subjects = list(self.subjects())
        random.Random(seeds.child(self.seed, self.subject)).shuffle(subjects)
        trained, held = self.shares
        first = round(trained * len(subjects))
        second = round((trained + held) * len(subjects))
        held_out = self.about(subjects[first:second])
        test = self.about(subjects[second:])
        if self.held_out > len(held_out) or self.test > len(test):
            raise ConfigError(
                f"prompts: held_out and test have {len(held_out)} and {len(test)} questions; set "
                "fewer"
            )
        return PromptSource(
            self.about(subjects[:first]), held_out[: self.held_out], test[: self.test]
        )

    def asked(self, text: str, facts: dict[str, Any], source: str = "") -> Prompt:
        """The prompt that asks `text` after the system message; `source`: its data, "" the kind."""
        before = (Message("system", self.system),) if self.system else ()
        name = record_id("prompt", self.system, text)
        return Prompt(name, (*before, user(text)), facts, source or str(self.kind))
