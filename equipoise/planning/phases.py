"""Peak memory of a run's own process, phase by phase and device by device, from the sizes of its
models alone: no weights are read and nothing is tried.

    play      every base once, all adapters on it, keys and values of a batch of answers
    judge     the same, beside the judge's own model
    learn     the base that is trained on (the playing one where they share it), the
              trained weights with gradients and AdamW, activations, logits, and what a
              learner keeps besides

Learners that stay in memory (policy gradients) are there while others play, too. Where processes
train them (`launch`), the numbers are those of the first device, which holds what the first process
has and what samples. On hardware that is not here, engines that sample (vLLM) have a line of their
own.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from equipoise.errors import ModelError
from equipoise.judges.base import Judge
from equipoise.judges.reward_model import LoadedSettings
from equipoise.learners.automatic import decide_on
from equipoise.learners.base import Learner
from equipoise.learners.fine_tuning import FineTuning
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.models.adapters import Lora
from equipoise.models.device import Hardware
from equipoise.models.loading import Description, describe
from equipoise.planning.cost import Work, limit_new_tokens, work_shape
from equipoise.planning.memory import (
    base_bytes,
    bytes_per_process,
    engine_count,
    for_players,
    frozen_bytes,
    moment_bytes,
    number_width,
    rows_at_once,
    sampling_bytes,
    saving_settings,
    training_bytes,
)
from equipoise.players.local import Local
from equipoise.runs.config import RunConfig

READING = 16  # bytes for each hidden number of a token of a prompt that is read
NOTHING = Work(1, 1, 1, 1, 1, 1, 1)
Sizes = Callable[[str, Lora | None], Description]


@dataclass(frozen=True)
class PhaseMemory:
    """The most bytes that a phase takes on a device, and of which learner ("": all)."""

    phase: str
    device: str
    learner: str
    bytes: float
    advice: str
    processes: int = 1
    seconds: float | None = None

    @property
    def name(self) -> str:
        """The phase to read: `learn policy on cpu`."""
        return " ".join(filter(None, (self.phase, self.learner, "on", self.device)))


def phases(
    config: RunConfig,
    prompt: float,
    *,
    accelerator: bool,
    sizes: Sizes = describe,
    hardware: Hardware | None = None,
) -> list[PhaseMemory]:
    """The memory of each phase, at `prompt` tokens a prompt.

    `accelerator`: devices that are `auto` are accelerators; `hardware`: the accelerators, where
    they need not be here. Raises ModelError for missing models.
    """
    estimate = PhaseEstimate(config, prompt, accelerator, sizes)
    engines = [] if hardware is None else estimate.engines(hardware)
    return [*engines, *estimate.play(), *estimate.judge(), *estimate.learn()]


class PhaseEstimate:
    def __init__(self, config: RunConfig, prompt: float, accelerator: bool, sizes: Sizes) -> None:
        self._config = config
        self._prompt = prompt
        self._sizes = sizes
        self._auto = "accelerator" if accelerator else "cpu"
        self._players: dict[str, Local] = {}
        for name, player in config.players.items():
            if isinstance(player, Local):
                carried = None
                if player.learns:
                    carried = self.trainer_of(name, player).carried_precision()
                size = self.size_of(player)
                self._players[name] = limit_new_tokens(player.carrying(carried), prompt, size)

    def engines(self, hardware: Hardware) -> Iterator[PhaseMemory]:
        """Of the engines that sample for players: weights, adapters, keys and values."""
        for name, player in self._players.items():
            engines = engine_count(player)
            if engines:
                size = self.size_of(player)
                tokens = self._prompt + player.most_tokens
                rows = rows_at_once(player, size, tokens, hardware)
                busy = player.model_copy(update={"batch_size": rows})
                taken = sampling_bytes(busy, size, tokens, "cuda") + 4.0 * size.trainable
                what = "a smaller model, or larger accelerators"
                yield PhaseMemory("engine", "accelerator", name, taken, what, engines)

    def play(self) -> Iterator[PhaseMemory]:
        """Of playing, on each device."""
        for device, taken in self.playing_bytes().items():
            there = [n for n, player in self._players.items() if self.device_of(player) == device]
            learner = self._config.learner
            what = ""
            if learner is not None:
                what = for_players(saving_settings(self._players[there[0]], learner, False), there)
            yield PhaseMemory("play", device, "", taken, what)

    def judge(self) -> Iterator[PhaseMemory]:
        """Of judging by models of this process, beside the players."""
        playing = self.playing_bytes()
        used = [*map(self._config.judge_of, self._config.learning), self._config.evaluate.judge]
        parts = [part for judge in used if judge for part in judge.inner_judges() or [judge]]
        totals: dict[str, float] = {}
        for judge in {part.name: part for part in parts}.values():
            for device, taken in self.judging_bytes(judge).items():
                totals[device] = totals.get(device, playing.get(device, 0.0)) + taken
        for device, total in totals.items():
            what = "a smaller judge, or one behind an endpoint"
            yield PhaseMemory("judge", device, "", total, what)

    def learn(self) -> Iterator[PhaseMemory]:
        """Of each learner's training."""
        for name in self._config.learning:
            player = self._players.get(name)
            if player is None:
                continue
            trainer = self.trainer_of(name, player)
            device = self.device_of(player)
            shape = work_shape(player, trainer, self._prompt, NOTHING)
            taken = training_bytes(
                player, trainer, self.size_of(player), shape, None, self.device_type(device)
            )
            for other in self._config.learning:
                if other != name and other in self._players:
                    taken += self.standing_bytes(other, self._players[other])
            if stands_apart(trainer):
                taken += self.policy_bytes(player, trainer)  # what samples
            what = for_players(saving_settings(player, trainer, True), [name])
            yield PhaseMemory("learn", device, name, taken, what)

    def playing_bytes(self) -> dict[str, float]:
        """Device -> bytes while all players are open."""
        from equipoise.sampling.decoder import MOST_READ

        # One base of a kind on a device; adapters and what learners keep beside it.
        bases: dict[tuple[str, str, str], float] = {}
        batches: dict[str, float] = {}
        for name, player in self._players.items():
            device = self.device_of(player)
            size = self.size_of(player)
            tokens = self._prompt + player.most_tokens
            kind = self.device_type(device)
            bare = replace(size, parameters=0, linear=0)
            batch = sampling_bytes(player, bare, tokens, kind)
            weights = sampling_bytes(player, size, tokens, kind) - batch
            own = name if player.lora is None and player.learns else ""
            bases[device, f"{player.model} {player.dtype} {player.quantization}", own] = weights
            reading = float(MOST_READ * READING * size.hidden)
            batches[device] = max(batches.get(device, 0.0), batch + reading)
            added = self.standing_bytes(name, player)
            if player.lora is not None:  # and once more where several are mixed
                added += 8.0 * size.trainable
            bases[device, name, "beside its base"] = added
        totals = dict(batches)
        for (device, _, _), weights in bases.items():
            totals[device] += weights
        return totals

    def judging_bytes(self, judge: Judge) -> dict[str, float]:
        """Device -> bytes of the judge's own model."""
        model = getattr(judge, "model", None)
        if isinstance(model, Local) and model not in self._players.values():
            device = self.device_of(model)
            tokens = self._prompt + model.most_tokens
            size = self.size_of(model)
            return {device: sampling_bytes(model, size, tokens, self.device_type(device))}
        if isinstance(judge, LoadedSettings):
            with suppress(ModelError):  # an encoder's size is not known
                size = self._sizes(str(model), None)
                device = self.device_of(judge)
                width = number_width(judge, size, self.device_type(device))
                return {device: base_bytes(judge, size, width)}
        return {}

    def standing_bytes(self, name: str, player: Local) -> float:
        """Bytes of a learner between updates: gradients, moments, reference, critic."""
        if not player.learns or self._config.learner_of(name).needs != "episodes":
            return 0.0
        size = self.size_of(player)
        trainer = self.trainer_of(name, player)
        kept = trainer.extra_bytes(size.parameters, player.lora is not None)
        kept += (4.0 + moment_bytes(trainer)) * size.trainable
        if stands_apart(trainer):
            kept += self.policy_bytes(player, trainer)
        return bytes_per_process(trainer, kept)

    def policy_bytes(self, player: Local, trainer: Learner) -> float:
        """Bytes of a policy's weights as its trainer holds them."""
        size = self.size_of(player)
        short = trainer.carried_precision() == "bf16" and player.lora is not None
        return frozen_bytes(player, size, 2.0 if short else 4.0) + 4.0 * size.trainable

    def trainer_of(self, name: str, player: Local) -> Learner:
        """The learner with nothing left to `auto` on the devices of the plan."""
        trainer = self._config.learner_of(name)
        if isinstance(trainer, FineTuning | PolicyGradientSettings):
            kind = self.device_type(self.device_of(player))
            whole = player.lora is None
            return decide_on(kind, trainer, self.size_of(player), whole=whole)
        return trainer

    def size_of(self, player: Local) -> Description:
        """The size of the player's model with its adapter."""
        return self._sizes(player.model, player.lora)

    def device_of(self, part: Local | LoadedSettings) -> str:
        """The device as the plan names it."""
        return self._auto if part.device == "auto" else part.device

    def device_type(self, device: str) -> str:
        """The device as torch calls its kind."""
        return "cpu" if device == "cpu" else "cuda"


def stands_apart(trainer: Learner) -> bool:
    """True if processes of its own keep a policy that samples in this one."""
    return isinstance(trainer, PolicyGradient) and trainer.launch is not None
