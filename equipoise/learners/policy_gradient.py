"""Policy gradients: PPO with its own critic, and the methods without one.

    estimator        advantage of an answer's tokens                       usual name
    gae              Σ (γλ)^k δ of a critic's values                       PPO
    group_relative   (reward − mean of its group) / deviation of its group GRPO
    leave_one_out    reward − mean of the others in its group              RLOO
    batch            reward to go, normalised over the batch               REINFORCE++
    role_baseline    reward − moving average of its role's rewards         SPIRAL's

A group is the answers to one chat in one role. One generation is one batch and `epochs`
passes over it. `learners.policy_trainer` does the work.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator

from equipoise.learners.base import TrainingBatch
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.processes import Launchable
from equipoise.players.base import Precision


class PolicyGradient(PolicyGradientSettings, Launchable):
    """Raises the probability of moves that were paid more than expected, by the clipped
    surrogate of PPO.

    Sources: PPO arXiv 1707.06347, its details arXiv 2203.02155 and 1909.08593; GRPO
    arXiv 2402.03300; RLOO arXiv 2402.14740; REINFORCE++ arXiv 2501.03262; role
    baselines arXiv 2506.24119.
    """

    kind: Literal["policy_gradient"] = "policy_gradient"
    needs: ClassVar = "episodes"

    @model_validator(mode="after")
    def _divides_batches_alone(self) -> PolicyGradient:
        config = {} if self.launch is None else self.launch.accelerate()
        if config.get("distributed_type") in ("FSDP", "DEEPSPEED"):
            raise ValueError(
                "launch: policy_gradient divides batches among processes, not the "
                "model; use ddp"
            )
        return self

    def carried_precision(self) -> Precision:
        """That of its own products; `auto` counts as fp32."""
        return "bf16" if self.precision == "bf16" else "fp32"

    def steps(self, examples: int) -> int:
        """Optimizer steps of an update."""
        return self.epochs * self.minibatches

    def kept(self, parameters: int, adapter: bool) -> int:
        """The reference, unless it is an adapter, and a critic that is a model, with its
        gradients and moments.
        """
        width = 2 if self.precision == "bf16" else 4
        reference = width * parameters if self.kl and not adapter else 0
        critic = 16 * parameters if self.critic == "model" else 0
        return reference + critic

    def learn_here(self, batch: TrainingBatch) -> dict[str, float]:
        """One update from `batch.state`, in several processes.

        The next state is written into `batch.output`.
        """
        from equipoise.learners.policy_trainer import PolicyTrainer

        assert batch.state is not None
        trainer = PolicyTrainer(self, batch.player, batch.learner.name, batch.seed)
        trainer.load(batch.state, batch.learner.generation)
        first = trainer.accelerator.is_main_process
        log = batch.log if first else lambda line: None
        facts = trainer.learn(batch.episodes, batch.turns, batch.seed, log)
        if first:
            trainer.save_state(batch.output)
        return facts
