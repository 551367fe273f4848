"""A batch of paid moves as tensors: what was asked and answered, in token ids, and what
is known of each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from equipoise.errors import ConfigError, NoSignal
from equipoise.models.encoding import Encoding
from equipoise.models.logprobs import LONGEST_SHARED, Answers
from equipoise.types import Episode, Turn


@dataclass
class Rollouts:
    """B moves, T tokens of the longest. mask_BT is true on a move's tokens; tensors are
    float32 on the device.

    sampled_BT: log-probabilities in nats that the sampler gave; old_BT, reference_BT:
    the learner's own before the update, and the reference's; value_BT: the critic's.
    """

    prompts: list[list[int]]
    answers: list[list[int]]
    reward_B: torch.Tensor
    group_B: torch.Tensor
    roles: list[str]
    mask_BT: torch.Tensor
    sampled_BT: torch.Tensor
    old_BT: torch.Tensor = field(default_factory=lambda: torch.zeros(0))
    reference_BT: torch.Tensor = field(default_factory=lambda: torch.zeros(0))
    value_BT: torch.Tensor = field(default_factory=lambda: torch.zeros(0))

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return sum(map(len, self.prompts)) + sum(map(len, self.answers))

    def order(self, rows: Sequence[int]) -> list[int]:
        """The rows, those with one prompt beside each other, so that they can share its
        computation.
        """
        return sorted(rows, key=lambda b: (len(self.prompts[b]), self.prompts[b], b))

    def grouped(self, rows: Sequence[int]) -> list[Answers]:
        """The rows in order, as prompts with the answers that are to share a row with
        them.
        """
        found: list[Answers] = []
        length = 0
        for b in rows:
            prompt, answer = self.prompts[b], self.answers[b]
            length += len(answer)
            if found and found[-1].prompt == prompt and length <= LONGEST_SHARED:
                found[-1] = Answers(prompt, [*found[-1].answers, answer])
            else:
                found.append(Answers(prompt, [answer]))
                length = len(prompt) + len(answer)
        return found

    def terminal(self) -> torch.Tensor:
        """[B, T]: each move's reward on its last token, 0 elsewhere."""
        reward_BT = torch.zeros_like(self.mask_BT, dtype=torch.float32)
        last_B = self.mask_BT.sum(1) - 1
        reward_BT[torch.arange(len(self)), last_B] = self.reward_B
        return reward_BT


def rollouts(
    episodes: Sequence[Episode],
    turns: Sequence[Turn],
    encoding: Encoding,
    device: torch.device,
) -> Rollouts:
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
    known = {
        chat: encoding.prompt_ids(chat)
        for chat in {turn.view.messages: None for turn in turns}
    }
    prompts = [known[turn.view.messages] for turn in turns]
    answers = [list(turn.move.token_ids) for turn in turns]
    longest = max(map(len, answers))
    number = {
        group: n
        for n, group in enumerate(dict.fromkeys(episode.group for episode in episodes))
    }

    def padded(rows: Sequence[Sequence[float]]) -> torch.Tensor:
        return torch.tensor(
            [[*row, *[0.0] * (longest - len(row))] for row in rows], device=device
        )

    return Rollouts(
        prompts,
        answers,
        torch.tensor([episode.reward for episode in episodes], device=device),
        torch.tensor([number[episode.group] for episode in episodes], device=device),
        [episode.role for episode in episodes],
        padded([[1.0] * len(answer) for answer in answers]).bool(),
        padded([turn.move.logprobs for turn in turns]),
    )
