"""REINFORCE++'s estimator: the mean and deviation of the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from equipoise.learners.estimators.base import Baselines, Estimator

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch


class BatchNormalised(Estimator):
    """The reward to go, normalised over the tokens of the batch.

    Source: REINFORCE++, arXiv 2501.03262.
    """

    kind: Literal["batch"] = "batch"

    gamma: float = Field(1.0, gt=0, le=1, description="discount γ from token to token")

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        """By token."""
        from equipoise.data.advantages import discounted, whitened

        return_BT = discounted(reward_BT, batch.mask_BT, self.gamma)
        return whitened(return_BT, batch.mask_BT), dict(baselines)
