"""RLOO's estimator: the mean of the other answers to the same chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from equipoise.learners.estimators.base import Baselines, Estimator

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch


class LeaveOneOut(Estimator):
    """A = reward − mean of the others in its group. Source: RLOO, arXiv 2402.14740."""

    kind: Literal["leave_one_out"] = "leave_one_out"
    by_group: ClassVar = True

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        """One number an answer."""
        from equipoise.data.advantages import leave_one_out

        advantage_B = leave_one_out(reward_BT.sum(1), batch.group_B)
        return advantage_B[:, None] * batch.mask_BT, dict(baselines)
