"""A batch of moves and rewards as tensors, with importance weights of an engine's samples.

B moves, T tokens of the longest. Tensors [B, T] are float32 on the learner's device; a move's
tokens stand on the left, and 0 behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch

from equipoise.errors import ConfigError, NoSignal
from equipoise.losses import kl
from equipoise.models.chat_encoding import Encoding
from equipoise.models.packing import LONGEST_SHARED, PromptAnswers
from equipoise.types import Episode, Turn


def _empty() -> torch.Tensor:
    return torch.zeros(0)


@dataclass
class RolloutBatch:
    """The moves, and the numbers of each token before the update.

    prompts, answers: token ids.
    reward_B: each move's reward.
    group_B: integers, equal for moves that answered one chat in one role.
    roles: the role of each move.
    mask_BT: true on a move's tokens.
    sampled_BT: log-probabilities that the sampler gave, in nats, before top-k and
        top-p cut, or with likelihood: model after.
    learned_BT: true on the tokens that the policy learns from: not on the end of thoughts that
        reached their limit, and on thoughts only where they are learned.
    old_BT: the policy's own, before the update.
    reference_BT: those of the policy that training started from.
    value_BT: the critic's values, before each token.
    entropy_BT: the policy's entropy at each token, in nats, where it has a target.
    advantage_BT: what the policy learns by. return_BT: the critic's targets.
    """

    prompts: list[list[int]]
    answers: list[list[int]]
    reward_B: torch.Tensor
    group_B: torch.Tensor
    roles: list[str]
    mask_BT: torch.Tensor
    sampled_BT: torch.Tensor
    learned_BT: torch.Tensor = field(default_factory=_empty)
    old_BT: torch.Tensor = field(default_factory=_empty)
    reference_BT: torch.Tensor = field(default_factory=_empty)
    value_BT: torch.Tensor = field(default_factory=_empty)
    entropy_BT: torch.Tensor = field(default_factory=_empty)
    advantage_BT: torch.Tensor = field(default_factory=_empty)
    return_BT: torch.Tensor = field(default_factory=_empty)

    def __post_init__(self) -> None:
        if not len(self.learned_BT):
            self.learned_BT = self.mask_BT

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return sum(map(len, self.prompts)) + sum(map(len, self.answers))

    @property
    def alone(self) -> float:
        """The share of moves that no other move of their group can be compared with."""
        sizes = self.group_B.unique(return_counts=True)[1]
        return (sizes == 1).sum().item() / len(self)

    @property
    def longest(self) -> int:
        """The most tokens that a prompt and its answer have together."""
        pairs = zip(self.prompts, self.answers, strict=True)
        return max(len(prompt) + len(answer) for prompt, answer in pairs)

    def select(self, rows: Sequence[int]) -> RolloutBatch:
        """The batch of these rows, as wide as this one."""
        index = torch.tensor(rows, device=self.mask_BT.device)
        parts = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, torch.Tensor):
                parts[part.name] = value[index] if len(value) else value
            else:
                parts[part.name] = [value[row] for row in rows]
        return RolloutBatch(**parts)

    def by_prompt(self, rows: Sequence[int]) -> list[int]:
        """The rows, those with one prompt together, so that they can share its computation."""
        return sorted(rows, key=lambda b: (len(self.prompts[b]), self.prompts[b], b))

    def by_shared_prompt(self) -> list[PromptAnswers]:
        """Prompts with the answers that are to share a forward pass with them, in order."""
        groups: list[PromptAnswers] = []
        length = 0
        for prompt, answer in zip(self.prompts, self.answers, strict=True):
            length += len(answer)
            if groups and groups[-1].prompt == prompt and length <= LONGEST_SHARED:
                groups[-1] = PromptAnswers(prompt, [*groups[-1].answers, answer])
            else:
                groups.append(PromptAnswers(prompt, [answer]))
                length = len(prompt) + len(answer)
        return groups

    def token_rewards(self, kl_weight: float | None = None) -> torch.Tensor:
        """reward_BT: each move's reward on its last token.

        With `kl_weight` (in reward a nat) less kl_weight · (log π − log π_ref) on every token.
        Source: arXiv 2203.02155; details arXiv 2403.17031.
        """
        reward_BT = torch.zeros_like(self.mask_BT, dtype=torch.float32)
        last_B = self.mask_BT.sum(1) - 1
        reward_BT[torch.arange(len(self)), last_B] = self.reward_B
        if kl_weight is None:
            return reward_BT
        penalty_BT = kl_weight * kl.k1(self.old_BT, self.reference_BT)
        return reward_BT - penalty_BT * self.mask_BT


def rollout_batch(
    episodes: Sequence[Episode],
    turns: Sequence[Turn],
    encoding: Encoding,
    device: torch.device,
    *,
    uncut: bool = True,
    thoughts: bool = True,
) -> RolloutBatch:
    """The batch of these episodes' turns; with `uncut` by what was likely before the sampler's
    cuts. `thoughts`: learn from them, too. Raises NoSignal without any, ConfigError for NaN."""
    if not episodes:
        raise NoSignal("there is no episode to learn from")
    for episode in episodes:
        if not torch.isfinite(torch.tensor(episode.reward)):
            raise ConfigError(
                f"the reward of match {episode.match}, turn {episode.turn}, is {episode.reward}"
            )
    chats = dict.fromkeys(turn.view.messages for turn in turns)
    prompt_ids = {chat: encoding.prompt_ids(chat) for chat in chats}
    answers = [list(turn.move.token_ids) for turn in turns]
    longest = max(map(len, answers))
    groups = dict.fromkeys(episode.group for episode in episodes)
    group_number = {group: number for number, group in enumerate(groups)}

    def pad(rows: Sequence[Sequence[float]]) -> torch.Tensor:
        filled = [[*row, *[0.0] * (longest - len(row))] for row in rows]
        return torch.tensor(filled, device=device)

    return RolloutBatch(
        prompts=[prompt_ids[turn.view.messages] for turn in turns],
        answers=answers,
        reward_B=torch.tensor([episode.reward for episode in episodes], device=device),
        group_B=torch.tensor([group_number[episode.group] for episode in episodes], device=device),
        roles=[episode.role for episode in episodes],
        mask_BT=pad([[1.0] * len(answer) for answer in answers]).bool(),
        sampled_BT=pad([(uncut and turn.move.uncut) or turn.move.logprobs for turn in turns]),
        learned_BT=pad([_learned(turn, encoding, thoughts) for turn in turns]).bool(),
    )


def _learned(turn: Turn, encoding: Encoding, thoughts: bool) -> list[float]:
    """1 for each of a move's tokens that the policy learns from, 0 for others."""
    ids = turn.move.token_ids
    learned = [1.0] * len(ids)
    start, end = turn.move.forced or (0, 0)
    learned[start:end] = [0.0] * (end - start)
    if not thoughts:
        before = encoding.thought_tokens(ids)
        learned[:before] = [0.0] * before
    return learned


# -- the engine that sampled


def mismatch(batch: RolloutBatch) -> dict[str, float]:
    """The distance between the engine that sampled a batch, μ, and the policy that learns from it.

    `sampler_gap` is the mean of |log π_old − log μ|, `mismatch_kl` an estimate of KL(μ ‖ π_old)
    that is never negative (k3), both in nats a token.
    """
    count = batch.mask_BT.sum()
    gap_BT = (batch.old_BT - batch.sampled_BT).abs() * batch.mask_BT
    divergence_BT = kl.k3(batch.sampled_BT, batch.old_BT) * batch.mask_BT
    return {
        "sampler_gap": (gap_BT.sum() / count).item(),
        "mismatch_kl": (divergence_BT.sum() / count).item(),
    }


def importance_weights(
    batch: RolloutBatch, correction: str, limit: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """(weight_BT, constants for the tokens' advantages; facts that sum them up).

        ratio_BT   π_old(token) / μ(token), μ the distribution that was sampled from

    Two implementations of one model round differently, so an engine's samples come from another
    distribution than the learner's, by a little at each token. Weighing each token's advantage by
    the ratio makes the update unbiased; bounding the ratio keeps rare tokens from ruling it.

    truncate: min(ratio, limit), as in V-trace. mask: the ratio, and 0 where it lies outside
    [1/limit, limit]. none: 1. The facts are the mean weight of the tokens and the share of those
    that were bounded. Source: arXiv 1802.01561, eq. 1 (truncated); arXiv 2510.18855 (masked on both
    sides).
    """
    ratio_BT = (batch.old_BT - batch.sampled_BT).exp()
    if correction == "none":
        weight_BT = ratio_BT.new_ones(ratio_BT.shape)
        bounded_BT = ratio_BT.new_zeros(ratio_BT.shape)
    elif correction == "truncate":
        weight_BT = ratio_BT.clamp(max=limit)
        bounded_BT = (ratio_BT > limit).float()
    elif correction == "mask":
        bounded_BT = ((ratio_BT > limit) | (ratio_BT < 1 / limit)).float()
        weight_BT = ratio_BT * (1 - bounded_BT)
    else:
        raise AssertionError(f"unknown correction {correction!r}")
    mask_BT = batch.mask_BT
    count = mask_BT.sum()
    facts = {
        "importance_weight": ((weight_BT * mask_BT).sum() / count).item(),
        "importance_bounded": ((bounded_BT * mask_BT).sum() / count).item(),
    }
    return weight_BT, facts
