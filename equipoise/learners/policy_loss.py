"""The loss of a policy gradient on a part of an optimizer step's moves.

    clipped surrogate + kl · k3 (kl_in: loss) − entropy · H + ½ clipped squares of the
    critic

Each term is a weighted sum over tokens, with the weights of the whole step, so that the sums of its
parts add up to the step's mean.
"""

from __future__ import annotations

import torch

from equipoise.learners.policy_forward import TokenNumbers
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.rollouts import RolloutBatch
from equipoise.losses import kl as kl_estimators
from equipoise.losses import policy_gradient as losses


def policy_loss(
    settings: PolicyGradientSettings,
    kl_weight: float,
    batch: RolloutBatch,
    tokens: TokenNumbers,
    weight_BT: torch.Tensor,
    even_BT: torch.Tensor,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """(the loss, a scalar; its terms and the share of clipped tokens, detached).

    weight_BT: what each token counts in the policy's terms, as `settings.over` says. even_BT: what
    it counts in the critic's and in the share, every token alike.
    """
    old_BT, advantage_BT = batch.old_BT, batch.advantage_BT
    logprob_BT = torch.where(batch.mask_BT, tokens.logprob_BT, old_BT)
    surrogate_BT = losses.clipped(
        logprob_BT,
        old_BT,
        advantage_BT,
        settings.clip,
        settings.clip_high,
        dual_clip=settings.dual_clip,
    )
    terms_BT = {"policy_loss": surrogate_BT}
    if settings.kl and settings.kl_in == "loss":
        divergence_BT = kl_estimators.k3(logprob_BT, batch.reference_BT)
        terms_BT["kl_loss"] = kl_weight * divergence_BT
    if settings.entropy:
        assert tokens.entropy_BT is not None
        terms_BT["entropy_loss"] = -settings.entropy * tokens.entropy_BT
    sums = {name: (term_BT * weight_BT).sum() for name, term_BT in terms_BT.items()}
    loss = torch.stack(list(sums.values())).sum()
    if tokens.value_BT is not None:
        error_BT = losses.clipped_value(
            tokens.value_BT, batch.value_BT, batch.return_BT, settings.value_clip
        )
        sums["value_loss"] = (error_BT * even_BT).sum()
        loss = loss + sums["value_loss"]
    clipped_BT = losses.is_clipped(
        logprob_BT,
        old_BT,
        advantage_BT,
        settings.clip,
        settings.clip_high,
        dual_clip=settings.dual_clip,
    )
    sums["clip_share"] = (clipped_BT.float() * even_BT).sum()
    return loss, {name: value.detach() for name, value in sums.items()}
