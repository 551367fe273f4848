"""Members of the preference family that read more than the residual: the answers' own likelihood
(CPO, ORPO), their lengths (R-DPO), or each answer alone (KTO).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from equipoise.losses.base import PairBatch
from equipoise.losses.distances import sigmoid
from equipoise.losses.member import Logistic, Member
from equipoise.losses.opponents import AgainstNobody, AgainstReference

if TYPE_CHECKING:
    import torch

CERTAIN = -1e-6  # nats per token: an answer's odds are finite up to here


class CPO(AgainstNobody, Logistic):
    """No opponents; −log σ(β·Δ(π_θ)) − c·log π_θ(chosen), the latter per token as released. (arXiv
    2401.08417)
    """

    kind: Literal["cpo"] = "cpo"
    likelihood: float = Field(
        1.0, ge=0, description="weight c of the chosen answer's mean negative log-likelihood"
    )

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return super().rows(batch) + self.likelihood * chosen_nll(batch)


class ORPO(AgainstNobody, Member):
    """No opponents; −log p(chosen) − λ·log σ(log odds(chosen) − log odds(rejected)). (arXiv
    2403.07691, eqs 6 and 7)

    p is the geometric mean of an answer's token probabilities, odds(p) = p/(1 − p). So
    log-probabilities are per-token means, and there is no other length.
    """

    kind: Literal["orpo"] = "orpo"
    length: Literal["mean"] = Field(  # type: ignore[assignment]
        "mean", description="an answer's log-probability: the mean per token"
    )
    odds_weight: float = Field(0.1, gt=0, description="weight λ of the log odds ratio's part")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        chosen_B, rejected_B = self.log_ratios(batch)
        log_odds_B = log_odds(chosen_B) - log_odds(rejected_B)
        return chosen_nll(batch) + self.odds_weight * sigmoid(log_odds_B, 1.0)


class RDPO(AgainstReference, Logistic):
    """Opponent π_ref (1); −log σ(β·residual + α·(|chosen| − |rejected|)), lengths in tokens: DPO of
    a reward that pays α less for each token. (arXiv 2403.19159, eq. 9)
    """

    kind: Literal["rdpo"] = "rdpo"
    alpha: float = Field(0.01, ge=0, description="what a token costs, in units of reward")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        longer_B = batch.tokens_chosen_B - batch.tokens_rejected_B
        return sigmoid(self.beta * self.residual_B(batch) + self.alpha * longer_B, 1.0)


class KTO(AgainstReference, Member):
    """Opponent π_ref (1); w·(1 − σ(β·(log-ratio(chosen) − z))) + the same of the rejected answer
    with its sign turned. (arXiv 2402.01306, eq. 8)

    The two answers of a pair count as one desirable and one undesirable example. The paper
    estimates its reference point z, the policy's KL from π_ref, over mismatched answers of the
    batch; here z is a setting, so that a pair's loss does not hang on its neighbours. Near π_ref
    both are 0.
    """

    kind: Literal["kto"] = "kto"
    beta: float = Field(0.1, gt=0, description="scale of a log-ratio, per nat")
    point: float = Field(0.0, ge=0, description="reference point z, in nats of KL from π_ref")
    desirable: float = Field(1.0, gt=0, description="weight of the chosen answers")
    undesirable: float = Field(1.0, gt=0, description="weight of the rejected answers")

    @property
    def scale(self) -> float:
        return self.beta

    def rows(self, batch: PairBatch) -> torch.Tensor:
        chosen_B, rejected_B = self.log_ratios(batch)
        lost_B = (self.beta * (self.point - chosen_B)).sigmoid()
        kept_B = (self.beta * (rejected_B - self.point)).sigmoid()
        return self.desirable * lost_B + self.undesirable * kept_B


def chosen_nll(batch: PairBatch) -> torch.Tensor:
    """The chosen answers' negative log-likelihood per token, in nats, [B]."""
    return -batch.policy_chosen_B / batch.tokens_chosen_B


def log_odds(logprob_B: torch.Tensor) -> torch.Tensor:
    """log(p / (1 − p)) of log p ≤ 0, in nats; p stays below 1 by 1e-6."""
    import torch

    logprob_B = logprob_B.clamp(max=CERTAIN)
    return logprob_B - torch.log(-torch.expm1(logprob_B))
