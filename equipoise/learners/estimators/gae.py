"""PPO's estimator: a critic's values, token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from equipoise.learners.estimators.base import Baselines, Estimator

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch


class GAE(Estimator):
    """A_t = Σ_k (γλ)^k δ_{t+k} with δ_t = r_t + γ V_{t+1} − V_t.

    Source: generalised advantage estimation, arXiv 1506.02438, eq. 16; in PPO, arXiv
    1707.06347.
    """

    kind: Literal["gae"] = "gae"
    needs_critic: ClassVar = True
    whitens: ClassVar = True

    gamma: float = Field(1.0, gt=0, le=1, description="discount γ from token to token")
    lam: float = Field(0.95, ge=0, le=1, description="λ")
    whiten_rewards: bool = Field(False, description="bring rewards by token to deviation 1")

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        """From `batch.value_BT`."""
        from equipoise.data.advantages import gae, whitened

        if self.whiten_rewards:
            reward_BT = whitened(reward_BT, batch.mask_BT, shift=False)
        advantage_BT = gae(reward_BT, batch.value_BT, batch.mask_BT, self.gamma, self.lam)
        return advantage_BT, dict(baselines)
