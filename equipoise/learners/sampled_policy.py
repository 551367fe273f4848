"""A policy that is trained while it plays: its weights, its sampler, their agreement, its state."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Self

import torch

from equipoise.errors import EquipoiseError, RunError, first_line
from equipoise.learners.policy_forward import PolicyForward
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.sharding import ProcessRank, distribute_like
from equipoise.learners.trainable_model import Critic, TrainableModel
from equipoise.models.resources import Resources
from equipoise.players.base import Actor
from equipoise.players.local import Local
from equipoise.players.local_actor import EngineActor, LocalActor
from equipoise.sampling.engines.base import EngineAdapter
from equipoise.sampling.engines.remote_engine import ProbedEngine, open_engine
from equipoise.system.folder import Folder
from equipoise.types import Episode, PlayerId, Turn

FILE = "state.pt"
UPDATE = "update.pt"

# Errors that torch raises of a file that is cut short, or none of its own.
UNREADABLE = (OSError, RuntimeError, EOFError, UnpicklingError, ValueError, KeyError)

Probe = list[tuple[list[int], list[int]]]
Log = Callable[[dict[str, Any]], None]


class SampledPolicy(ABC):
    """The base of policy trainers; `learner` is the player at its present generation."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        player: Local,
        policy: TrainableModel,
        critic: Critic | None,
        rank: ProcessRank,
        resources: Resources,
        adapters: Path | None,
    ) -> None:
        """settings: without `auto`; adapters: the folder of the adapters that an engine gets."""
        self.settings, self.player, self.policy = settings, player, policy
        self.critic = critic
        self.learner = PlayerId(policy.name)
        self.encoding = player.encoding()
        of_player = settings.likelihood == "player"
        temperature = (player.temperature or 1.0) if of_player else 1.0
        self.forward = PolicyForward(
            settings, policy, critic, self.encoding.pad_id, temperature, rank
        )
        self.probe: Probe = []
        self._resources, self._adapters = resources, adapters

    @property
    def model(self) -> Any:
        """The policy's model, with whichever adapter is in force."""
        return self.policy.model

    @cached_property
    def actor(self) -> Actor:
        """The actor that samples with the newest weights: the trained model, or an engine."""
        player = self.player.model_copy(update={"precision": self.settings.precision})
        engine = open_engine(player.sampler, self._resources)
        if engine is None:
            return LocalActor(player, self.encoding, self.policy.to_sample())
        adapters = EngineAdapters(self.policy, self._adapters, lambda: self.learner)
        probed = ProbedEngine(engine, adapters.newest, self.encoding.stop_ids)
        return EngineActor(player, self.encoding, self.policy.to_sample(), probed)

    @abstractmethod
    def learn(
        self, episodes: Sequence[Episode], turns: Sequence[Turn], seed: int, log: Log
    ) -> dict[str, float]:
        """Update on moves' rewards, to the next generation; the numbers that sum it up."""

    @torch.no_grad()
    def assert_agreement(self, actor: Actor) -> None:
        """Raise EquipoiseError when `actor` gives the probe other probabilities."""
        if not isinstance(actor, LocalActor):
            return
        prompts = [prompt for prompt, _ in self.probe]
        answers = [answer for _, answer in self.probe]
        own_BT = self.forward.alone(prompts, answers)
        if not bool(own_BT.isfinite().all()):
            raise self._unsound("its log-probabilities are no numbers any more")
        gaps: list[float] = []
        sampled = actor.retrace(prompts, answers, self.forward.temperature)
        for own, others in zip(own_BT.tolist(), sampled, strict=True):
            gaps += [abs(x - y) for x, y in zip(own, others, strict=False)]
        self._assert_small(sum(gaps) / len(gaps), "the probe")

    def _assert_small(self, gap: float, where: str) -> None:
        most = self.settings.max_disagreement
        assert most is not None, "decided at the beginning"
        if not gap <= most:
            raise EquipoiseError(
                f"{self.learner}: sampler and learner differ by {gap:.3g} nats a token on {where}, "
                f"more than learner.max_disagreement = {most:g}: they do not hold the same "
                "weights, compute in different precision, or the weights have grown until rounding "
                f"shows (lower learner.learning_rate, now {self.settings.learning_rate:g})"
            )

    def _unsound(self, what: str, remedy: str = "") -> EquipoiseError:
        return EquipoiseError(
            f"{self.learner}: {what}; {remedy}lower learner.learning_rate (now "
            f"{self.settings.learning_rate:g}). Its last sound generation is kept"
        )

    # -- on disk

    def save(self, folder: Path) -> None:
        """Write the policy and its tokenizer, as `from_pretrained` reads them."""
        self.policy.save(folder)
        self.encoding.save(folder)

    @abstractmethod
    def save_state(self, folder: Path) -> None:
        """Write all that the next update depends on into `folder`."""

    @abstractmethod
    def load(self, folder: Path, generation: int) -> None:
        """Take up the state that `save_state` wrote at this generation."""

    def close(self) -> None:
        """End the processes of the trainer, where it has some."""
        return

    @torch.no_grad()
    def _take_up(self, weights: Mapping[str, torch.Tensor], probe: Probe) -> None:
        for name, weight in self.policy.trained_parameters().items():
            weight.copy_(distribute_like(weight, weights[name]))
        self.probe = [(list(prompt), list(answer)) for prompt, answer in probe]


# -- the sampler


class EngineAdapters:
    """An engine's adapters, a folder each, never changed; two stay for a server's restart."""

    def __init__(
        self, policy: TrainableModel, folder: Path | None, learner: Callable[[], PlayerId]
    ) -> None:
        """folder: of the adapters; None: a temporary one. learner: at its present generation."""
        self._policy = policy
        self._folder = folder
        self._learner = learner
        self._newest: tuple[PlayerId, EngineAdapter] | None = None

    def newest(self) -> EngineAdapter | None:
        """The adapter of the policy's generation; None: the base that it began with."""
        learner = self._learner()
        if self._newest is not None and self._newest[0] == learner:
            return self._newest[1]
        folder = self._policy.player.start
        if learner.generation:
            folder = self._write(learner.generation)
        if folder is None:
            return None
        adapter = EngineAdapter.of(str(learner), folder)
        self._newest = (learner, adapter)
        return adapter

    def _write(self, generation: int) -> Path:
        home = self._folder or Path(tempfile.mkdtemp(prefix="equipoise-adapters-"))
        self._folder = home
        with Folder.open(home, make=True) as sent:
            with sent.draft_of(str(generation)) as draft:
                self._policy.save(draft)
                sent.remove(str(generation))
                sent.rename(draft.name, str(generation))
            numbers = sorted(int(name) for name in sent.names() if name.isdigit())
            for number in numbers[:-2]:
                sent.remove(str(number))
        return home / str(generation)


# -- on disk


@dataclass(frozen=True)
class PolicyState:
    """All that the next update of a trainer depends on.

    weights: the trained ones, by name. critic, optimizer: state dicts. kl: the weight of the KL
    penalty. steps: optimizer steps so far. probe: prompts and answers by which sampler and learner
    are compared, in token ids.
    """

    weights: dict[str, Any]
    critic: dict[str, Any] | None
    optimizer: dict[str, Any]
    kl: float
    steps: int
    baselines: dict[str, float]
    probe: Probe

    def write(self, folder: Path) -> None:
        torch.save(vars(self), folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The state that was written into `folder`, on the CPU. Raises RunError."""
        return cls(**_read(folder / FILE))


@dataclass(frozen=True)
class PolicyUpdate:
    """The weights that sample, and the probe that they are compared on, as in `PolicyState`."""

    weights: dict[str, Any]
    probe: Probe

    def write(self, folder: Path) -> None:
        torch.save(vars(self), folder / UPDATE)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The update in `folder`, alone or of a state; tensors are read lazily. Raises RunError."""
        file = folder / UPDATE if (folder / UPDATE).is_file() else folder / FILE
        saved = _read(file, mmap=True)
        return cls(saved["weights"], saved["probe"])


def _read(file: Path, *, mmap: bool = False) -> dict[str, Any]:
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except UNREADABLE as error:
        raise RunError(f"{file}: is missing or damaged ({first_line(error)})") from error
