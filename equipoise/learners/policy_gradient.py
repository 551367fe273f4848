"""Policy gradients: PPO with its own critic, and the estimators without one. The
settings; `learners.policy_trainer` learns.

    estimator        advantage of an answer's tokens                                          usual name
    gae              Σ (γλ)^k δ of a critic's values                                          PPO
    group_relative   (reward − mean of its group) / deviation of its group                    GRPO
    leave_one_out    reward − mean of the others in its group                                 RLOO
    batch            reward to go, normalised over the batch                                  REINFORCE++
    role_baseline    reward − moving average of its role's rewards                            SPIRAL's, for self-play

A group is the answers to one chat in one role. One generation is one batch and `epochs`
passes over it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from equipoise.learners.base import TrainingBatch
from equipoise.learners.launch import Launchable

Estimator = Literal["gae", "group_relative", "leave_one_out", "batch", "role_baseline"]


class PolicyGradient(Launchable):
    """Raises the probability of moves that were paid more than expected, by the clipped
    surrogate of PPO.

    Sources: PPO arXiv 1707.06347, its details arXiv 2203.02155 and 1909.08593; GRPO
    arXiv 2402.03300; RLOO arXiv 2402.14740; REINFORCE++ arXiv 2501.03262; role
    baselines arXiv 2506.24119. Defaults: GPO (arXiv 2406.10977).
    """

    kind: Literal["policy_gradient"] = "policy_gradient"
    needs: ClassVar = "episodes"

    estimator: Estimator = Field(
        "gae", description="what a move's reward is compared with"
    )
    critic: Literal["model", "head"] | None = Field(
        default_factory=lambda data: (
            "model" if data.get("estimator") == "gae" else None
        ),
        description="of gae: a model of its own, or a linear head on the policy's last hidden states",
    )
    critic_model: str | None = Field(
        None, description="a model that the critic starts from; null: the player's own"
    )
    learning_rate: float = Field(5e-7, gt=0, description="of the policy, by AdamW")
    critic_learning_rate: float | None = Field(
        default_factory=lambda data: None if data.get("critic") is None else 1.5e-6,
        gt=0,
        description="of the critic",
    )
    warmup_steps: int = Field(
        100,
        ge=0,
        description="optimizer steps over which learning rates rise; then constant",
    )
    weight_decay: float = Field(
        0.0, ge=0, description="decoupled weight decay of AdamW"
    )
    max_grad_norm: float = Field(
        1.0,
        gt=0,
        description="the policy's and the critic's gradients are each cut to this norm",
    )
    epochs: int = Field(1, ge=1, description="passes over a batch")
    minibatches: int = Field(1, ge=1, description="optimizer steps in a pass")
    batch_size: int = Field(16, ge=1, description="moves in one forward pass")
    gamma: float = Field(
        1.0,
        gt=0,
        le=1,
        description="discount from token to token; read by gae and batch",
    )
    lam: float = Field(0.95, ge=0, le=1, description="λ of gae")
    clip: float = Field(
        0.2,
        gt=0,
        description="how far a token's probability ratio moves before its gradient is cut",
    )
    clip_high: float | None = Field(
        None, gt=0, description="the same upwards, where it differs"
    )
    value_clip: float = Field(
        0.2,
        gt=0,
        description="how far a value moves before its gradient is cut, in reward units",
    )
    kl: float = Field(
        0.01,
        ge=0,
        description="weight of the KL from the start, in reward a nat; 0: no reference is kept",
    )
    kl_in: Literal["reward", "loss"] = Field(
        default_factory=lambda data: (
            "loss" if data.get("estimator") == "group_relative" else "reward"
        ),
        description="taken off the reward token by token (k1), or added to the loss (k3)",
    )
    kl_target: float | None = Field(
        None,
        gt=0,
        description="adapt the weight to this KL an answer, in nats; null: constant",
    )
    kl_horizon: int = Field(
        10_000, ge=1, description="moves over which the weight adapts"
    )
    max_kl: float = Field(
        200.0, gt=0, description="a larger KL an answer, in nats, stops the run"
    )
    entropy: float = Field(
        0.0, ge=0, description="weight of the entropy bonus, in reward a nat"
    )
    whiten_rewards: bool = Field(
        False, description="bring rewards by token to deviation 1; read by gae"
    )
    whiten_advantages: bool = Field(
        default_factory=lambda data: data.get("estimator") == "gae",
        description="bring advantages to mean 0 and deviation 1 over the tokens of a batch",
    )
    scale_by_group: bool = Field(
        True,
        description="of group_relative: divide by the group's deviation (not: Dr. GRPO)",
    )
    role_decay: float = Field(
        0.95,
        ge=0,
        lt=1,
        description="of role_baseline: weight of the past in the moving average",
    )
    over: Literal["token", "answer", "constant"] = Field(
        default_factory=lambda data: (
            "answer" if data.get("estimator") == "group_relative" else "token"
        ),
        description="the loss is a mean over tokens, over answers, or a sum over a constant length",
    )
    precision: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="bf16: matrix products in bfloat16, weights that are trained in float32",
    )
    gradient_checkpointing: bool = Field(
        False, description="compute activations again in the backward pass"
    )
    save_every: int = Field(
        20,
        ge=1,
        description="updates between two states on disk, from which a run is resumed",
    )
    probes: int = Field(
        4,
        ge=1,
        description="moves on which sampler and learner are compared after each update",
    )
    max_disagreement: float = Field(
        default_factory=lambda data: 0.25 if data.get("precision") == "bf16" else 1e-3,
        gt=0,
        description="nats a token by which they may differ on average; more stops the run",
    )

    @model_validator(mode="after")
    def _all_read(self) -> PolicyGradient:
        if (self.estimator == "gae") != (self.critic is not None):
            raise ValueError(
                f"critic: {'gae needs one' if self.critic is None else f'{self.estimator} has none'}"
            )
        if (self.critic is None) != (self.critic_learning_rate is None):
            raise ValueError(
                "critic_learning_rate: goes with a critic, and only with one"
            )
        if self.critic_model is not None and self.critic != "model":
            raise ValueError("critic_model: is read by critic: model only")
        if self.launch is not None and self.launch.accelerate().get(
            "distributed_type"
        ) in ("FSDP", "DEEPSPEED"):
            raise ValueError(
                "launch: policy_gradient divides batches among processes, not the model; use ddp"
            )
        if self.kl_target is not None and not self.kl:
            raise ValueError("kl_target: adapts the weight `kl`, which is 0")
        return self

    def kept(self, parameters: int, adapter: bool) -> int:
        """The reference, where it is no adapter, and a critic that is a model, with its
        gradients and moments.
        """
        reference = 4 * parameters if self.kl and not adapter else 0
        return reference + (16 * parameters if self.critic == "model" else 0)

    def learn_here(self, training_batch: TrainingBatch) -> dict[str, float]:
        """One update from `training_batch.state`, in several processes; the next state
        is written into `training_batch.output`.
        """
        from equipoise.learners.policy_trainer import PolicyTrainer

        assert training_batch.state is not None
        policy_trainer = PolicyTrainer(
            self,
            training_batch.player,
            training_batch.learner.name,
            training_batch.seed,
        )
        policy_trainer.load(training_batch.state, training_batch.learner.generation)
        first = policy_trainer.accelerator.is_main_process
        facts = policy_trainer.learn(
            training_batch.episodes,
            training_batch.turns,
            training_batch.seed,
            training_batch.log if first else lambda line: None,
        )
        if first:
            policy_trainer.save_state(training_batch.output)
        return facts

    def steps(self, examples: int) -> int:
        """Optimizer steps of an update."""
        return self.epochs * self.minibatches
