"""Settings of a policy gradient."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from equipoise.component import Settings
from equipoise.learners import automatic
from equipoise.learners.estimators import Estimator
from equipoise.learners.launch import Launch
from equipoise.learners.pretraining_loss import PretrainingLoss
from equipoise.losses.policy import PolicyLoss
from equipoise.losses.surrogate import Over
from equipoise.players.base import Player
from equipoise.system.effects import Model


def of_estimator(data: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """The estimator's class variable `name`; `otherwise` for a faulty estimator."""
    return getattr(data.get("estimator"), name, otherwise)


class PolicyGradientSettings(Settings):
    """The settings that an update reads. Defaults: GPO (arXiv 2406.10977)."""

    launch: Launch | None = Field(None, description="train in several processes; null: in this one")
    estimator: Estimator = Field(default="gae", description="what a move's reward is compared with")  # type: ignore[assignment]
    turn_discount: float = Field(
        1.0, gt=0, le=1, description="of what a match pays, for every later move of the same seat"
    )
    critic: Literal["model", "head"] | None = Field(
        default_factory=lambda data: "model" if of_estimator(data, "needs_critic", False) else None,
        description="where the estimator needs one, as gae does: a model of its own, "
        "or a linear head on the policy's last hidden states",
    )
    critic_model: Model | None = Field(
        None, description="a model that the critic starts from; null: the player's own"
    )
    optimizer: automatic.Optimizer = "adamw_fused"
    learning_rate: float = Field(5e-7, gt=0, description="of the policy, by AdamW")
    critic_learning_rate: float | None = Field(
        default_factory=lambda data: None if data.get("critic") is None else 1.5e-6,
        gt=0,
        description="of the critic",
    )
    warmup_steps: int = Field(
        100, ge=0, description="optimizer steps over which learning rates rise"
    )
    warmup_floor: float = Field(
        0.0,
        ge=0,
        le=1,
        description="the least share of the peak rate in the warm-up; GPO's released code: 0.1",
    )
    rate_lag: int = Field(
        0,
        ge=0,
        description="optimizer steps by which the rate stays behind; GPO's released code: 1, since "
        "its first step is counted as step 0",
    )
    scheduler: Literal["constant_with_warmup", "inverse_sqrt"] = Field(
        "constant_with_warmup",
        description="how learning rates go on after the warm-up: as they are, or times "
        "√(warmup_steps/step), as GPO's released code has it",
    )
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay of AdamW")
    betas: tuple[float, float] = Field(
        (0.9, 0.999), description="AdamW's decay of the moments: of the gradient, of its square"
    )
    epsilon: float = Field(1e-8, gt=0, description="AdamW's least divisor, of the policy's weights")
    max_grad_norm: float = Field(
        1.0, gt=0, description="the policy's and the critic's gradients are each cut to this norm"
    )
    epochs: int = Field(1, ge=1, description="passes over a batch")
    minibatches: int = Field(1, ge=1, description="optimizer steps in a pass")
    batch_size: int = Field(16, ge=1, description="moves in one forward pass")
    policy_loss: PolicyLoss = Field(
        default="clipped",  # type: ignore[assignment]
        description="what is done with a token's advantage",
    )
    value_clip: float = Field(
        0.2, gt=0, description="how far a value moves before its gradient is cut, in reward units"
    )
    kl: float = Field(
        0.01,
        ge=0,
        description="weight of the KL from the start, in reward a nat; 0: no reference is kept",
    )
    kl_in: Literal["reward", "loss"] = Field(
        default_factory=lambda data: of_estimator(data, "kl_in", "reward"),
        description="taken off the reward token by token (k1), or added to the loss (k3)",
    )
    kl_target: float | None = Field(
        None, gt=0, description="adapt the weight to this KL an answer, in nats; null: constant"
    )
    kl_horizon: int = Field(10_000, ge=1, description="moves over which the weight adapts")
    max_kl: float = Field(200.0, gt=0, description="a larger KL an answer, in nats, stops the run")
    entropy: float = Field(0.0, ge=0, description="weight of the entropy bonus, in reward a nat")
    entropy_target: float | None = Field(
        None,
        gt=0,
        description="pull the mean entropy of a token to so many nats, with the weight `entropy`, "
        "rather than up; null: up",
    )
    reward_clip: float | None = Field(
        None, gt=0, description="rewards of moves are cut to ± so much; null: not"
    )
    advantage_clip: float | None = Field(
        None,
        gt=0,
        description="advantages of tokens are cut to ± so much, after whitening; null: not",
    )
    pretraining: PretrainingLoss | None = Field(
        None,
        description="given answers that are learned beside the rewards, so that a policy does not "
        "forget them (PPO-ptx); null: none",
    )
    whiten_advantages: bool = Field(
        default_factory=lambda data: of_estimator(data, "whitens", False),
        description="bring advantages to mean 0 and deviation 1 over the tokens of a batch",
    )
    whiten_floor: float = Field(
        0.01,
        ge=0,
        description="least standard deviation of a batch's rewards, in reward units, for it to be "
        "whitened: below, advantages stay as they are, being noise; 0: always whiten",
    )
    over: Over = Field(
        default_factory=lambda data: of_estimator(data, "over", "token"),
        description="the loss is a mean over tokens, over answers, or a sum over a constant length",
    )
    train_on_thoughts: bool = Field(
        True,
        description="learn from the tokens of thoughts as from the answer's, as GRPO does; false: "
        "from the answer's alone, given its thoughts",
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="bf16: matrix products in bfloat16, weights that are trained in "
        "float32; auto: bf16 on an accelerator from a billion parameters on, and on a CPU that "
        "is faster in it from a hundred million on, else fp32",
    )
    gradient_checkpointing: automatic.Recomputed = "auto"
    save_every: int = Field(
        20, ge=1, description="updates between two states on disk, from which a run is resumed"
    )
    probes: int = Field(
        4, ge=1, description="moves on which sampler and learner are compared after each update"
    )
    likelihood: Literal["player", "model"] = Field(
        "player",
        description="the policy that learns: the player's at its temperature, before top-k and "
        "top-p; or the model's at temperature 1, its samples weighed by sampler_correction",
    )
    sampler_correction: Literal["truncate", "mask", "none"] = Field(
        "truncate",
        description="importance weights of tokens that an engine sampled (a player's "
        "`sampler`), or with likelihood: model: cut at sampler_limit, or those beyond it left "
        "out, or none",
    )
    sampler_limit: float = Field(
        2.0, gt=1, description="the largest importance weight, and 1/it the least that `mask` keeps"
    )
    max_disagreement: float | None = Field(
        None,
        gt=0,
        description="nats a token by which they may differ on average; more stops the "
        "run. null: 0.001 in fp32, 0.02 where its products are TF32, 0.25 in bf16",
    )

    def resolve_auto(self, player: Player) -> Self:
        return automatic.resolve_auto(self, player)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        kind = self.estimator.kind
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: must lie in [0, 1); they are {self.betas}")
        if self.scheduler == "inverse_sqrt" and not self.warmup_steps:
            raise ValueError(
                "scheduler: inverse_sqrt falls from the end of the warm-up on; set warmup_steps"
            )
        if self.estimator.needs_critic != (self.critic is not None):
            verdict = "needs one" if self.critic is None else "has none"
            raise ValueError(f"critic: {kind} {verdict}")
        if (self.critic is None) != (self.critic_learning_rate is None):
            raise ValueError("critic_learning_rate: goes with a critic, and only with one")
        if self.critic_model is not None and self.critic != "model":
            raise ValueError("critic_model: is read by critic: model only")
        if self.entropy_target is not None and not self.entropy:
            raise ValueError("entropy_target: is pulled to with the weight `entropy`, which is 0")
        if self.kl_target is not None and not self.kl:
            raise ValueError("kl_target: adapts the weight `kl`, which is 0")
        return self
