"""What an estimator is: from the rewards of a batch of moves to their advantages."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from equipoise.component import Component
from equipoise.losses.policy_gradient import Over

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch

Baselines = dict[str, float]


class Estimator(Component):
    """Decides what a move's reward is compared with.

    The class variables are what the learner has to know of the method; the last three are the
    method's usual settings, which those of the learner override.

    needs_critic: whether it reads a critic's values. by_group: whether it compares the moves that
    answer one chat in one role. kl_in: whether the KL penalty is taken off the rewards or added to
    the loss. over: what the loss is a mean over. whitens: whether advantages are brought to mean 0
    and deviation 1 over the batch.
    """

    KINDS: ClassVar = {
        "gae": "equipoise.learners.estimators.gae:GAE",
        "group_relative": "equipoise.learners.estimators.group_relative:GroupRelative",
        "leave_one_out": "equipoise.learners.estimators.leave_one_out:LeaveOneOut",
        "batch": "equipoise.learners.estimators.batch_normalised:BatchNormalised",
        "role_baseline": "equipoise.learners.estimators.role_baseline:RoleBaseline",
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

        batch: the moves; with a critic, `value_BT` holds its values.
        reward_BT: rewards by token, a KL penalty included, 0 outside the mask.
        baselines: numbers that the estimator carries from update to update, {} at
            first; they are stored with the learner's state.
        """
