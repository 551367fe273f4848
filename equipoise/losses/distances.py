"""How far a policy's margins should be from its opponents': the free functions of the preference
losses.

A margin is log π(chosen | x) − log π(rejected | x), in nats. B pairs, K opponents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.errors import ConfigError

if TYPE_CHECKING:
    import torch


def residual(
    policy_margin_B: torch.Tensor, opponent_margin_KB: torch.Tensor, weight_K: torch.Tensor
) -> torch.Tensor:
    """What the policy adds to its opponents' margin: Δ(π_θ) − Σ_k w_k Δ_k.

    Margins are log-probability differences in nats; weights are used as they are. Returns [B]; K
    may be 0. Raises ConfigError where the opponents and the weights differ in number.
    """
    if len(weight_K) != len(opponent_margin_KB):
        raise ConfigError(
            f"{len(opponent_margin_KB)} opponents but {len(weight_K)} weights: give one weight each"
        )
    if len(weight_K) == 0:
        return policy_margin_B
    weighted_KB = weight_K.to(opponent_margin_KB)[:, None] * opponent_margin_KB
    return policy_margin_B - weighted_KB.sum(0)


def squared(residual_B: torch.Tensor, target: torch.Tensor | float) -> torch.Tensor:
    """(residual − target)², per row; `target` in nats, one for all or [B]."""
    return (residual_B - target) ** 2


def sigmoid(residual_B: torch.Tensor, beta: float) -> torch.Tensor:
    """−log σ(β·residual), per row; `beta` per nat."""
    from torch.nn.functional import logsigmoid

    return -logsigmoid(beta * residual_B)


def released_mnpo(
    policy_margin_B: torch.Tensor,
    reference_margin_B: torch.Tensor,
    history_margin_KB: torch.Tensor,
    *,
    ratio: float,
    weight_K: torch.Tensor | Sequence[float],
    eta: float,
) -> torch.Tensor:
    """MNPO's loss as released, per row.

    (Δ(π_θ) − ratio·Δ(π_ref) − (1 − ratio)·Σ_k λ_k Δ(history_k) − 1/(2η))²

    λ = w / Σw over the K histories present: weights beyond them are cut off first. With K = 0 the
    share 1 − ratio falls away altogether, it does not go to the reference. Margins are of per-token
    mean log-probabilities in the release. Raises ConfigError where histories outnumber weights or
    the weights present add up to nothing. Source: arXiv 2509.23102 and its published code.
    """
    import torch

    histories = len(history_margin_KB)
    weight_K = torch.as_tensor(weight_K).to(policy_margin_B)
    if histories > len(weight_K):
        raise ConfigError(
            f"{histories} histories but {len(weight_K)} weights: give one weight each, newest first"
        )
    opponent_margin_KB = reference_margin_B[None]
    opponent_weight_K = weight_K.new_tensor([ratio])
    if histories:
        present_K = weight_K[:histories]
        if not present_K.sum() > 0:
            raise ConfigError(
                f"the first {histories} weights are all 0: at least one must be positive"
            )
        opponent_margin_KB = torch.cat([opponent_margin_KB, history_margin_KB])
        history_weight_K = (1 - ratio) * present_K / present_K.sum()
        opponent_weight_K = torch.cat([opponent_weight_K, history_weight_K])
    residual_B = residual(policy_margin_B, opponent_margin_KB, opponent_weight_K)
    return squared(residual_B, 1 / (2 * eta))


def probability(score_B: torch.Tensor) -> torch.Tensor:
    """The scores, which must be probabilities.

    Raises ConfigError where one is outside [0, 1].
    """
    if bool(((score_B < 0) | (score_B > 1)).any()):
        raise ConfigError(
            "loss.target: probability needs a judge whose scores are win "
            f"probabilities in [0, 1], got {float(score_B.min()):g} to "
            f"{float(score_B.max()):g}; choose another target or judge"
        )
    return score_B
