"""The preference losses as one family: opponents, a residual, a distance, a target.

With Δ(π) = log π(chosen | x) − log π(rejected | x), every member is

    residual = Δ(π_θ) − Σ_k w_k Δ(opponent_k);    loss = D[residual ‖ target]

and differs from the others only in who the opponents are and how far the residual is
wanted to go: squared distance to a finite target, or −log σ(β·residual), whose target
lies at infinity. So each member below is a few lines that name both: its opponents by a
class of `losses.opponents`, its distance by `rows`. (arXiv 2509.23102, Table 1.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from equipoise.errors import ConfigError
from equipoise.losses.base import PairBatch, PreferenceLoss
from equipoise.losses.opponents import (
    AgainstCurrent,
    AgainstLeague,
    AgainstReference,
    Alone,
    merged,
)
from equipoise.types import PlayerId

if TYPE_CHECKING:
    import torch


def residual(
    policy_margin_B: torch.Tensor,
    opponent_margin_KB: torch.Tensor,
    weight_K: torch.Tensor,
) -> torch.Tensor:
    """What the policy adds to its opponents' margin: Δ(π_θ) − Σ_k w_k Δ_k.

    Margins are log-probability differences in nats; weights are used as they are.
    Returns [B]; K may be 0. Raises ConfigError where the opponents and the weights
    differ in number.
    """
    if len(weight_K) != len(opponent_margin_KB):
        raise ConfigError(
            f"{len(opponent_margin_KB)} opponents but {len(weight_K)} weights: give one weight each"
        )
    if len(weight_K) == 0:
        return policy_margin_B
    return policy_margin_B - (
        weight_K.to(opponent_margin_KB)[:, None] * opponent_margin_KB
    ).sum(0)


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
    """MNPO's loss as released: (Δ(π_θ) − ratio·Δ(π_ref) − (1 − ratio)·Σ_k λ_k
    Δ(history_k) − 1/(2η))², per row.

    λ = w / Σw over the K histories present: weights beyond them are cut off first. With
    K = 0 the share 1 − ratio falls away altogether, it does not go to the reference.
    Margins are of per-token mean log-probabilities in the release. Raises ConfigError
    where histories outnumber weights or the weights present add up to nothing. Source:
    arXiv 2509.23102 and its published code.
    """
    import torch

    histories = len(history_margin_KB)
    weight_K = torch.as_tensor(weight_K).to(policy_margin_B)
    if histories > len(weight_K):
        raise ConfigError(
            f"{histories} histories but {len(weight_K)} weights: give one weight each, newest first"
        )
    opponent_margin_KB, opponent_weight_K = (
        reference_margin_B[None],
        weight_K.new_tensor([ratio]),
    )
    if histories:
        present_K = weight_K[:histories]
        if not present_K.sum() > 0:
            raise ConfigError(
                f"the first {histories} weights are all 0: at least one must be positive"
            )
        opponent_margin_KB = torch.cat([opponent_margin_KB, history_margin_KB])
        opponent_weight_K = torch.cat(
            [opponent_weight_K, (1 - ratio) * present_K / present_K.sum()]
        )
    return squared(
        residual(policy_margin_B, opponent_margin_KB, opponent_weight_K), 1 / (2 * eta)
    )


def probability(score_B: torch.Tensor) -> torch.Tensor:
    """The scores, which must be probabilities; raises ConfigError where one is outside
    [0, 1].
    """
    if bool(((score_B < 0) | (score_B > 1)).any()):
        raise ConfigError(
            "loss.target: probability needs a judge whose scores are win probabilities in [0, 1], "
            f"got {float(score_B.min()):g} to {float(score_B.max()):g}; choose another target or judge"
        )
    return score_B


class Member(PreferenceLoss):
    """What all members share: the log-ratio of each answer against the opponents, their
    difference, what is logged.
    """

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
        """log π_θ(y) − Σ_k w_k log π_k(y) in nats, [B], of the chosen and of the
        rejected answers.
        """
        batch = self.measured(batch)
        return (
            residual(batch.policy_chosen_B, batch.opponent_chosen_KB, batch.weight_K),
            residual(
                batch.policy_rejected_B, batch.opponent_rejected_KB, batch.weight_K
            ),
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
        """The implicit rewards, [B], of the chosen and of the rejected answers; only
        logged.
        """
        chosen_B, rejected_B = self.log_ratios(batch)
        return self.scale * chosen_B, self.scale * rejected_B

    def logged(self, batch: PairBatch) -> dict[str, torch.Tensor]:
        """`margin` (the residual, nats), `accuracy` (margin > 0), `chosen_reward`,
        `rejected_reward`; [B], detached.
        """
        margin_B = self.residual_B(batch).detach()
        chosen_B, rejected_B = self.rewards(batch)
        rewards = {
            "chosen_reward": chosen_B.detach(),
            "rejected_reward": rejected_B.detach(),
        }
        return {
            "margin": margin_B,
            "accuracy": (margin_B > 0).to(margin_B.dtype),
            **rewards,
        }


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


class SimPO(Alone, Logistic):
    """No opponents; −log σ(β·Δ(π_θ) − γ) on per-token means, γ the margin wanted.
    (arXiv 2405.14734, eq. 6)
    """

    kind: Literal["simpo"] = "simpo"
    length: Literal["sum", "mean"] = Field(
        "mean", description="an answer's log-probability: sum, or mean per token"
    )
    beta: float = Field(2.0, gt=0, description="scale of the margin, per nat")
    gamma: float = Field(1.0, ge=0, description="the margin wanted, in units of β·Δ")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch) - self.gamma / self.beta, self.beta)


class CPO(Alone, Logistic):
    """No opponents; −log σ(β·Δ(π_θ)) − c·log π_θ(chosen), the latter per token as
    released. (arXiv 2401.08417)
    """

    kind: Literal["cpo"] = "cpo"
    likelihood: float = Field(
        1.0,
        ge=0,
        description="weight c of the chosen answer's mean negative log-likelihood",
    )

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return (
            super().rows(batch)
            - self.likelihood * batch.policy_chosen_B / batch.tokens_chosen_B
        )


class DPO(AgainstReference, Logistic):
    """Opponent π_ref (1); −log σ(β·residual). (arXiv 2305.18290, eq. 7)"""

    kind: Literal["dpo"] = "dpo"


class DistillDPO(AgainstReference, Member):
    """Opponent π_ref (1); (β·residual − (r(chosen) − r(rejected)))², r the judge's
    score. (arXiv 2405.19316)
    """

    kind: Literal["distill_dpo"] = "distill_dpo"
    beta: float = Field(0.1, gt=0, description="reward per nat of log-ratio")

    @property
    def scale(self) -> float:
        return self.beta

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return squared(
            self.beta * self.residual_B(batch),
            batch.score_chosen_B - batch.score_rejected_B,
        )


class IPO(AgainstReference, Member):
    """Opponent π_ref (1); (residual − 1/(2τ))². (arXiv 2310.12036, eq. 17; trl runs it
    with `length: mean`)
    """

    kind: Literal["ipo"] = "ipo"
    tau: float = Field(
        0.1, gt=0, description="regularisation; the target is 1/(2τ) nats"
    )

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return squared(self.residual_B(batch), 1 / (2 * self.tau))


class DNO(AgainstCurrent, Logistic):
    """Opponent π_t (1); −log σ(β·residual). (arXiv 2404.03715, Algorithm 2)"""

    kind: Literal["dno"] = "dno"


class SPIN(AgainstCurrent, Logistic):
    """Opponent π_t (1); −log σ(β·residual). (arXiv 2401.01335, eq. 4.7, logistic)

    The formula is DNO's; its pairs make the method: winners are the data's answers,
    losers π_t's own samples.
    """

    kind: Literal["spin"] = "spin"


class SPPO(AgainstCurrent, Member):
    """Opponent π_t (1); squared, on each response alone. (arXiv 2405.00675, eq. 4.7)

    (log π_θ(w)/π_t(w) − η(P(w beats π_t) − ½))² + (log π_θ(l)/π_t(l) − η(P(l beats π_t)
    − ½))²

    The paper takes log Z ≈ 0. Where it is not, a normalised policy cannot reach the
    target, and the minimiser is multiplicative weights to first order in η only.
    """

    kind: Literal["sppo"] = "sppo"
    target: Literal["probability", "constant"] = Field(
        "probability",
        description="P(answer beats π_t) from the scores, or 1 for the chosen and 0 for the rejected",
    )
    eta: float = Field(
        10.0, gt=0, description="step, in nats: a sure winner is moved by η/2"
    )

    def rows(self, batch: PairBatch) -> torch.Tensor:
        chosen_B, rejected_B = self.log_ratios(batch)
        if self.target == "constant":
            return squared(chosen_B, self.eta / 2) + squared(rejected_B, -self.eta / 2)
        win_B, loss_B = (
            probability(batch.score_chosen_B),
            probability(batch.score_rejected_B),
        )
        return squared(chosen_B, self.eta * (win_B - 0.5)) + squared(
            rejected_B, self.eta * (loss_B - 0.5)
        )


class INPO(Member):
    """Opponents π_ref (τ/η) and π_t (1 − τ/η); (residual − 1/(2τ))². (arXiv 2407.00617,
    Algorithm 1)

    Over pairs of π_t the minimiser is π_ref^(τ/η) · π_t^(1 − τ/η) · exp(P(y beats
    π_t)/τ), normalised. INPO's own derivation has η for τ in the target (`target:
    eta`), and there τ is the temperature of the regularised equilibrium that the
    iterates approach. The two are one family: (τ, η) here is (τ²/η, τ) there.
    """

    kind: Literal["inpo"] = "inpo"
    tau: float = Field(
        0.1,
        gt=0,
        description="pull to the reference, whose share among the opponents is τ/η",
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
        return squared(
            self.residual_B(batch),
            1 / (2 * (self.tau if self.target == "tau" else self.eta)),
        )


class MNPO(AgainstLeague, Member):
    """Opponents π_t, π_{t−1}, … (λ) and, with a share, π_ref; (residual − target)².
    (arXiv 2509.23102, eq. 14)

    target: 1/(2η) (constant); η·(r(chosen) − r(rejected)) (reward); η·(P(chosen beats
    ·) − P(rejected beats ·)) (probability). Over pairs of π_t the minimiser is Π_k
    opponent_k^w_k · exp(P(y beats π_t)/η) with the constant and Π_k opponent_k^w_k ·
    exp(η·P(y beats the history)) with the probability target: multiplicative weights.

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
        default_factory=lambda data: (
            "constant" if data.get("distance") == "squared" else None
        ),
        description="of the squared distance: 1/(2η), η × reward gap, or η × gap of win probabilities",
    )
    eta: float | None = Field(
        default_factory=lambda data: {
            "constant": 0.1,
            "reward": 10.0,
            "probability": 10.0,
        }.get(data.get("target") or ""),
        gt=0,
        description="of the target, in nats: divides in the constant one (default 0.1), multiplies in the others (10)",
    )
    beta: float | None = Field(
        default_factory=lambda data: 0.1 if data.get("distance") == "sigmoid" else None,
        gt=0,
        description="of the sigmoid distance: scale of the residual, per nat",
    )

    @model_validator(mode="after")
    def _all_read(self) -> MNPO:
        reads = ("target", "eta") if self.distance == "squared" else ("beta",)
        for name, value in (
            ("target", self.target),
            ("eta", self.eta),
            ("beta", self.beta),
        ):
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
    """MNPO as released, to compare with: see `released_mnpo`, and `MNPO` for why its
    opponents hardly steer.

    π_0 is the reference and no history, so the first generation has the reference's
    share alone. Log-probabilities are per-token means. β scales the logged rewards,
    β·(log π_θ − log π_ref), and nothing else.
    """

    kind: Literal["mnpo_released"] = "mnpo_released"
    length: Literal["sum", "mean"] = Field(
        "mean", description="an answer's log-probability: sum, or mean per token"
    )
    weights: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        (0.25, 0.75),
        min_length=1,
        description="λ of π_t, π_{t−1}, …, newest first; the first is positive",
    )
    ratio: float = Field(
        1 / 3, ge=0, le=1, description="the reference's share; the history has the rest"
    )
    eta: float = Field(0.0075, gt=0, description="the target is 1/(2η) nats per token")
    beta: float = Field(10.0, gt=0, description="scale of the logged rewards")

    @model_validator(mode="after")
    def _first(self) -> MNPOReleased:
        if self.weights[0] == 0:
            raise ValueError(
                "weights: the first (of π_t, which is never absent) must be positive"
            )
        return self

    def rivals(
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
        """π_0 first, even where its share is 0 (the logged rewards need it), then the
        history without π_0.
        """
        history = list(zip(past[:-1], self.weights, strict=False))
        total = sum(weight for _, weight in history)
        return [
            (past[-1], self.ratio),
            *(
                (player, (1 - self.ratio) * weight / total)
                for player, weight in history
            ),
        ]

    def rows(self, batch: PairBatch) -> torch.Tensor:
        batch = self.measured(batch)
        policy_B = batch.policy_chosen_B - batch.policy_rejected_B
        margin_KB = batch.opponent_chosen_KB - batch.opponent_rejected_KB
        shares = {"ratio": self.ratio, "weight_K": self.weights}
        return released_mnpo(
            policy_B, margin_KB[0], margin_KB[1:], eta=self.eta, **shares
        )

    def rewards(self, batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
        batch = self.measured(batch)
        chosen_B = batch.policy_chosen_B - batch.opponent_chosen_KB[0]
        return self.beta * chosen_B, self.beta * (
            batch.policy_rejected_B - batch.opponent_rejected_KB[0]
        )
