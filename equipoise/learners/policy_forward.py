"""Forward passes of policy, critic and reference over a batch of moves."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.rollouts import RolloutBatch
from equipoise.learners.sharding import ProcessRank
from equipoise.learners.trainable_model import Critic, TrainableModel
from equipoise.models.output_head import AnswerHead
from equipoise.models.packing import PackedBatch, PromptAnswers, pack, shares_prompts
from equipoise.models.token_choice import SamplingSettings


class TokenNumbers(NamedTuple):
    """Numbers of each token of a batch, [B, T], 0 outside the mask.

    logprob_BT: in nats. value_BT: the critic's, where there is one. entropy_BT: in nats, where it
    is in the loss and gradients are on, or has a target.
    """

    logprob_BT: torch.Tensor
    value_BT: torch.Tensor | None
    entropy_BT: torch.Tensor | None


class PolicyForward:
    """Calls a learner's models, `batch_size` moves at a time, sharing prompts where it can."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        policy: TrainableModel,
        critic: Critic | None,
        pad_id: int,
        temperature: float,
        rank: ProcessRank,
    ) -> None:
        self.settings, self.policy, self.critic = settings, policy, critic
        self.pad_id, self.temperature = pad_id, temperature
        self.rank, self.device = rank, rank.device
        self.head = AnswerHead(policy.model, temperature=temperature, keep=True)
        self.shared = False

    def autocast(self) -> torch.autocast:
        """Matrix products in the learner's precision."""
        enabled = self.settings.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled)

    def portions(self, batch: RolloutBatch) -> list[list[int]]:
        """The batch's rows for each forward pass."""
        rows = batch.by_prompt(range(len(batch)))
        size = self.settings.batch_size
        return [rows[begin : begin + size] for begin in range(0, len(rows), size)]

    @torch.no_grad()
    def complete(self, batch: RolloutBatch) -> None:
        """Fill in the batch's log-probabilities and values before the update."""
        self.decide_sharing(batch)
        here = self.rank.portions_here(self.portions(batch))
        portions = [rows for rows, _ in here]
        numbers = [self.tokens(batch.select(rows)) for rows in portions]
        batch.old_BT = self._assemble_all(batch, here, [n.logprob_BT for n in numbers])
        if self.critic is not None:
            values = [n.value_BT for n in numbers if n.value_BT is not None]
            batch.value_BT = self._assemble_all(batch, here, values)
        if self.settings.entropy_target is not None:
            entropies = [n.entropy_BT for n in numbers if n.entropy_BT is not None]
            batch.entropy_BT = self._assemble_all(batch, here, entropies)
        if self.settings.kl:
            references = [self.reference(batch.select(rows)) for rows in portions]
            batch.reference_BT = self._assemble_all(batch, here, references)

    def _assemble_all(
        self,
        batch: RolloutBatch,
        here: Sequence[tuple[list[int], float]],
        parts: Sequence[torch.Tensor],
    ) -> torch.Tensor:
        """[B, T] from the portions of all processes."""
        counting = [n for n, (_, weight) in enumerate(here) if weight]
        portions = [here[n][0] for n in counting]
        whole_BT = _assemble(batch, portions, [parts[n] for n in counting])
        return self.rank.add_up(whole_BT)

    def decide_sharing(self, batch: RolloutBatch) -> None:
        """Let the moves of this batch share their prompts, if the architecture can."""
        model = self.policy.activate()
        example = batch.select(self.portions(batch)[0]).by_shared_prompt()[0]
        self.shared = shares_prompts(self.head, model, example, batch.longest)

    def tokens(self, batch: RolloutBatch) -> TokenNumbers:
        """The policy's and the critic's numbers of the tokens, in one forward pass."""
        model = self.policy.activate()
        packed = self._pack(batch.by_shared_prompt(), self.shared)
        wide = _widener(packed, batch.mask_BT.shape[1])
        value_BT = entropy_BT = None
        settings = self.settings
        with_entropy = settings.entropy and torch.is_grad_enabled()
        with_entropy = with_entropy or settings.entropy_target is not None
        with self.autocast():
            logprob_N = packed.tokens(self.head, model)
            hidden_NH = self.head.hidden_NH
            if self.critic is not None:
                value_BT = wide(self.critic(packed, hidden_NH))
            if with_entropy:
                assert hidden_NH is not None
                entropy_BT = wide(self.head.entropy(hidden_NH))
        return TokenNumbers(wide(logprob_N), value_BT, entropy_BT)

    def given_answers(self, rows: Sequence[PromptAnswers]) -> torch.Tensor:
        """The summed log-probability of each row's answer, at temperature 1, in nats."""
        packed = self._pack(rows, shared=False)
        with self.autocast():
            model = self.policy.activate()
            head = AnswerHead(model)
            head.tail = self.head.tail
            return packed.sums(head, model)

    def reference(self, batch: RolloutBatch) -> torch.Tensor:
        """The reference's log-probabilities [B, T], in nats."""
        packed = self._pack(batch.by_shared_prompt(), self.shared)
        with self.autocast(), self.policy.reference() as model:
            head = AnswerHead(model, temperature=self.temperature)
            head.tail = self.head.tail
            logprob_N = packed.tokens(head, model)
        return _widener(packed, batch.mask_BT.shape[1])(logprob_N)

    @torch.no_grad()
    def undo_cuts(self, batch: RolloutBatch, top_k: int, top_p: float, min_p: float = 0.0) -> None:
        """Turn log-probabilities after the sampler's cuts into those from before them.

        The mass that the cuts keep is the policy's own, so the two differ afterwards as the
        distributions after the cuts do.
        """
        settings = SamplingSettings(self.temperature, top_k, top_p, min_p=min_p)
        if not settings.cuts:
            return
        portions = self.portions(batch)
        parts: list[torch.Tensor] = []
        for rows in portions:
            portion = batch.select(rows)
            packed = self._pack(portion.by_shared_prompt(), self.shared)
            with self.autocast():
                packed.tokens(self.head, self.policy.activate())
                hidden_NH = self.head.hidden_NH
                assert hidden_NH is not None
                mass_N = self.head.kept_mass(hidden_NH, settings)
            parts.append(_widener(packed, portion.mask_BT.shape[1])(mass_N))
        kept_BT = _assemble(batch, portions, parts)
        batch.sampled_BT = batch.sampled_BT + kept_BT * batch.mask_BT

    def alone(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """The policy's log-probabilities of answers to prompts, nothing shared."""
        model = self.policy.activate().eval()
        singles = [
            PromptAnswers(prompt, [answer]) for prompt, answer in zip(prompts, answers, strict=True)
        ]
        packed = self._pack(singles, shared=False)
        with self.autocast():
            return packed.by_answer(packed.tokens(self.head, model).float())

    def enable_checkpointing(self) -> None:
        """Enable gradient checkpointing, if it is set, in training mode without dropout."""
        if not self.settings.gradient_checkpointing:
            return
        for model in (self.policy.model, self.critic):
            for module in () if model is None else model.modules():
                if isinstance(module, GradientCheckpointingLayer):
                    module.training = True

    def _pack(self, groups: Sequence[PromptAnswers], shared: bool) -> PackedBatch:
        return pack(groups, self.pad_id, shared=shared).to(self.device)


def _widener(packed: PackedBatch, width: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function from the packed answers' N tokens to [B, width]."""

    def wide(value_N: torch.Tensor) -> torch.Tensor:
        value_BT = packed.by_answer(value_N.float())
        return nn.functional.pad(value_BT, (0, width - value_BT.shape[1]))

    return wide


def _assemble(
    batch: RolloutBatch, portions: Sequence[list[int]], parts: Sequence[torch.Tensor]
) -> torch.Tensor:
    """[B, T] from numbers that were computed in portions."""
    whole_BT = torch.zeros_like(batch.mask_BT, dtype=torch.float32)
    for rows, part_BT in zip(portions, parts, strict=True):
        whole_BT[torch.tensor(rows, device=whole_BT.device)] = part_BT
    return whole_BT
