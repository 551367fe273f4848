"""A policy that is trained while it plays: its weights, what samples with them, and whether the two
agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from equipoise.errors import EquipoiseError
from equipoise.learners.critic import Critic
from equipoise.learners.division import Division
from equipoise.learners.policy_forward import PolicyForward
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.policy_sampler import SentAdapters, sampling_actor
from equipoise.learners.policy_state import Probe
from equipoise.learners.sharding import like
from equipoise.learners.trainable_model import TrainableModel
from equipoise.models.resources import Resources
from equipoise.players.base import Actor
from equipoise.players.local import Local
from equipoise.players.local_actor import LocalActor
from equipoise.types import Episode, PlayerId, Turn

Log = Callable[[dict[str, Any]], None]


class SampledPolicy(ABC):
    """What policy trainers have in common, wherever their updates are computed.

    `learner` is the player at the generation that it is in.
    """

    def __init__(
        self,
        settings: PolicyGradientSettings,
        player: Local,
        policy: TrainableModel,
        critic: Critic | None,
        division: Division,
        resources: Resources,
        sent: Path | None,
    ) -> None:
        """`settings` with nothing left to `auto`; `policy` at generation 0. `sent` is the folder of
        what an engine gets, where one samples.
        """
        self.settings, self.player, self.policy = settings, player, policy
        self.critic = critic
        self.learner = PlayerId(policy.name)
        self.encoding = player.encoding()
        self.forward = PolicyForward(
            settings, policy, critic, self.encoding.pad_id, player.temperature or 1.0, division
        )
        self.probe: Probe = []
        self._resources, self._sent = resources, sent

    @property
    def model(self) -> Any:
        """The policy's model, with whichever adapter is in force."""
        return self.policy.model

    @cached_property
    def actor(self) -> Actor:
        """What samples, always with the newest weights."""
        precision = {"precision": self.settings.precision}
        sampled = self.player.model_copy(update=precision)
        adapters = SentAdapters(self.policy, self._sent, lambda: self.learner)
        return sampling_actor(sampled, self.encoding, self.policy, self._resources, adapters)

    @abstractmethod
    def learn(
        self, episodes: Sequence[Episode], turns: Sequence[Turn], seed: int, log: Log
    ) -> dict[str, float]:
        """Update the policy on what its moves were paid; it is one generation older then. Returns
        what sums the update up.
        """

    @torch.no_grad()
    def assert_agreement(self, actor: Actor) -> None:
        """Raises EquipoiseError when `actor`, which samples, gives the probe's tokens another
        probability than the trainer does.
        """
        if not isinstance(actor, LocalActor):
            return
        prompts = [prompt for prompt, _ in self.probe]
        answers = [answer for _, answer in self.probe]
        own_BT = self.forward.alone(prompts, answers)
        if not bool(own_BT.isfinite().all()):
            raise self._unsound("its log-probabilities are no numbers any more")
        gaps: list[float] = []
        sampled = actor.retrace(prompts, answers)
        for own, others in zip(own_BT.tolist(), sampled, strict=True):
            gaps += [abs(x - y) for x, y in zip(own, others, strict=False)]
        self._assert_small(sum(gaps) / len(gaps), "the probe")

    def _assert_small(self, gap: float, where: str) -> None:
        most = self.settings.max_disagreement
        assert most is not None, "decided at the beginning"
        if not gap <= most:
            raise EquipoiseError(
                f"{self.learner}: sampler and learner differ by {gap:.3g} nats a "
                f"token on {where}, more than learner.max_disagreement = "
                f"{most:g}: they do not hold the same "
                "weights, compute in different precision, or the weights have grown "
                "until rounding shows (lower learner.learning_rate, now "
                f"{self.settings.learning_rate:g})"
            )

    def _unsound(self, what: str, remedy: str = "") -> EquipoiseError:
        return EquipoiseError(
            f"{self.learner}: {what}; {remedy}lower learner.learning_rate (now "
            f"{self.settings.learning_rate:g}). Its last sound generation is kept"
        )

    # -- on disk

    def save(self, folder: Path) -> None:
        """The policy and its tokenizer, as `from_pretrained` reads them."""
        self.policy.save(folder)
        self.encoding.tokenizer.save_pretrained(str(folder))

    @abstractmethod
    def save_state(self, folder: Path) -> None:
        """Write all that the next update depends on into `folder`."""

    @abstractmethod
    def load(self, folder: Path, generation: int) -> None:
        """Take up the state that `save_state` wrote at this generation."""

    def close(self) -> None:
        """End what does not end by itself."""
        return

    @torch.no_grad()
    def _take(self, weights: Mapping[str, torch.Tensor], probe: Probe) -> None:
        """Go on with these weights."""
        for name, weight in self.policy.trained_parameters().items():
            weight.copy_(like(weights[name], weight))
        self.probe = [(list(prompt), list(answer)) for prompt, answer in probe]
