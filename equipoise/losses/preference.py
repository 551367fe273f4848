"""The preference losses as one family: opponents, a residual, a distance, a target.

With Δ(π) = log π(chosen | x) − log π(rejected | x), every member is

    residual = Δ(π_θ) − Σ_k w_k Δ(opponent_k);    loss = D[residual ‖ target]

and differs from the others only in who the opponents are and how far the residual is wanted to go:
squared distance to a finite target, or −log σ(β·residual), whose target lies at infinity. So each
member below is a few lines that name both: its opponents by a class of `losses.opponents`, its
distance by `rows`. Those that read lengths or likelihoods besides lie in `losses.with_terms`.
(arXiv 2509.23102, Table 1.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from equipoise.losses.base import PairBatch
from equipoise.losses.distances import probability, released_mnpo, residual, sigmoid, squared
from equipoise.losses.member import EstimatesWins, Logistic, Member
from equipoise.losses.opponents import (
    AgainstCurrent,
    AgainstLeague,
    AgainstNobody,
    AgainstReference,
    merged,
    scaled,
)
from equipoise.losses.with_terms import CPO, KTO, ORPO, RDPO
from equipoise.types import PlayerId

if TYPE_CHECKING:
    import torch

__all__ = [
    "CPO",
    "DNO",
    "DPO",
    "INPO",
    "IPO",
    "KTO",
    "MNPO",
    "ORPO",
    "RDPO",
    "SPIN",
    "SPPO",
    "DistillDPO",
    "MNPOReleased",
    "SimPO",
    "released_mnpo",
    "residual",
    "sigmoid",
    "squared",
]


INTENDED = (0.25, 0.75)  # λ as the published MNPO configurations write it


class SimPO(AgainstNobody, Logistic):
    """No opponents; −log σ(β·Δ(π_θ) − γ) on per-token means, γ the margin wanted. (arXiv
    2405.14734, eq. 6)
    """

    kind: Literal["simpo"] = "simpo"
    length: Literal["sum", "mean"] = Field(
        "mean", description="an answer's log-probability: sum, or mean per token"
    )
    beta: float = Field(2.0, gt=0, description="scale of the margin, per nat")
    gamma: float = Field(1.0, ge=0, description="the margin wanted, in units of β·Δ")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch) - self.gamma / self.beta, self.beta)


class DPO(AgainstReference, Logistic):
    """Opponent π_ref (1); −log σ(β·residual). (arXiv 2305.18290, eq. 7)"""

    kind: Literal["dpo"] = "dpo"


class DistillDPO(AgainstReference, Member):
    """Opponent π_ref (1); (β·residual − (r(chosen) − r(rejected)))², r the judge's score. (arXiv
    2405.19316)
    """

    kind: Literal["distill_dpo"] = "distill_dpo"
    beta: float = Field(0.1, gt=0, description="reward per nat of log-ratio")

    @property
    def scale(self) -> float:
        return self.beta

    def rows(self, batch: PairBatch) -> torch.Tensor:
        gap_B = batch.score_chosen_B - batch.score_rejected_B
        return squared(self.beta * self.residual_B(batch), gap_B)


class IPO(AgainstReference, Member):
    """Opponent π_ref (1); (residual − 1/(2τ))². (arXiv 2310.12036, eq.

    17; trl runs it with `length: mean`)
    """

    kind: Literal["ipo"] = "ipo"
    tau: float = Field(0.1, gt=0, description="regularisation; the target is 1/(2τ) nats")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return squared(self.residual_B(batch), 1 / (2 * self.tau))


class DNO(AgainstCurrent, Logistic):
    """Opponent π_t (1); −log σ(β·residual). (arXiv 2404.03715, Algorithm 2)"""

    kind: Literal["dno"] = "dno"


class SPIN(AgainstCurrent, Logistic):
    """Opponent π_t (1); −log σ(β·residual). (arXiv 2401.01335, eq. 4.7, logistic)

    The formula is DNO's; its pairs make the method: winners are the data's answers, losers π_t's
    own samples.
    """

    kind: Literal["spin"] = "spin"


class SPPO(AgainstCurrent, EstimatesWins, Member):
    """Opponent π_t (1); squared, on each response alone. (arXiv 2405.00675, eq. 4.7)

    (log π_θ(w)/π_t(w) − η(P(w beats π_t) − ½))² + (log π_θ(l)/π_t(l) − η(P(l beats π_t) − ½))²

    The paper takes log Z ≈ 0. Where it is not, a normalised policy cannot reach the target, and the
    minimiser is multiplicative weights to first order in η only.
    """

    kind: Literal["sppo"] = "sppo"
    target: Literal["probability", "constant"] = Field(
        "probability",
        description="P(answer beats π_t) from the scores, "
        "or 1 for the chosen and 0 for the rejected",
    )
    eta: float = Field(10.0, gt=0, description="step, in nats: a sure winner is moved by η/2")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        chosen_B, rejected_B = self.log_ratios(batch)
        if self.target == "constant":
            return squared(chosen_B, self.eta / 2) + squared(rejected_B, -self.eta / 2)
        target_chosen_B = self.eta * (probability(batch.score_chosen_B) - 0.5)
        target_rejected_B = self.eta * (probability(batch.score_rejected_B) - 0.5)
        return squared(chosen_B, target_chosen_B) + squared(rejected_B, target_rejected_B)


class INPO(Member):
    """Opponents π_ref (τ/η) and π_t (1 − τ/η); (residual − 1/(2τ))². (arXiv 2407.00617, Algorithm
    1)

    Over pairs of π_t the minimiser is π_ref^(τ/η) · π_t^(1 − τ/η) · exp(P(y beats π_t)/τ),
    normalised. INPO's own derivation has η for τ in the target (`target: eta`), and there τ is the
    temperature of the regularised equilibrium that the iterates approach. The two are one family:
    (τ, η) here is (τ²/η, τ) there.
    """

    kind: Literal["inpo"] = "inpo"
    tau: float = Field(
        0.1, gt=0, description="pull to the reference, whose share among the opponents is τ/η"
    )
    eta: float = Field(0.3, gt=0, description="pull to π_t; at least τ")
    target: Literal["tau", "eta"] = Field(
        "tau", description="which of the two divides in the target 1/(2·) nats"
    )

    @model_validator(mode="after")
    def _shares(self) -> INPO:
        if self.tau > self.eta:
            raise ValueError(
                "tau must not exceed eta: tau/eta is the reference's share among the opponents"
            )
        return self

    def opponents(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        share = self.tau / self.eta
        return merged([(past[-1], share), (past[0], 1 - share)])

    def rows(self, batch: PairBatch) -> torch.Tensor:
        divisor = self.tau if self.target == "tau" else self.eta
        return squared(self.residual_B(batch), 1 / (2 * divisor))


class MNPO(AgainstLeague, EstimatesWins, Member):
    """Opponents π_t, π_{t−1}, … (λ) and, with a share, π_ref; (residual − target)². (arXiv
    2509.23102, eq. 14)

    target: 1/(2η) (constant); η·(r(chosen) − r(rejected)) (reward); η·(P(chosen beats ·) −
    P(rejected beats ·)) (probability). Over pairs of π_t the minimiser is Π_k opponent_k^w_k ·
    exp(P(y beats π_t)/η) with the constant and Π_k opponent_k^w_k · exp(η·P(y beats the history))
    with the probability target: multiplicative weights.

    η divides in the constant target and multiplies in the others. The gradient is
    2(Δ(π_θ) − Σ w Δ_k − target) · ∇Δ: the opponents steer it only where Σ w Δ_k is not
    small beside the target. Margins of sequence sums are several nats and more, so η =
    0.1, a target of 5 nats, is the default; η = 10 takes the same step in the other
    two. The release's η = 0.0075 asks for 66.7 of per-token means whose margins are of
    order 1: its opponents hardly matter.
    """

    kind: Literal["mnpo"] = "mnpo"
    distance: Literal["squared", "sigmoid"] = Field(
        "squared", description="squared, or −log σ(β·residual)"
    )
    target: Literal["constant", "reward", "probability"] | None = Field(
        default_factory=lambda data: "constant" if data.get("distance") == "squared" else None,
        description="of the squared distance: 1/(2η), η × reward gap, "
        "or η × gap of win probabilities",
    )
    eta: float | None = Field(
        default_factory=lambda data: {"constant": 0.1, "reward": 10.0, "probability": 10.0}.get(
            data.get("target") or ""
        ),
        gt=0,
        description="of the target, in nats: divides in the constant one (default "
        "0.1), multiplies in the others (10)",
    )
    beta: float | None = Field(
        default_factory=lambda data: 0.1 if data.get("distance") == "sigmoid" else None,
        gt=0,
        description="of the sigmoid distance: scale of the residual, per nat",
    )

    @model_validator(mode="after")
    def _all_read(self) -> MNPO:
        reads = ("target", "eta") if self.distance == "squared" else ("beta",)
        given = {"target": self.target, "eta": self.eta, "beta": self.beta}
        for name, value in given.items():
            if (value is None) == (name in reads):
                verdict = "needed" if name in reads else "not read"
                raise ValueError(f"{name} is {verdict} with distance: {self.distance}")
        return self

    @property
    def scale(self) -> float:
        return self.beta or 1.0

    def rows(self, batch: PairBatch) -> torch.Tensor:
        residual_B = self.residual_B(batch)
        if self.beta is not None:
            return sigmoid(residual_B, self.beta)
        assert self.eta is not None
        if self.target == "constant":
            return squared(residual_B, 1 / (2 * self.eta))
        chosen_B, rejected_B = batch.score_chosen_B, batch.score_rejected_B
        if self.target == "probability":
            chosen_B, rejected_B = probability(chosen_B), probability(rejected_B)
        return squared(residual_B, self.eta * (chosen_B - rejected_B))


class MNPOReleased(Member):
    """MNPO as released, to compare with: see `MNPO` for why its opponents hardly steer.

    The history begins with the policy that sampled, π_t itself, also where it is π_0: one in the
    first generation, then two, up to `max_history`; so the shares add up to one, and a policy that
    has not learned has margin 0. Log-probabilities are per-token means. β scales the logged
    rewards, β·(log π_θ − log π_ref), and nothing else.
    """

    kind: Literal["mnpo_released"] = "mnpo_released"
    length: Literal["sum", "mean"] = Field(
        "mean", description="an answer's log-probability: sum, or mean per token"
    )
    max_history: int = Field(
        2, ge=1, description="how many generations the history has at most, π_t counted"
    )
    weights: (
        Literal["uniform", "intended"]
        | Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)]
    ) = Field(
        "uniform",
        description="λ of the history, newest first. uniform: what ran, since the "
        "released trainer reads no such key; intended: 0.25 and 0.75, which the "
        "published configurations write; or a list of your own",
    )
    ratio: float = Field(
        1 / 3, ge=0, le=1, description="the reference's share; the history has the rest"
    )
    eta: float = Field(0.0075, gt=0, description="the target is 1/(2η) nats per token")
    beta: float = Field(10.0, gt=0, description="scale of the logged rewards")

    @model_validator(mode="after")
    def _enough(self) -> MNPOReleased:
        if self.weight_K[0] == 0:
            raise ValueError("weights: the first (of π_t, which is never absent) must be positive")
        if len(self.weight_K) < self.max_history:
            raise ValueError(
                f"weights: {len(self.weight_K)} for max_history = {self.max_history}; "
                "give one for each generation of the history"
            )
        return self

    @property
    def weight_K(self) -> tuple[float, ...]:
        """λ of the whole history, newest first, before it is scaled to those present."""
        if isinstance(self.weights, tuple):
            return self.weights
        return INTENDED if self.weights == "intended" else (1.0,) * self.max_history

    def scored_against(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        """π_t."""
        return [(past[0], 1.0)]

    def opponents(
        self,
        past: Sequence[PlayerId],
        peers: Sequence[PlayerId] = (),
        outsiders: Sequence[PlayerId] = (),
    ) -> list[tuple[PlayerId, float]]:
        """π_0 first, even where its share is 0 (the logged rewards need it), then the rest of the
        history.
        """
        present = past[: self.max_history]
        history = scaled(zip(present, self.weight_K, strict=False))
        share = {player: (1 - self.ratio) * weight for player, weight in history}
        reference = self.ratio + share.pop(past[-1], 0.0)
        return [(past[-1], reference), *share.items()]

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return squared(self.residual_B(batch), 1 / (2 * self.eta))

    def rewards(self, batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
        batch = self.measured(batch)
        chosen_B = batch.policy_chosen_B - batch.opponent_chosen_KB[0]
        rejected_B = batch.policy_rejected_B - batch.opponent_rejected_KB[0]
        return self.beta * chosen_B, self.beta * rejected_B
