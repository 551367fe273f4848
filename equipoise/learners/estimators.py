"""Estimators of advantages: from the rewards of a batch of moves to what each token is worth."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from equipoise.component import Component
from equipoise.losses.surrogate import Over

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch

Baselines = dict[str, float]


class Estimator(Component):
    """Decides what a move's reward is compared with.

    Class variables: needs_critic: it reads a critic's values. by_group: it compares the moves that
    answer one chat in one role. Defaults of the learner's settings: kl_in: the KL penalty is taken
    off the rewards or added to the loss. over: what the loss is a mean over. whitens: advantages
    are brought to mean 0 and deviation 1 over the batch.
    """

    KINDS: ClassVar = {
        "gae": "equipoise.learners.estimators:GAE",
        "group_relative": "equipoise.learners.estimators:GroupRelative",
        "leave_one_out": "equipoise.learners.estimators:LeaveOneOut",
        "batch": "equipoise.learners.estimators:BatchNormalised",
        "role_baseline": "equipoise.learners.estimators:RoleBaseline",
    }

    needs_critic: ClassVar[bool] = False
    by_group: ClassVar[bool] = False
    kl_in: ClassVar[Literal["reward", "loss"]] = "reward"
    over: ClassVar[Over] = "token"
    whitens: ClassVar[bool] = False

    @abstractmethod
    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        """(advantage_BT, the baselines to pass at the next update).

        batch: with a critic, `value_BT` holds its values. reward_BT: rewards by token, a KL penalty
        included, 0 outside the mask. baselines: stored with the learner's state, {} at first.
        """


class GAE(Estimator):
    """A_t = Σ_k (γλ)^k δ_{t+k} with δ_t = r_t + γ V_{t+1} − V_t, V a critic's values.

    Source: generalised advantage estimation, arXiv 1506.02438, eq. 16; in PPO, arXiv 1707.06347.
    """

    kind: Literal["gae"] = "gae"
    needs_critic: ClassVar = True
    whitens: ClassVar = True

    gamma: float = Field(1.0, gt=0, le=1, description="discount γ from token to token")
    lam: float = Field(
        0.95, ge=0, le=1, description="λ of GAE: 1 takes whole returns, 0 one step and the critic"
    )
    whiten_rewards: bool = Field(False, description="bring rewards by token to deviation 1")

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        from equipoise.data.advantages import gae, whiten

        if self.whiten_rewards:
            reward_BT = whiten(reward_BT, batch.mask_BT, shift=False)
        advantage_BT = gae(reward_BT, batch.value_BT, batch.mask_BT, self.gamma, self.lam)
        return advantage_BT, dict(baselines)


class GroupRelative(Estimator):
    """A = (reward − mean of its group) / standard deviation of its group, one number an answer.

    Source: GRPO, arXiv 2402.03300, §4.1.2; without the division Dr. GRPO, arXiv 2503.20783, §3.2.
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
        from equipoise.data.advantages import group_relative

        advantage_B = group_relative(reward_BT.sum(1), batch.group_B, scale=self.scale_by_group)
        return advantage_B[:, None] * batch.mask_BT, dict(baselines)


class LeaveOneOut(Estimator):
    """A = reward − mean of the others in its group (RLOO, arXiv 2402.14740)."""

    kind: Literal["leave_one_out"] = "leave_one_out"
    by_group: ClassVar = True

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        from equipoise.data.advantages import leave_one_out

        advantage_B = leave_one_out(reward_BT.sum(1), batch.group_B)
        return advantage_B[:, None] * batch.mask_BT, dict(baselines)


class BatchNormalised(Estimator):
    """The reward to go less its mean over a batch's tokens, which the learner brings to deviation
    1 where it whitens (REINFORCE++, arXiv 2501.03262)."""

    kind: Literal["batch"] = "batch"
    whitens: ClassVar = True

    gamma: float = Field(1.0, gt=0, le=1, description="discount γ from token to token")

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        from equipoise.data.advantages import centred, reward_to_go

        return_BT = reward_to_go(reward_BT, batch.mask_BT, self.gamma)
        return centred(return_BT, batch.mask_BT), dict(baselines)


class RoleBaseline(Estimator):
    """A = reward − the moving average of its role's rewards, one number an answer.

    The baselines are the roles' averages. Source: SPIRAL, arXiv 2506.24119, eq. 2.
    """

    kind: Literal["role_baseline"] = "role_baseline"

    role_decay: float = Field(
        0.95, ge=0, lt=1, description="weight of the past in the moving average"
    )

    def advantages(
        self, batch: RolloutBatch, reward_BT: torch.Tensor, baselines: Baselines
    ) -> tuple[torch.Tensor, Baselines]:
        from equipoise.data.advantages import role_baseline

        advantage_B, moved = role_baseline(
            reward_BT.sum(1), batch.roles, baselines, decay=self.role_decay
        )
        return advantage_B[:, None] * batch.mask_BT, moved
