"""GRPO's estimator: the other answers to the same chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from equipoise.learners.estimators.base import Baselines, Estimator

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch


class GroupRelative(Estimator):
    """A = (reward − mean of its group) / standard deviation of its group.

    Source: GRPO, arXiv 2402.03300, §4.1.2; without the division Dr. GRPO, arXiv
    2503.20783, §3.2.
    """

    kind: Literal["group_relative"] = "group_relative"
    by_group: ClassVar = True
    kl_in: ClassVar = "loss"
    over: ClassVar = "answer"

    scale_by_group: bool = Field(
        True, description="divide by the group's deviation (not: Dr. GRPO)"
    )

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        """One number an answer."""
        from equipoise.data.advantages import group_relative

        advantage_B = group_relative(reward_BT.sum(1), batch.group_B, scale=self.scale_by_group)
        return advantage_B[:, None] * batch.mask_BT, dict(baselines)
