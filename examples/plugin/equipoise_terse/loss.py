"""A loss of the preference family."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from equipoise.losses.base import PairBatch
from equipoise.losses.preference import DPO


class Hinge(DPO):
    """Opponent π_ref (1); max(0, 1 − β·residual)."""

    kind: Literal["hinge"] = "hinge"
    beta: float = Field(0.1, gt=0, description="scale of the residual, per nat")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        """The loss of each pair."""
        return torch.relu(1 - self.beta * self.residual_B(batch))
