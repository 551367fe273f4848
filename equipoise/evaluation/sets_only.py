"""Measures named sets and nothing else: for models that only answer benchmarks."""

from __future__ import annotations

from typing import Literal

from equipoise.evaluation.base import Arena, Evaluation
from equipoise.evaluation.measures import Measures


class SetsOnly(Evaluation):
    """No held-out prompts are played; what is measured are the named `sets`."""

    kind: Literal["sets"] = "sets"

    def measure(self, arena: Arena, t: int) -> Measures:
        """Nothing: the sets have records of their own."""
        return Measures()
