"""What a batch of moves is worth to a learner: rewards by token, and by the estimator
their advantages and returns.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from equipoise.data import advantages
from equipoise.errors import NoSignal
from equipoise.learners.policy_gradient import PolicyGradient
from equipoise.learners.rollouts import Rollouts
from equipoise.losses import kl as kls

Baselines = dict[str, float]


def estimated(
    settings: PolicyGradient, batch: Rollouts, kl: float, baselines: Mapping[str, float]
) -> tuple[torch.Tensor, torch.Tensor, Baselines]:
    """(advantage_BT to learn by, return_BT for the critic, the roles' baselines
    afterwards).

    `kl` is the weight of the KL now. Advantages are whitened where the settings say so;
    returns are of those that are not, and mean nothing without a critic. Raises
    NoSignal where moves are compared with their group and every group is of one move.
    """
    if settings.estimator in ("group_relative", "leave_one_out") and len(
        batch.group_B.unique()
    ) == len(batch):
        raise NoSignal(
            f"learner.estimator: {settings.estimator} compares moves that answer one chat, and here no two of "
            f"{len(batch)} do; raise game.samples, game.answers, game.rewrites or schedule.samples, or take another "
            "estimator"
        )
    mask_BT = batch.mask_BT
    plain_BT, after = _advantages(
        settings, batch, rewards(settings, batch, kl), baselines
    )
    return_BT = (
        (plain_BT + batch.value_BT) * mask_BT
        if settings.critic is not None
        else plain_BT
    )
    advantage_BT = (
        advantages.whitened(plain_BT, mask_BT)
        if settings.whiten_advantages
        else plain_BT
    )
    return advantage_BT, return_BT, after


def rewards(settings: PolicyGradient, batch: Rollouts, kl: float) -> torch.Tensor:
    """reward_BT: the pay-off on each move's last token, less kl · (log π − log π_ref)
    where `kl_in` is reward.
    """
    reward_BT = batch.terminal()
    if settings.kl and settings.kl_in == "reward":
        reward_BT = (
            reward_BT - kl * kls.k1(batch.old_BT, batch.reference_BT) * batch.mask_BT
        )
    return reward_BT


def _advantages(
    settings: PolicyGradient,
    batch: Rollouts,
    reward_BT: torch.Tensor,
    baselines: Mapping[str, float],
) -> tuple[torch.Tensor, Baselines]:
    mask_BT, after = batch.mask_BT, dict(baselines)
    if settings.estimator == "gae":
        if settings.whiten_rewards:
            reward_BT = advantages.whitened(reward_BT, mask_BT, shift=False)
        return advantages.gae(
            reward_BT, batch.value_BT, mask_BT, settings.gamma, settings.lam
        ), after
    if settings.estimator == "batch":
        return advantages.whitened(
            advantages.discounted(reward_BT, mask_BT, settings.gamma), mask_BT
        ), after
    reward_B = reward_BT.sum(1)
    if settings.estimator == "group_relative":
        advantage_B = advantages.group_relative(
            reward_B, batch.group_B, scale=settings.scale_by_group
        )
    elif settings.estimator == "leave_one_out":
        advantage_B = advantages.leave_one_out(reward_B, batch.group_B)
    else:
        advantage_B, after = advantages.role_baseline(
            reward_B, batch.roles, after, decay=settings.role_decay
        )
    return advantage_B[:, None] * mask_BT, after
