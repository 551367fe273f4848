"""Policy gradients: PPO with its own critic, and the methods without one.

    estimator        advantage of an answer's tokens                       usual name
    gae              Σ (γλ)^k δ of a critic's values                       PPO
    group_relative   (reward − mean of its group) / deviation of its group GRPO
    leave_one_out    reward − mean of the others in its group              RLOO
    batch            reward to go, normalised over the batch               REINFORCE++
    role_baseline    reward − moving average of its role's rewards         SPIRAL's

A group is the answers to one chat in one role. One generation is one batch and `epochs` passes over
it. `learners.policy_trainer` does the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import model_validator

from equipoise.errors import DataError, ModelError
from equipoise.games.base import Game
from equipoise.learners import automatic
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.pretraining_loss import PretrainingRows
from equipoise.models.loading import load_tokenizer
from equipoise.players.base import Player, Precision
from equipoise.players.local import Local
from equipoise.players.local_settings import LocalSettings

if TYPE_CHECKING:
    from equipoise.learners.policy_trainer import PolicyTrainer


class PolicyGradient(PolicyGradientSettings, Learner):
    """Raises the probability of moves that earned more than expected, by PPO's clipped surrogate.

    Sources: PPO arXiv 1707.06347, its details arXiv 2203.02155 and 1909.08593; GRPO arXiv
    2402.03300; RLOO arXiv 2402.14740; REINFORCE++ arXiv 2501.03262; role baselines arXiv
    2506.24119.
    """

    kind: Literal["policy_gradient"] = "policy_gradient"
    needs: ClassVar = "episodes"

    @model_validator(mode="after")
    def _can_be_divided(self) -> PolicyGradient:
        config = {} if self.launch is None else self.launch.accelerate()
        kind = config.get("distributed_type")
        if kind == "DEEPSPEED":
            raise ValueError(
                "launch: policy_gradient divides its batches (ddp) and its weights "
                "(fsdp2), not by DeepSpeed"
            )
        if kind == "FSDP" and config.get("fsdp_config", {}).get("fsdp_offload_params"):
            raise ValueError(
                "launch: policy_gradient keeps its shares on the devices; set "
                "fsdp_offload_params: false"
            )
        return self

    def faults(self, player: Player, game: Game) -> Iterator[str]:
        if not isinstance(player, Local):
            yield f"'{self.kind}' trains players of kind 'local', not '{player.kind}'"
        divides = self.launch is not None and self.launch.divides_weights
        if divides and isinstance(player, LocalSettings) and player.lora is not None:
            yield "launch: fsdp2 divides whole weights; with lora, use ddp"
            return
        yield from automatic.faults_of_weights(self.optimizer, self.launch, player)
        yield from automatic.faults_of_recomputing(self.gradient_checkpointing, player)
        if not isinstance(player, LocalSettings):
            return
        if player.lora is not None and player.lora.dropout:
            yield "lora.dropout: a policy gradient learns from what was sampled, without; set 0"
        if self.pretraining is not None:
            try:
                PretrainingRows(self.pretraining, player.encoding(), seed=0)
            except (DataError, ModelError) as error:
                yield f"pretraining: {error}"
        if self.critic_model is None:
            return
        try:
            tokens = [load_tokenizer(m).get_vocab() for m in (self.critic_model, player.model)]
        except ModelError as error:
            yield f"critic_model: {error}"
            return
        if tokens[0] != tokens[1]:
            yield f"critic_model: '{self.critic_model}' has other tokens than '{player.model}'"

    def notes(self) -> tuple[str, ...]:
        if not self.whiten_advantages or not self.whiten_floor:
            return ()
        return (
            "learner: advantages are whitened in batches whose rewards have a standard deviation "
            f"of at least whiten_floor = {self.whiten_floor:g}",
        )

    def carried_precision(self) -> Precision:
        return "bf16" if self.precision == "bf16" else "fp32"  # auto counts as fp32

    def share_of_outcome(self, later: int) -> float:
        return self.turn_discount**later

    def steps(self, examples: int) -> int:
        return self.epochs * self.minibatches

    def extra_bytes(self, parameters: int, adapter: bool) -> int:
        width = 2 if self.precision == "bf16" else 4
        reference = width * parameters if self.kl and not adapter else 0
        # weights, gradients (float32) and AdamW's two moments
        each = 10 if self.optimizer == "adamw_8bit" else 16
        critic = each * parameters if self.critic == "model" else 0
        return reference + critic

    def learn(self, batch: TrainingBatch) -> dict[str, float]:
        """Update the trainer among `batch.resources`, first from `batch.state` where given.

        Writes the weights that sample into `batch.output`.
        """
        from equipoise.learners.policy_trainer import PolicyTrainer
        from equipoise.learners.sharding import Sharding

        name = batch.learner.name
        trainer = batch.resources.get(
            ("policy trainer", name),
            lambda: PolicyTrainer(
                self, batch.player, name, batch.first_seed, sharding=Sharding.of(self.launch)
            ),
        )
        if batch.state is not None:
            trainer.load(batch.state, batch.learner.generation)
        assert trainer.learner == batch.learner, "it has learned from every batch"
        facts = trainer.learn(batch.episodes, batch.turns, batch.seed, batch.log)
        trainer.save_update(batch.output)
        return facts

    def save_state(self, batch: TrainingBatch) -> None:
        """Write the state of the trainer among `batch.resources` into `batch.output`."""

        def absent() -> PolicyTrainer:
            raise AssertionError(f"{batch.learner} has not learned here")

        trainer = batch.resources.get(("policy trainer", batch.learner.name), absent)
        trainer.save_state(batch.output)
