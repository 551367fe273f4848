"""What of a run's records its measures may show beside their own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.types import Judgement, Match, Prompt


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A finished stage: its key, and what it recorded; `stage` is its kind: "episodes", "learn",
    "turn" …
    """

    key: str
    generation: int
    stage: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Matches drawn at random, with all judgements of them; `total` is how many matches the run
    holds.
    """

    matches: Sequence[Match] = ()
    judgements: Sequence[Judgement] = ()
    total: int = 0

    @property
    def scale(self) -> float:
        """How many matches of the run each of these stands for."""
        return self.total / len(self.matches) if self.matches else 1.0


@dataclass(frozen=True, slots=True)
class Records:
    """The run's finished stages in order, a sample of its matches, and their prompts by id."""

    stages: Sequence[StageRecord] = ()
    sample: Sample = field(default_factory=Sample)
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
