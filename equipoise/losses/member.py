"""What all members of the family of preference losses share: log-ratios against the opponents, the
residual, what is logged.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from equipoise.losses.base import PairBatch, PreferenceLoss, WinsBy
from equipoise.losses.distances import residual, sigmoid

if TYPE_CHECKING:
    import torch


class Member(PreferenceLoss):
    """A loss of the log-ratios of both answers against the opponents."""

    length: Literal["sum", "mean"] = Field(
        "sum", description="an answer's log-probability: sum, or mean per token"
    )

    def measured(self, batch: PairBatch) -> PairBatch:
        """The batch with its log-probabilities as `length` says."""
        if self.length == "sum":
            return batch
        return dataclasses.replace(
            batch,
            policy_chosen_B=batch.policy_chosen_B / batch.tokens_chosen_B,
            policy_rejected_B=batch.policy_rejected_B / batch.tokens_rejected_B,
            opponent_chosen_KB=batch.opponent_chosen_KB / batch.tokens_chosen_B,
            opponent_rejected_KB=batch.opponent_rejected_KB / batch.tokens_rejected_B,
        )

    def log_ratios(self, batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """log π_θ(y) − Σ_k w_k log π_k(y) in nats, [B], of the chosen and of the rejected
        answers.
        """
        batch = self.measured(batch)
        return (
            residual(batch.policy_chosen_B, batch.opponent_chosen_KB, batch.weight_K),
            residual(batch.policy_rejected_B, batch.opponent_rejected_KB, batch.weight_K),
        )

    def residual_B(self, batch: PairBatch) -> torch.Tensor:
        """Δ(π_θ) − Σ_k w_k Δ_k, which is the difference of the two log-ratios."""
        chosen_B, rejected_B = self.log_ratios(batch)
        return chosen_B - rejected_B

    @property
    def scale(self) -> float:
        """What a nat of log-ratio is worth as reward."""
        return 1.0

    def rewards(self, batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The implicit rewards, [B], of the chosen and of the rejected answers.

        They are only logged.
        """
        chosen_B, rejected_B = self.log_ratios(batch)
        return self.scale * chosen_B, self.scale * rejected_B

    def logged(self, batch: PairBatch) -> dict[str, torch.Tensor]:
        """`margin` (the residual, nats), `accuracy` (margin > 0), `chosen_reward` and
        `rejected_reward`; [B], detached.
        """
        margin_B = self.residual_B(batch).detach()
        chosen_B, rejected_B = self.rewards(batch)
        return {
            "margin": margin_B,
            "accuracy": (margin_B > 0).to(margin_B.dtype),
            "chosen_reward": chosen_B.detach(),
            "rejected_reward": rejected_B.detach(),
        }


class EstimatesWins(PreferenceLoss):
    """One with a `target` that may be P(answer beats its opponents)."""

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

    @model_validator(mode="after")
    def _wins_read(self) -> EstimatesWins:
        if self.wins != "auto" and self.wins_by is None:
            raise ValueError("wins is read with target: probability only")
        return self


class Logistic(Member):
    """Distance: −log σ(β·residual), with its target at infinity."""

    beta: float = Field(
        0.1,
        gt=0,
        description="scale of the residual, per nat; larger stays nearer to the opponents",
    )

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch), self.beta)

    @property
    def scale(self) -> float:
        return self.beta
