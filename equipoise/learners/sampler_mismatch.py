"""The distance between the engine that sampled a batch and the policy that learns from it, and the
importance weights that correct it.

    ratio_BT   π_old(token) / μ(token), μ the distribution that was sampled from

Two implementations of one model round differently, so an engine's samples come from another
distribution than the learner's, by a little at each token. Weighing each token's advantage by the
ratio makes the update unbiased; bounding the ratio keeps rare tokens from ruling it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from equipoise.losses import kl

if TYPE_CHECKING:
    import torch

    from equipoise.learners.rollouts import RolloutBatch

Correction = Literal["truncate", "mask", "none"]


def mismatch(batch: RolloutBatch) -> dict[str, float]:
    """`sampler_gap`, the mean distance |log π_old − log μ|, and `mismatch_kl`, an estimate of KL(μ
    ‖ π_old) that is never negative (k3), both in nats a token.
    """
    count = batch.mask_BT.sum()
    gap_BT = (batch.old_BT - batch.sampled_BT).abs() * batch.mask_BT
    divergence_BT = kl.k3(batch.sampled_BT, batch.old_BT) * batch.mask_BT
    return {
        "sampler_gap": (gap_BT.sum() / count).item(),
        "mismatch_kl": (divergence_BT.sum() / count).item(),
    }


def importance_weights(
    batch: RolloutBatch, correction: Correction, limit: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """(weight_BT, constants for the tokens' advantages; facts that sum them up).

    truncate: min(ratio, limit), as in V-trace. mask: the ratio, and 0 where it lies outside
    [1/limit, limit]. none: 1. The facts are the mean weight of the tokens and the share of those
    that were bounded. Source: arXiv 1802.01561, eq. 1 (truncated); arXiv 2510.18855 (masked on both
    sides).
    """
    ratio_BT = (batch.old_BT - batch.sampled_BT).exp()
    if correction == "none":
        weight_BT = ratio_BT.new_ones(ratio_BT.shape)
        bounded_BT = ratio_BT.new_zeros(ratio_BT.shape)
    elif correction == "truncate":
        weight_BT = ratio_BT.clamp(max=limit)
        bounded_BT = (ratio_BT > limit).float()
    elif correction == "mask":
        bounded_BT = ((ratio_BT > limit) | (ratio_BT < 1 / limit)).float()
        weight_BT = ratio_BT * (1 - bounded_BT)
    else:
        raise AssertionError(f"unknown correction {correction!r}")
    mask_BT = batch.mask_BT
    count = mask_BT.sum()
    facts = {
        "importance_weight": ((weight_BT * mask_BT).sum() / count).item(),
        "importance_bounded": ((bounded_BT * mask_BT).sum() / count).item(),
    }
    return weight_BT, facts
