"""Losses of policy gradients: what a learner does with a token's advantage.

    learner: {kind: policy_gradient, estimator: group_relative, policy_loss: gspo}

    clipped   ρ·A, cut where the token's ratio ρ = π/π_old leaves a range: PPO, GRPO, DAPO
    gspo      the same with one ratio for the whole answer, its tokens' geometric mean
    cispo     log π, weighed by ρ that is cut and held constant: every token keeps a gradient

A loss of your own is a class with `tokens`, named by its import path.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from equipoise.component import Component
from equipoise.losses import surrogate

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """The sampled tokens of B answers, padded to T; log-probabilities in nats.

    logprob_BT: of the learner, with gradient. old_BT: of the policy before the update.
    advantage_BT: of each token, in units of reward. mask_BT: True where there is a token. Outside
    the mask the two log-probabilities agree, and the rest is finite.
    """

    logprob_BT: torch.Tensor
    old_BT: torch.Tensor
    advantage_BT: torch.Tensor
    mask_BT: torch.Tensor


class PolicyLoss(Component):
    """The loss of a sampled token, by its advantage.

    The learner weighs the tokens by its setting `over` and adds the entropy, the KL penalty where
    that is a term of the loss, and the critic's loss.
    """

    KINDS: ClassVar = {
        "clipped": "equipoise.losses.policy:Clipped",
        "gspo": "equipoise.losses.policy:GSPO",
        "cispo": "equipoise.losses.policy:CISPO",
    }

    @abstractmethod
    def tokens(self, batch: TokenBatch) -> torch.Tensor:
        """loss_BT, to be minimised; outside the mask it may be any finite number."""

    def cut_tokens(self, batch: TokenBatch) -> torch.Tensor:
        """True where a bound took a token's gradient away or held its weight, [B, T].

        The learner logs their share as `clip_share`. By default none is cut.
        """
        return batch.mask_BT & False


class Clipped(PolicyLoss):
    """−min(ρA, clamp(ρ, 1 − clip, 1 + clip_high)·A), by token, with ρ = π/π_old.

    Source: PPO, arXiv 1707.06347, eq. 7; GRPO, arXiv 2402.03300; unequal bounds, DAPO, arXiv
    2503.14476, section 3.1; the dual clip, arXiv 1912.09729.
    """

    kind: Literal["clipped"] = "clipped"

    clip: float = Field(
        0.2,
        gt=0,
        description="how far a token's probability ratio moves before its gradient is cut",
    )
    clip_high: float | None = Field(None, gt=0, description="the same upwards, where it differs")
    dual_clip: float | None = Field(
        None,
        gt=1,
        description="bounds the loss of a bad token that has become likely, in units of "
        "its advantage; null: no bound",
    )

    @model_validator(mode="after")
    def dual_clip_lies_outside_the_range(self) -> Self:
        high = self.clip if self.clip_high is None else self.clip_high
        if self.dual_clip is not None and self.dual_clip <= 1 + high:
            raise ValueError(f"dual_clip: must exceed 1 + the upper clip, {1 + high:g}")
        return self

    def tokens(self, batch: TokenBatch) -> torch.Tensor:
        return self.bounded(surrogate.clipped_surrogate, batch)

    def cut_tokens(self, batch: TokenBatch) -> torch.Tensor:
        return self.bounded(surrogate.is_clipped, batch)

    def bounded(self, function: Callable[..., torch.Tensor], batch: TokenBatch) -> torch.Tensor:
        """A function of `surrogate` on these tokens, with the bounds of this loss."""
        return function(
            batch.logprob_BT,
            batch.old_BT,
            batch.advantage_BT,
            self.clip,
            self.clip_high,
            dual_clip=self.dual_clip,
        )


class GSPO(PolicyLoss):
    """−min(sA, clamp(s, 1 − clip, 1 + clip_high)·A), with one s for all tokens of an answer.

    s = exp(mean over the answer's tokens of log π/π_old). A single token's ratio is a noisy weight
    where rewards are of whole answers; s has the variance of a mean, so its range is a thousand
    times narrower than PPO's. Each token's gradient is s·A·∇log π, so advantages may differ from
    token to token. With `over: answer` and one advantage an answer it is the paper's objective.

    Source: arXiv 2507.18071, eqs. 5, 7 and 13 (GSPO-token).
    """

    kind: Literal["gspo"] = "gspo"

    clip: float = Field(
        3e-4, gt=0, description="how far an answer's mean ratio falls before its gradient is cut"
    )
    clip_high: float | None = Field(4e-4, gt=0, description="the same upwards; null: as `clip`")

    def tokens(self, batch: TokenBatch) -> torch.Tensor:
        logprob_BT, old_BT = self.by_answer(batch)
        return surrogate.clipped_surrogate(
            logprob_BT, old_BT, batch.advantage_BT, self.clip, self.clip_high
        )

    def cut_tokens(self, batch: TokenBatch) -> torch.Tensor:
        logprob_BT, old_BT = self.by_answer(batch)
        cut_BT = surrogate.is_clipped(
            logprob_BT, old_BT, batch.advantage_BT, self.clip, self.clip_high
        )
        return cut_BT & batch.mask_BT

    def by_answer(self, batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities whose difference is log s, with each token's own gradient."""
        log_ratio_B1 = surrogate.mean_log_ratio(batch.logprob_BT, batch.old_BT, batch.mask_BT)
        constant_BT = batch.logprob_BT.detach()
        return batch.logprob_BT - constant_BT + log_ratio_B1.detach(), constant_BT * 0


class CISPO(PolicyLoss):
    """−min(max(ρ, 1 − clip), 1 + clip_high)·A·log π, the weight held constant.

    Clipping the surrogate silences just those rare tokens at which an answer turns; here the weight
    is bounded and the gradient stays.

    Source: MiniMax-M1, arXiv 2506.13585, eqs. 4 and 5.
    """

    kind: Literal["cispo"] = "cispo"

    clip: float = Field(
        1.0, gt=0, le=1, description="the least weight is 1 − clip; 1: no lower bound, as published"
    )
    clip_high: float = Field(
        4.0, gt=0, description="the largest weight of a token is 1 + clip_high"
    )

    def tokens(self, batch: TokenBatch) -> torch.Tensor:
        weight_BT = surrogate.ratio(batch.logprob_BT.detach(), batch.old_BT)
        weight_BT = weight_BT.clamp(1 - self.clip, 1 + self.clip_high)
        return -weight_BT * batch.advantage_BT.detach() * batch.logprob_BT

    def cut_tokens(self, batch: TokenBatch) -> torch.Tensor:
        ratio_BT = surrogate.ratio(batch.logprob_BT.detach(), batch.old_BT)
        outside_BT = (ratio_BT < 1 - self.clip) | (ratio_BT > 1 + self.clip_high)
        return outside_BT & batch.mask_BT
