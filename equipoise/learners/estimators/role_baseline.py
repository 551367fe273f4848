"""SPIRAL's estimator, for self-play: a moving average of each role's rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from equipoise.learners.estimators.base import Baselines, Estimator

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch


class RoleBaseline(Estimator):
    """A = reward − the moving average of its role's rewards.

    Source: SPIRAL, arXiv 2506.24119, eq. 2.
    """

    kind: Literal["role_baseline"] = "role_baseline"

    role_decay: float = Field(
        0.95, ge=0, lt=1, description="weight of the past in the moving average"
    )

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        """One number an answer; the baselines are the roles' averages."""
        from equipoise.data.advantages import role_baseline

        advantage_B, moved = role_baseline(
            reward_BT.sum(1), batch.roles, baselines, decay=self.role_decay
        )
        return advantage_B[:, None] * batch.mask_BT, moved
