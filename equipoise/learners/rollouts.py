"""A batch of moves and what they were paid, as tensors.

B moves, T tokens of the longest. Tensors [B, T] are float32 on the learner's device; a move's
tokens stand on the left, and 0 behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch

from equipoise.errors import ConfigError, NoSignal
from equipoise.losses import kl
from equipoise.models.encoding import Encoding
from equipoise.models.packing import LONGEST_SHARED, PromptAnswers
from equipoise.types import Episode, Turn


def _empty() -> torch.Tensor:
    return torch.zeros(0)


@dataclass
class RolloutBatch:
    """The moves, and what is known of each token before the update.

    prompts, answers: token ids.
    reward_B: what each move was paid.
    group_B: integers, equal for moves that answered one chat in one role.
    roles: the role of each move.
    mask_BT: true on a move's tokens.
    sampled_BT: log-probabilities that the sampler gave, in nats, before top-k and
        top-p cut.
    old_BT: the policy's own, before the update.
    reference_BT: those of the policy that training started from.
    value_BT: the critic's values, before each token.
    advantage_BT: what to learn by. return_BT: what the critic learns.
    """

    prompts: list[list[int]]
    answers: list[list[int]]
    reward_B: torch.Tensor
    group_B: torch.Tensor
    roles: list[str]
    mask_BT: torch.Tensor
    sampled_BT: torch.Tensor
    old_BT: torch.Tensor = field(default_factory=_empty)
    reference_BT: torch.Tensor = field(default_factory=_empty)
    value_BT: torch.Tensor = field(default_factory=_empty)
    advantage_BT: torch.Tensor = field(default_factory=_empty)
    return_BT: torch.Tensor = field(default_factory=_empty)

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
        """The rows, those with one prompt next to each other, so that they can share its
        computation.
        """
        return sorted(rows, key=lambda b: (len(self.prompts[b]), self.prompts[b], b))

    def grouped(self) -> list[PromptAnswers]:
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
    episodes: Sequence[Episode], turns: Sequence[Turn], encoding: Encoding, device: torch.device
) -> RolloutBatch:
    """The batch of these episodes and the turns that they are about.

    Raises NoSignal without any, ConfigError for a reward that is not a number.
    """
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

    def padded(rows: Sequence[Sequence[float]]) -> torch.Tensor:
        filled = [[*row, *[0.0] * (longest - len(row))] for row in rows]
        return torch.tensor(filled, device=device)

    return RolloutBatch(
        prompts=[prompt_ids[turn.view.messages] for turn in turns],
        answers=answers,
        reward_B=torch.tensor([episode.reward for episode in episodes], device=device),
        group_B=torch.tensor([group_number[episode.group] for episode in episodes], device=device),
        roles=[episode.role for episode in episodes],
        mask_BT=padded([[1.0] * len(answer) for answer in answers]).bool(),
        sampled_BT=padded([turn.move.uncut or turn.move.logprobs for turn in turns]),
    )
