"""Everything in the process that plays the run."""

from __future__ import annotations

from typing import Literal

from equipoise.runs.executors.base import Executor


class Here(Executor):
    """No workers."""

    kind: Literal["local"] = "local"

    def open(self) -> None:
        """None."""
        return None
