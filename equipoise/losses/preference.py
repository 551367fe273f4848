"""The preference losses as one family: opponents, a residual, a distance, a target.

With Δ(π) = log π(chosen | x) − log π(rejected | x), every member is

    residual = Δ(π_θ) − Σ_k w_k Δ(opponent_k);    loss = D[residual ‖ target]

and differs only in its `opponents` and `rows`: squared distance or Bernoulli KL to a finite target,
or −log σ(β·residual), whose target lies at infinity. The last four read more: the answers' own
likelihood (CPO, ORPO), their lengths (R-DPO), or each answer alone (KTO). (arXiv 2509.23102, Table
1.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from equipoise.errors import ConfigError
from equipoise.losses.base import PairBatch
from equipoise.losses.opponent_shares import (
    MixedOpponents,
    OpponentPool,
    Shares,
    merge_shares,
    scale_to_one,
)
from equipoise.losses.residual_loss import (
    EstimatesWins,
    ResidualLoss,
    bernoulli,
    probability,
    released_mnpo,
    residual,
    sigmoid,
    squared,
)
from equipoise.system.effects import Text
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
    "Extragradient",
    "MNPOReleased",
    "Optimistic",
    "SimPO",
    "bernoulli",
    "released_mnpo",
    "residual",
    "sigmoid",
    "squared",
]

INTENDED = (0.25, 0.75)  # λ as the published MNPO configurations write it
WINDOW = 8  # generations whose moves stand for the last gain; later ones would weigh 0.4 %
NEARLY_ONE = 0.99  # a sum of λ that is one but for rounding
CERTAIN = -1e-6  # nats per token: an answer's odds are finite up to here

Beta = Annotated[
    float,
    Field(gt=0, description="scale of the residual, per nat; larger stays nearer to the opponents"),
]


class SimPO(ResidualLoss):
    """No opponents; −log σ(β·Δ(π_θ) − γ) on per-token means. (arXiv 2405.14734, eq. 6)"""

    kind: Literal["simpo"] = "simpo"
    length: Literal["sum", "mean"] = Field(
        "mean", description="an answer's log-probability: sum, or mean per token"
    )
    beta: float = Field(2.0, gt=0, description="scale of the margin, per nat")
    gamma: float = Field(1.0, ge=0, description="the margin wanted, in units of β·Δ")

    def opponents(self, pool: OpponentPool) -> Shares:
        return []

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch) - self.gamma / self.beta, self.beta)


class AgainstReference(ResidualLoss):
    """The base of losses whose one opponent is π_ref, with weight 1."""

    reference: Literal["initial", "previous"] = Field(
        "initial",
        description="the start π_0, or (the iterative form) the policy π_t that sampled the pairs",
    )

    def opponents(self, pool: OpponentPool) -> Shares:
        return [(pool.reference if self.reference == "initial" else pool.current, 1.0)]


class DPO(AgainstReference):
    """Opponent π_ref (1); −log σ(β·residual). (arXiv 2305.18290, eq. 7)"""

    kind: Literal["dpo"] = "dpo"
    beta: Beta = 0.1

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch), self.beta)


class DistillDPO(AgainstReference):
    """Opponent π_ref (1); (β·residual − (r(chosen) − r(rejected)))². (arXiv 2405.19316)"""

    kind: Literal["distill_dpo"] = "distill_dpo"
    beta: float = Field(0.1, gt=0, description="reward per nat of log-ratio")

    @property
    def reads_scores(self) -> bool:
        return True

    def rows(self, batch: PairBatch) -> torch.Tensor:
        gap_B = batch.score_chosen_B - batch.score_rejected_B
        return squared(self.beta * self.residual_B(batch), gap_B)


class IPO(AgainstReference):
    """Opponent π_ref (1); (residual − 1/(2τ))²; trl: `length: mean`. (arXiv 2310.12036, eq. 17)"""

    kind: Literal["ipo"] = "ipo"
    tau: float = Field(0.1, gt=0, description="regularisation; the target is 1/(2τ) nats")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return squared(self.residual_B(batch), 1 / (2 * self.tau))


class DNO(ResidualLoss):
    """Opponent π_t (1); −log σ(β·residual). (arXiv 2404.03715, Algorithm 2)"""

    kind: Literal["dno"] = "dno"
    beta: Beta = 0.1

    def opponents(self, pool: OpponentPool) -> Shares:
        return [(pool.current, 1.0)]

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch), self.beta)


class SPIN(ResidualLoss):
    """Opponent π_t (1); −log σ(β·residual). (arXiv 2401.01335, eq. 4.7, logistic)

    Its pairs make the method: winners are the data's answers, losers π_t's own samples.
    """

    kind: Literal["spin"] = "spin"
    beta: Beta = 0.1

    def opponents(self, pool: OpponentPool) -> Shares:
        return [(pool.current, 1.0)]

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch), self.beta)


class SPPO(EstimatesWins, ResidualLoss):
    """Opponent π_t (1); squared, on each response alone. (arXiv 2405.00675, eq. 4.7)

    (log π_θ(w)/π_t(w) − η(P(w beats π_t) − ½))² + (log π_θ(l)/π_t(l) − η(P(l beats π_t) − ½))²

    The paper takes log Z ≈ 0; else the minimiser is multiplicative weights to first order in η
    only.
    """

    kind: Literal["sppo"] = "sppo"
    target: Literal["probability", "constant"] = Field(
        "probability",
        description="P(answer beats π_t) from the scores, "
        "or 1 for the chosen and 0 for the rejected",
    )
    eta: float = Field(10.0, gt=0, description="step, in nats: a sure winner is moved by η/2")

    def opponents(self, pool: OpponentPool) -> Shares:
        return [(pool.current, 1.0)]

    def rows(self, batch: PairBatch) -> torch.Tensor:
        chosen_B, rejected_B = self.log_ratios(batch)
        if self.target == "constant":
            return squared(chosen_B, self.eta / 2) + squared(rejected_B, -self.eta / 2)
        target_chosen_B = self.eta * (probability(batch.score_chosen_B) - 0.5)
        target_rejected_B = self.eta * (probability(batch.score_rejected_B) - 0.5)
        return squared(chosen_B, target_chosen_B) + squared(rejected_B, target_rejected_B)


class INPO(ResidualLoss):
    """Opponents π_ref (τ/η) and π_t (1 − τ/η); (residual − 1/(2τ))². (arXiv 2407.00617, Algorithm
    1)

    Over pairs of π_t the minimiser is π_ref^(τ/η) · π_t^(1 − τ/η) · exp(P(y beats π_t)/τ),
    normalised. INPO's own derivation has η for τ in the target (`target: eta`), and there τ is the
    temperature of the regularised equilibrium. The two are one family: (τ, η) here is (τ²/η, τ)
    there.
    """

    kind: Literal["inpo"] = "inpo"
    tau: float = Field(
        0.1, gt=0, description="pull to the reference, whose share among the opponents is τ/η"
    )
    eta: float = Field(0.3, gt=0, description="pull to π_t; at least τ")
    target: Literal["tau", "eta"] = Field(
        "tau", description="the one of the two that divides in the target 1/(2·) nats"
    )

    @model_validator(mode="after")
    def _shares(self) -> INPO:
        if self.tau > self.eta:
            raise ValueError(
                "tau must not exceed eta: tau/eta is the reference's share among the opponents"
            )
        return self

    def opponents(self, pool: OpponentPool) -> Shares:
        share = self.tau / self.eta
        return merge_shares([(pool.reference, share), (pool.current, 1 - share)])

    def rows(self, batch: PairBatch) -> torch.Tensor:
        divisor = self.tau if self.target == "tau" else self.eta
        return squared(self.residual_B(batch), 1 / (2 * divisor))


class MNPO(EstimatesWins, ResidualLoss):
    """Opponents π_t, π_{t−1}, … (λ) and perhaps π_ref; D[residual ‖ target]. (arXiv 2509.23102, eqs
    14, 16, 17)

    `against: history` is time-dependent MNPO, `peers` heterogeneous, `outsiders` external (§3.2,
    §3.3); shares mix them. target: 1/(2η) (constant); η·(r(chosen) − r(rejected)) (reward);
    η·(P(chosen beats ·) − P(rejected beats ·)) (probability). Over pairs of π_t the minimiser of
    the squared distance is Π_k opponent_k^w_k · exp(P(y beats π_t)/η) with the constant and Π_k
    opponent_k^w_k · exp(η·P(y beats the history)) with the probability target: multiplicative
    weights.

    η divides in the constant target and multiplies in the others. The gradient is 2(Δ(π_θ) − Σ w
    Δ_k − target) · ∇Δ: the opponents steer it only where Σ w Δ_k is not small beside the target.
    Margins of sequence sums are several nats and more, so η = 0.1, a target of 5 nats, is the
    default; η = 10 takes the same step in the other two. The release's η = 0.0075 asks for 66.7 of
    per-token means whose margins are of order 1: its opponents hardly matter.
    """

    kind: Literal["mnpo"] = "mnpo"
    against: Annotated[
        Annotated[Literal["history", "peers", "outsiders"], Tag("group")]
        | Annotated[MixedOpponents, Tag("shares")],
        Discriminator(lambda against: "group" if isinstance(against, str) else "shares"),
    ] = Field(
        "history",
        description="the opponents: the own past, the other learners, or the frozen players; "
        "or shares of each and of the reference, as written: "
        "{history: 0.5, peers: 0.3, reference: 0.2}",
    )
    weights: tuple[float, ...] | dict[Text, float] | None = Field(
        default_factory=lambda data: (0.5, 0.5) if data.get("against") == "history" else None,
        description="λ. Of the history: a list for π_t, π_{t−1}, …, newest first; how "
        "many says how far back the opponents go. Of others: by player name; null: "
        "all alike. Scaled to add up to one over those that exist: where λ is to be "
        "taken as written, give shares in against",
    )
    ratio: float = Field(0.0, ge=0, le=1, description="the reference's share among the opponents")
    distance: Literal["squared", "bernoulli", "sigmoid"] = Field(
        "squared",
        description="squared; bernoulli, KL(Ber(σ(β·target)) ‖ Ber(σ(β·residual))); or sigmoid, "
        "−log σ(β·residual), whose target is infinite",
    )
    target: Literal["constant", "reward", "probability"] | None = Field(
        default_factory=lambda data: None if data.get("distance") == "sigmoid" else "constant",
        description="of the distances to a finite one: 1/(2η), η × reward gap, "
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
        default_factory=lambda data: None if data.get("distance") == "squared" else 0.1,
        gt=0,
        description="of the Bernoulli and the sigmoid distance: scale of residual and target, per "
        "nat",
    )

    @model_validator(mode="after")
    def _weights_fit(self) -> MNPO:
        weights = self.weights
        if isinstance(self.against, MixedOpponents):
            if weights is not None or self.ratio:
                name, unset = ("ratio", 0) if weights is None else ("weights", "null")
                raise ValueError(
                    f"{name} is not read where against gives shares: write them there, as in "
                    f"{{history: [0.5, 0.2], reference: 0.3}}, and set {name}: {unset}"
                )
            return self
        if self.against == "history" and not isinstance(weights, tuple):
            raise ValueError("weights: the history wants a list, newest generation first")
        if self.against != "history" and isinstance(weights, tuple):
            raise ValueError(
                f"weights: against {self.against} they go by player name, as in "
                f"{{alice: 0.7, bob: 0.3}}"
            )
        if weights is None:
            return self
        values = list(weights.values() if isinstance(weights, dict) else weights)
        if not values:
            raise ValueError("weights: give at least 1 item")
        if self.against == "history" and values[0] == 0:
            raise ValueError("weights: the first (of π_t, which is never absent) must be positive")
        if min(values) < 0 or not 0 < sum(values) < float("inf"):
            raise ValueError("weights must be finite and not negative, one of them positive")
        if sum(values) < NEARLY_ONE:
            raise ValueError(
                f"weights: they add up to {sum(values):g}, but are scaled to 1; give weights of "
                f"sum 1, or, if the rest is nobody's, shares in against: {{{self.against}: …}}"
            )
        return self

    @model_validator(mode="after")
    def _all_read(self) -> MNPO:
        reads = {
            "squared": ("target", "eta"),
            "bernoulli": ("target", "eta", "beta"),
            "sigmoid": ("beta",),
        }[self.distance]
        for name in ("target", "eta", "beta"):
            value = getattr(self, name)
            if (value is None) == (name in reads):
                verdict = "needed" if name in reads else "not read"
                raise ValueError(f"{name} is {verdict} with distance: {self.distance}")
        return self

    def scored_against(self, pool: OpponentPool) -> Shares:
        """The opponents without the reference, which is an anchor and no opponent to beat."""
        if isinstance(self.against, MixedOpponents):
            return scale_to_one(self.against.rivals(pool) or [(pool.current, 1.0)])
        if isinstance(self.weights, tuple):
            return scale_to_one(zip(pool.past, self.weights, strict=False))
        players = {player.name: player for player in pool.others(self.against)}
        weights = self.weights or dict.fromkeys(players, 1.0)
        # One setting serves all learners, and a learner is no peer of its own.
        for name in sorted((weights.keys() ^ players.keys()) - {pool.current.name}):
            fault = "none for player" if name in players else "nobody meets"
            names = ", ".join(players)
            raise ConfigError(f"loss.weights: {fault} '{name}'; give one for each of {names}")
        return scale_to_one((player, weights[name]) for name, player in players.items())

    def opponents(self, pool: OpponentPool) -> Shares:
        if isinstance(self.against, MixedOpponents):
            shares = self.against.rivals(pool)
            ratio = self.against.reference
        else:
            rivals = self.scored_against(pool)
            shares = [(p, (1 - self.ratio) * weight) for p, weight in rivals]
            ratio = self.ratio
        return merge_shares([*shares, (pool.reference, ratio)])

    @property
    def memory(self) -> int:
        """The number of newest generations needed: two against peers, some of whom learn first."""
        if isinstance(self.against, MixedOpponents):
            return max(self.against.generations, 2 if self.against.peers else 0)
        if self.against == "history":
            return super().memory
        return 2 if self.against == "peers" else 0

    def rows(self, batch: PairBatch) -> torch.Tensor:
        residual_B = self.residual_B(batch)
        if self.distance == "squared":
            return squared(residual_B, self._target(batch))
        assert self.beta is not None
        if self.distance == "sigmoid":
            return sigmoid(residual_B, self.beta)
        return bernoulli(residual_B, self._target(batch), self.beta)

    def _target(self, batch: PairBatch) -> torch.Tensor | float:
        """The finite target in nats, one for all or [B]."""
        assert self.eta is not None
        if self.target == "constant":
            return 1 / (2 * self.eta)
        chosen_B = batch.score_chosen_B
        rejected_B = batch.score_rejected_B
        if self.target == "probability":
            chosen_B = probability(chosen_B)
            rejected_B = probability(rejected_B)
        return self.eta * (chosen_B - rejected_B)


class MNPOReleased(ResidualLoss):
    """MNPO as released, to compare with: see `MNPO` for why its opponents hardly steer.

    The history begins with the policy that sampled, π_t itself, also where it is π_0: up to
    `max_history`, behind which `peers` may stand. Log-probabilities are per-token means. β scales
    the logged rewards, β·(log π_θ − log π_ref), and nothing else.
    """

    kind: Literal["mnpo_released"] = "mnpo_released"
    length: Literal["sum", "mean"] = Field(
        "mean", description="an answer's log-probability: sum, or mean per token"
    )
    max_history: int = Field(
        2, ge=1, description="most opponents beside the reference, π_t and peers counted"
    )
    peers: bool = Field(
        False,
        description="the other learners, as they are now, stand behind the own history, as in the "
        "released heterogeneous runs (with max_history: 4)",
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

    def scored_against(self, pool: OpponentPool) -> Shares:
        return [(pool.current, 1.0)]

    @property
    def memory(self) -> int:
        weights = self.weight_K[: self.max_history]
        own = max(place for place, weight in enumerate(weights, 1) if weight > 0)
        return max(own, 2) if self.peers else own

    def opponents(self, pool: OpponentPool) -> Shares:
        """π_0 first, which the logged rewards need even without a share, then the other history."""
        rivals = [*pool.past, *(pool.others("peers") if self.peers else ())]
        present = rivals[: self.max_history]
        history = scale_to_one(zip(present, self.weight_K, strict=False))
        share = {player: (1 - self.ratio) * weight for player, weight in history}
        reference = self.ratio + share.pop(pool.reference, 0.0)
        return [(pool.reference, reference), *share.items()]

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return squared(self.residual_B(batch), 1 / (2 * self.eta))

    def rewards(self, batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
        batch = self.at_length(batch)
        chosen_B = batch.policy_chosen_B - batch.opponent_chosen_KB[0]
        rejected_B = batch.policy_rejected_B - batch.opponent_rejected_KB[0]
        return self.beta * chosen_B, self.beta * rejected_B


class LookingAhead(EstimatesWins, ResidualLoss):
    """Settings of the members whose last policy comes to rest where preferences cycle."""

    steps: ClassVar[float] = 1.0  # how often the constant or the reward target is taken

    target: Literal["constant", "reward", "probability"] = Field(
        "constant", description="in nats: 1/(2η), η × reward gap, or η × gap of win probabilities"
    )
    eta: float = Field(
        default_factory=lambda data: 0.1 if data.get("target") == "constant" else 10.0,
        gt=0,
        description="of the target: divides in the constant one (default 0.1), multiplies in the "
        "others (10); a sure winner's logit rises by 1/η or η",
    )
    ratio: float = Field(0.0, ge=0, le=0.5, description="pull to the start, its share of a step")
    likelihood: float = Field(
        0.0,
        ge=0,
        description="weight of −log(π(chosen) + π(rejected)) in nats, which keeps the policy on "
        "the pairs' answers where these are all that may be said, as legal moves are",
    )

    def scored_against(self, pool: OpponentPool) -> Shares:
        return [(pool.current, 1.0)]

    def rows(self, batch: PairBatch) -> torch.Tensor:
        steps = 1.0 if self.target == "probability" else self.steps
        if self.target == "constant":
            loss_B = squared(self.residual_B(batch), steps / (2 * self.eta))
        else:
            gap_B = batch.score_chosen_B - batch.score_rejected_B
            loss_B = squared(self.residual_B(batch), steps * self.eta * gap_B)
        if not self.likelihood:
            return loss_B
        return loss_B - self.likelihood * batch.policy_chosen_B.logaddexp(batch.policy_rejected_B)


class Optimistic(LookingAhead):
    """π_t moved by 2·P(y beats π_t) − P(y beats π_{t−1}). (arXiv 2512.24818)

    By the probability target this is η × the gap of that sum, both parts estimated over the
    players' recorded answers, and π_t (and the reference) the opponent. By the constant one, 1/η,
    or that of rewards, 2η × their gap, the opponents say what π_{t−1} was worth: log π_t − log
    π_{t−1} = 2·g_{t−1} − g_{t−2} gives g_{t−1} = Σ_k 2^−(k+1) (log π_{t−k} − log π_{t−k−1}), so
    that they are ½ π_t, ¼ π_{t−1}, …, with g_{−1} = 0; no other judgements, but the weights of
    `WINDOW` generations.
    """

    steps: ClassVar[float] = 2.0

    kind: Literal["optimistic"] = "optimistic"
    target: Literal["constant", "reward", "probability"] = Field(
        "probability",
        description="η × gap of 2·P(answer beats π_t) − P(answer beats π_{t−1}); or 1/η nats, or "
        "2η × reward gap, against opponents ½ π_t, ¼ π_{t−1}, … in place of the second part",
    )

    @model_validator(mode="after")
    def _apart(self) -> Optimistic:
        if self.wins == "judged":
            raise ValueError(
                "wins: judged is one probability, and optimism needs two, against π_t and π_{t−1}; "
                "set counted or bradley_terry"
            )
        return self

    def faults(
        self, judge: str, limits: tuple[float, float] | None, compares: bool = False
    ) -> Iterator[str]:
        if self.target == "probability" and compares:
            yield (
                f"'optimistic' needs P(answer beats π_t) and P(answer beats π_{{t−1}}) apart, and "
                f"the judge '{judge}' compares a match's answers; set loss.target: constant, which "
                "needs neither, or take a judge that scores"
            )

    def opponents(self, pool: OpponentPool) -> Shares:
        if self.target == "probability":
            return merge_shares([(pool.reference, self.ratio), (pool.current, 1 - self.ratio)])
        window = pool.past[: WINDOW + 1]
        oldest = 0.5 ** (len(window) - 1)
        shares = [(player, (0.5 - self.ratio) / 2**k) for k, player in enumerate(window[:-1])]
        ends = [(window[-1], (1 - self.ratio) * oldest)]
        return merge_shares([*shares, *ends, (pool.reference, self.ratio * (2 - oldest))])

    def wins_against(self, pool: OpponentPool) -> Shares:
        """2·π_t − π_{t−1}; in the first generation π_0 alone."""
        before = pool.past[1:2]
        return [(pool.current, 1.0 + len(before)), *((player, -1.0) for player in before)]

    @property
    def memory(self) -> int:
        """The number of newest generations needed: π_{t−1} answers, or all of the window."""
        return 2 if self.target == "probability" else WINDOW + 1


class Extragradient(LookingAhead):
    """A half step of every odd generation teaches the step of the next. (arXiv 2503.08942)

    π_{2k+1} is π_{2k} moved by P(y beats π_{2k}), and π_{2k+2} is π_{2k}, too, moved by P(y beats
    π_{2k+1}), on pairs of π_{2k+1}: its opponent, and the weights that its training begins from,
    are those of π_{2k}.
    """

    kind: Literal["extragradient"] = "extragradient"

    def init_from(self, pool: OpponentPool) -> PlayerId:
        """π_t, or behind a half step the generation before it."""
        return pool.past[pool.current.generation % 2]

    def opponents(self, pool: OpponentPool) -> Shares:
        return merge_shares([(pool.reference, self.ratio), (self.init_from(pool), 1 - self.ratio)])

    def faults_of_age(self, age: int) -> Iterator[str]:
        if age % 2:
            yield (
                f"'extragradient' takes two generations a step, and generation {age} is a half "
                "step; set an even number of generations"
            )

    @property
    def memory(self) -> int:
        return 2


class CPO(ResidualLoss):
    """No opponents; −log σ(β·Δ(π_θ)) − c·log π_θ(chosen) per token. (arXiv 2401.08417)"""

    kind: Literal["cpo"] = "cpo"
    beta: Beta = 0.1
    likelihood: float = Field(
        1.0, ge=0, description="weight c of the chosen answer's mean negative log-likelihood"
    )

    def opponents(self, pool: OpponentPool) -> Shares:
        return []

    def rows(self, batch: PairBatch) -> torch.Tensor:
        return sigmoid(self.residual_B(batch), self.beta) + self.likelihood * _chosen_nll(batch)


class ORPO(ResidualLoss):
    """No opponents; −log p(chosen) − λ·log σ(log odds(chosen) − log odds(rejected)).

    p is the geometric mean of an answer's token probabilities, odds(p) = p/(1 − p). (arXiv
    2403.07691, eqs 6 and 7)
    """

    kind: Literal["orpo"] = "orpo"
    length: Literal["mean"] = Field(  # type: ignore[assignment]
        "mean", description="an answer's log-probability: the mean per token"
    )
    odds_weight: float = Field(0.1, gt=0, description="weight λ of the log odds ratio's part")

    def opponents(self, pool: OpponentPool) -> Shares:
        return []

    def rows(self, batch: PairBatch) -> torch.Tensor:
        chosen_B, rejected_B = self.log_ratios(batch)
        log_odds_B = log_odds(chosen_B) - log_odds(rejected_B)
        return _chosen_nll(batch) + self.odds_weight * sigmoid(log_odds_B, 1.0)


class RDPO(AgainstReference):
    """Opponent π_ref (1); −log σ(β·residual + α·(|chosen| − |rejected|)), lengths in tokens.

    DPO of a reward that pays α less for each token. (arXiv 2403.19159, eq. 9)
    """

    kind: Literal["rdpo"] = "rdpo"
    beta: Beta = 0.1
    alpha: float = Field(0.01, ge=0, description="price of a token, in units of reward")

    def rows(self, batch: PairBatch) -> torch.Tensor:
        longer_B = batch.tokens_chosen_B - batch.tokens_rejected_B
        return sigmoid(self.beta * self.residual_B(batch) + self.alpha * longer_B, 1.0)


class KTO(AgainstReference):
    """Opponent π_ref (1); w·(1 − σ(β·(log-ratio(chosen) − z))) + the rejected's with its sign
    turned.

    A pair counts as one desirable and one undesirable example; an answer alone as the one that its
    label says. The paper estimates its reference
    point z, the policy's KL from π_ref, over mismatched answers of the batch; here z is a setting,
    so that a pair's loss does not hang on its neighbours. (arXiv 2402.01306, eq. 8)
    """

    kind: Literal["kto"] = "kto"
    beta: float = Field(0.1, gt=0, description="scale of a log-ratio, per nat")
    point: float = Field(0.0, ge=0, description="reference point z, in nats of KL from π_ref")
    desirable: float = Field(1.0, gt=0, description="weight of the chosen answers")
    undesirable: float = Field(1.0, gt=0, description="weight of the rejected answers")

    @property
    def reads_single(self) -> bool:
        return True

    def rows(self, batch: PairBatch) -> torch.Tensor:
        chosen_B, rejected_B = self.log_ratios(batch)
        lost_B = (self.beta * (self.point - chosen_B)).sigmoid()
        kept_B = (self.beta * (rejected_B - self.point)).sigmoid()
        has_chosen_B = (batch.tokens_chosen_B > 0).to(lost_B)
        has_rejected_B = (batch.tokens_rejected_B > 0).to(kept_B)
        chosen_loss_B = self.desirable * lost_B * has_chosen_B
        rejected_loss_B = self.undesirable * kept_B * has_rejected_B
        return chosen_loss_B + rejected_loss_B

    def metrics(self, batch: PairBatch) -> dict[str, torch.Tensor]:
        """Numbers to log [B]. The margin and reward of an answer that is not there are 0;
        `has_chosen` and `has_rejected` are the shares of rows with one.
        """
        there = {
            "has_chosen": (batch.tokens_chosen_B > 0).to(batch.tokens_chosen_B),
            "has_rejected": (batch.tokens_rejected_B > 0).to(batch.tokens_rejected_B),
        }
        return super().metrics(batch) | there


def _chosen_nll(batch: PairBatch) -> torch.Tensor:
    return -batch.policy_chosen_B / batch.tokens_chosen_B


def log_odds(logprob_B: torch.Tensor) -> torch.Tensor:
    """log(p / (1 − p)) of log p ≤ 0, in nats; p stays below 1 by 1e-6.

    >>> log_odds(torch.tensor([0.8]).log())
    tensor([1.3863])
    """
    import torch

    logprob_B = logprob_B.clamp(max=CERTAIN)
    return logprob_B - torch.log(-torch.expm1(logprob_B))
