"""The residual of the preference losses, its distances, and what losses of it share.

A margin is log π(chosen | x) − log π(rejected | x), in nats. B pairs, K opponents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from equipoise.errors import ConfigError
from equipoise.losses.base import PairBatch, PreferenceLoss, WinsBy

if TYPE_CHECKING:
    import torch


def residual(
    policy_margin_B: torch.Tensor, opponent_margin_KB: torch.Tensor, weight_K: torch.Tensor
) -> torch.Tensor:
    """Δ(π_θ) − Σ_k w_k Δ_k, [B]: what the policy adds to its opponents' margin, in nats; K may be
    0.

    Raises ConfigError where the opponents and the weights differ in number.

    >>> residual(torch.tensor([3.0]), torch.tensor([[1.0], [2.0]]), torch.tensor([0.5, 0.5]))
    tensor([1.5000])
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
    """(residual − target)², per row; `target` in nats, one for all or [B].

    >>> squared(torch.tensor([1.0, 3.0]), 1.0)
    tensor([0., 4.])
    """
    return (residual_B - target) ** 2


def sigmoid(residual_B: torch.Tensor, beta: float) -> torch.Tensor:
    """−log σ(β·residual), per row; `beta` per nat.

    >>> sigmoid(torch.tensor([0.0, 20.0]), 0.1)
    tensor([0.6931, 0.1269])
    """
    from torch.nn.functional import logsigmoid

    return -logsigmoid(beta * residual_B)


def bernoulli(residual_B: torch.Tensor, target: torch.Tensor | float, beta: float) -> torch.Tensor:
    """KL(Ber(σ(β·target)) ‖ Ber(σ(β·residual))) in nats, per row: the backward Bernoulli KL.

    `target` in nats, one for all or [B]; `beta` per nat. It is 0 where the residual is the target;
    an infinite target gives −log σ(β·residual), `sigmoid`. Source: arXiv 2509.23102, eqs 16, 17.

    >>> bernoulli(torch.tensor([1.0, -1.0]), 1.0, 1.0).round(decimals=4)
    tensor([0.0000, 0.4621])
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits
    from torch.special import entr

    target_B = torch.as_tensor(target).to(residual_B).expand_as(residual_B)
    wanted_B = (beta * target_B).sigmoid()
    unwanted_B = (-beta * target_B).sigmoid()
    cross_B = binary_cross_entropy_with_logits(beta * residual_B, wanted_B, reduction="none")
    return cross_B - entr(wanted_B) - entr(unwanted_B)


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
    share 1 − ratio falls away. Margins are of per-token means in the release. Raises ConfigError
    where histories outnumber weights or the weights present add up to nothing. Source: arXiv
    2509.23102 and its published code.

    >>> margins = torch.tensor([4.0]), torch.tensor([2.0]), torch.tensor([[1.0]])
    >>> released_mnpo(*margins, ratio=0.5, weight_K=[1.0], eta=0.5)
    tensor([2.2500])
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
    """The scores, which must be probabilities. Raises ConfigError where one is outside [0, 1].

    >>> probability(torch.tensor([0.25, 1.0]))
    tensor([0.2500, 1.0000])
    """
    if bool(((score_B < 0) | (score_B > 1)).any()):
        raise ConfigError(
            "loss.target: probability needs a judge whose scores are win "
            f"probabilities in [0, 1], got {float(score_B.min()):g} to "
            f"{float(score_B.max()):g}; choose another target or judge"
        )
    return score_B


class ResidualLoss(PreferenceLoss):
    """A loss of the log-ratios of both answers against the opponents."""

    length: Literal["sum", "mean"] = Field(
        "sum", description="an answer's log-probability: sum, or mean per token"
    )

    def at_length(self, batch: PairBatch) -> PairBatch:
        """The batch with log-probabilities as sums or means per token, by `length`."""
        if self.length == "sum":
            return batch
        chosen_B = batch.tokens_chosen_B.clamp(min=1)  # 0 where there is none
        rejected_B = batch.tokens_rejected_B.clamp(min=1)
        return dataclasses.replace(
            batch,
            policy_chosen_B=batch.policy_chosen_B / chosen_B,
            policy_rejected_B=batch.policy_rejected_B / rejected_B,
            opponent_chosen_KB=batch.opponent_chosen_KB / chosen_B,
            opponent_rejected_KB=batch.opponent_rejected_KB / rejected_B,
        )

    def log_ratios(self, batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """log π_θ(y) − Σ_k w_k log π_k(y) in nats, [B], of the chosen and the rejected answers."""
        batch = self.at_length(batch)
        return (
            residual(batch.policy_chosen_B, batch.opponent_chosen_KB, batch.weight_K),
            residual(batch.policy_rejected_B, batch.opponent_rejected_KB, batch.weight_K),
        )

    def residual_B(self, batch: PairBatch) -> torch.Tensor:
        """Δ(π_θ) − Σ_k w_k Δ_k, which is the difference of the two log-ratios."""
        chosen_B, rejected_B = self.log_ratios(batch)
        return chosen_B - rejected_B

    def rewards(self, batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The implicit rewards [B] of both answers, to log: `beta` (or 1) a nat of log-ratio."""
        scale = getattr(self, "beta", None) or 1.0
        chosen_B, rejected_B = self.log_ratios(batch)
        return scale * chosen_B, scale * rejected_B

    def metrics(self, batch: PairBatch) -> dict[str, torch.Tensor]:
        margin_B = self.residual_B(batch).detach()
        chosen_B, rejected_B = self.rewards(batch)
        return {
            "margin": margin_B,
            "accuracy": (margin_B > 0).to(margin_B.dtype),
            "chosen_reward": chosen_B.detach(),
            "rejected_reward": rejected_B.detach(),
        }


class EstimatesWins(PreferenceLoss):
    """A loss with a `target` that may be P(answer beats its opponents)."""

    wins: WinsBy = Field(
        "auto",
        description="of target: probability, how P(answer beats the opponents) is "
        "estimated: counted among their answers to the prompt, bradley_terry on "
        "rewards, judged (the scores are probabilities), or auto, by the judge",
    )

    @property
    def wins_by(self) -> WinsBy | None:
        by_probability = getattr(self, "target", None) == "probability"
        return self.wins if by_probability else None

    @property
    def reads_scores(self) -> bool:
        return getattr(self, "target", None) in ("reward", "probability")

    @model_validator(mode="after")
    def _wins_read(self) -> EstimatesWins:
        if self.wins != "auto" and self.wins_by is None:
            raise ValueError("wins is read with target: probability only")
        return self
