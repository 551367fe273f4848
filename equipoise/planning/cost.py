"""Memory and time that a run's local learners would take, on this machine or on other hardware.

Memory follows from the sizes of their models; what a token keeps for the backward pass, and how
long passes take, comes from a trial of the architecture (`planning.trial`), on other hardware from
what that computes and reads a second. Times are at most: as if every answer were as long as it may
be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from equipoise import seeds
from equipoise.errors import DataError
from equipoise.judges.base import Judge
from equipoise.judges.reward_model import LoadedSettings
from equipoise.learners.automatic import decide_on
from equipoise.learners.base import Learner
from equipoise.learners.fine_tuning import FineTuning
from equipoise.learners.launch import Launch
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.models.device import Hardware, machine_memory, program_memory
from equipoise.models.loading import ACTIVATIONS, LONGEST, Description, describe, row_length
from equipoise.models.quantization import BYTES
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.runs.config import RunConfig
from equipoise.runs.executors.base import Executor
from equipoise.sampling.engines.base import RemoteSampler
from equipoise.types import Prompt

if TYPE_CHECKING:
    from equipoise.planning.trial import Trial, WorkShape

SAMPLE = 200  # prompts whose tokens are counted
ASSUMED = 64.0  # tokens of a prompt where there is none
ENGINE_SHARE = 0.9  # of an accelerator's memory that an engine takes


@dataclass(frozen=True)
class Work:
    """Counts of a run's work; `scored` answers have log-probabilities under an opponent."""

    answers: int
    matches: int
    stages: int
    examples: int
    steps: int
    scored: int
    questions: int


@dataclass(frozen=True)
class CostEstimate:
    """Memory (bytes, of one process) and time (s) of a run, as if every player were like these.

    `peak_memory` counts the program, too, where it is in the same memory (on a CPU). Times are None
    where the model is too large for a trial, or a judge cannot be timed. `advice` says what to set
    where it does not fit into `memory`.
    """

    learners: tuple[str, ...]
    parameters: int
    trainable: int
    mean_prompt_tokens: float
    memory_while_sampling: float
    memory_while_training: float
    peak_memory: float
    memory: float
    sampling_seconds: float | None
    scoring_seconds: float | None
    training_seconds: float | None
    judging_seconds: float | None
    processes: int
    workers: int  # processes that play, score and judge
    device: str
    advice: str

    @property
    def seconds(self) -> float | None:
        """The time of all stages; judging that cannot be timed is left out."""
        known = (self.sampling_seconds, self.scoring_seconds, self.training_seconds)
        if None in known:
            return None
        return sum(seconds or 0.0 for seconds in (*known, self.judging_seconds))

    @property
    def fits(self) -> bool:
        """True if there is enough memory."""
        return self.peak_memory <= self.memory


def costs(
    config: RunConfig, prompts: Sequence[Prompt], work: Work, hardware: Hardware | None = None
) -> tuple[tuple[CostEstimate, ...], tuple[str, ...]]:
    """The costs of all local learners, equal ones once, and notes on answers without room.

    `hardware`: what it would run on, in place of this machine.
    """
    sample = _sample(prompts, config.seed)
    prompts = [config.game.first_question(prompt) for prompt in sample]
    estimates: list[CostEstimate] = []
    cut: dict[str, str] = {}
    tried: dict[str, CostEstimate] = {}
    for name in config.learning:
        player = config.players[name]
        if not isinstance(player, Local):
            continue
        trainer = resolve_auto(config.learner_of(name), player, hardware)
        player = player.carrying(trainer.carried_precision())
        key = repr((player.model_dump(), trainer.model_dump()))
        if key not in tried:
            parts = (player, trainer, config.judge_of(name))
            if hardware is None:
                tried[key] = _estimate(*parts, prompts, work)
            else:
                tried[key] = _foresee(*parts, prompts, work, hardware, config.executor)
        room = row_length(player.model, player.max_length) - tried[key].mean_prompt_tokens
        if room < player.most_tokens:
            cut[name] = (
                f"players.{name}: max_new_tokens is {player.max_new_tokens}, but "
                f"max_length leaves {room:.0f} tokens behind a prompt of mean length"
            )
        estimates.append(replace(tried[key], learners=(name,)))
    grouped: dict[CostEstimate, tuple[str, ...]] = {}
    for estimate in estimates:
        alike = replace(estimate, learners=())
        grouped[alike] = (*grouped.get(alike, ()), *estimate.learners)
    merged = (
        replace(cost, learners=names, advice=for_players(cost.advice, names))
        for cost, names in grouped.items()
    )
    return tuple(merged), tuple(cut.values())


def _estimate(
    player: Local, trainer: Learner, judge: Judge, prompts: Sequence[Prompt], work: Work
) -> CostEstimate:
    from equipoise.models.device import choose_device
    from equipoise.planning.trial import try_model

    device = choose_device(player.device)
    program = program_memory() if device.type == "cpu" else 0
    size = describe(player.model, player.lora)
    prompt = prompt_tokens(player, prompts)
    player = limit_new_tokens(player, prompt, size)
    tokens = prompt + player.most_tokens
    shape = work_shape(player, trainer, prompt, work)
    trial = try_model(player.model, player.lora, size, shape, player.device)
    sampling = sampling_bytes(player, size, tokens, device.type)
    training = training_bytes(player, trainer, size, shape, trial, device.type)
    processes = _processes(trainer)
    copies = processes if device.type == "cpu" else 1
    peak = max(program + sampling, copies * (program + training))
    memory = machine_memory(device)
    estimate = CostEstimate(
        (),
        parameters=size.parameters,
        trainable=size.trainable,
        mean_prompt_tokens=prompt,
        memory_while_sampling=sampling,
        memory_while_training=training,
        peak_memory=peak,
        memory=memory,
        processes=processes,
        workers=1,
        device=device.type,
        advice="",
        **_seconds(player, trainer, judge, prompt, work, shape, trial),
    )
    if estimate.fits:
        return estimate
    return replace(estimate, advice=advice(player, trainer, training > sampling))


def resolve_auto(trainer: Learner, player: Local, hardware: Hardware | None = None) -> Learner:
    """The learner with nothing left to `auto`, as it would be on `hardware`; None: here."""
    if hardware is None or not isinstance(trainer, FineTuning | PolicyGradientSettings):
        return trainer.resolve_auto(player)
    return decide_on("cuda", trainer, describe(player.model), tf32=True)


def _foresee(
    player: Local,
    trainer: Learner,
    judge: Judge,
    prompts: Sequence[Prompt],
    work: Work,
    hardware: Hardware,
    executor: Executor,
) -> CostEstimate:
    """The estimate on hardware that need not be here, its work shared by all its processes."""
    from equipoise.planning.trial import foresee

    size = describe(player.model, player.lora)
    prompt = prompt_tokens(player, prompts)
    player = limit_new_tokens(player, prompt, size)
    tokens = prompt + player.most_tokens
    engines = engine_count(player)
    player = player.model_copy(update={"batch_size": rows_at_once(player, size, tokens, hardware)})
    shape = work_shape(player, trainer, prompt, work)
    trial = foresee(
        size,
        shape,
        hardware,
        lora=player.lora is not None,
        width=number_width(player, size, "cuda"),
        engine=engines > 0,
        divided=divides(trainer),
    )
    sampling = sampling_bytes(player, size, tokens, "cuda")
    training = training_bytes(player, trainer, size, shape, None, "cuda")
    workers, processes = min(worker_count(executor), hardware.count), _processes(trainer)
    seconds = _seconds(player, trainer, judge, prompt, work, shape, trial)
    sharing = {"sampling": engines or workers, "training": min(processes, hardware.count)}
    for name, value in seconds.items():
        if value is not None:
            seconds[name] = value / sharing.get(name.removesuffix("_seconds"), workers)
    estimate = CostEstimate(
        (),
        parameters=size.parameters,
        trainable=size.trainable,
        mean_prompt_tokens=prompt,
        memory_while_sampling=sampling,
        memory_while_training=training,
        peak_memory=max(sampling, training),
        memory=hardware.memory,
        processes=processes,
        device=hardware.name,
        advice="",
        workers=workers,
        **seconds,
    )
    if estimate.fits:
        return estimate
    return replace(estimate, advice=advice(player, trainer, training > sampling))


def worker_count(executor: Executor) -> int:
    """The processes that play, score and judge."""
    return int(getattr(executor, "processes", getattr(executor, "workers", 1)))


def engine_count(player: Local) -> int:
    """The engines in other processes that sample for the player; 0: its own process does."""
    sampler = player.sampler
    return len(sampler.base_url) if isinstance(sampler, RemoteSampler) else 0


def rows_at_once(player: Local, size: Description, tokens: float, hardware: Hardware) -> int:
    """The answers that grow side by side: in an engine as many as memory and requests allow."""
    sampler = player.sampler
    if not isinstance(sampler, RemoteSampler):
        return player.batch_size
    row = max(1.0, 2 * tokens * size.kv_numbers)
    room = ENGINE_SHARE * hardware.memory - 2 * size.parameters
    return max(1, min(sampler.concurrency, int(room / row)))


# -- what is passed through the model


def prompt_tokens(player: Local, prompts: Sequence[Prompt]) -> float:
    """Mean tokens of a prompt in the chat template; an assumed number without prompts."""
    encoding = player.encoding()
    lengths = []
    for prompt in prompts:
        with suppress(DataError):  # it is not answered, and costs nothing
            lengths.append(len(encoding.prompt_ids(prompt.messages)))
    return sum(lengths) / len(lengths) if lengths else ASSUMED


def _sample(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    dice = seeds.generator(seed, "plan")
    chosen = dice.permutation(len(prompts))[:SAMPLE].tolist()
    return [prompts[i] for i in chosen]


def limit_new_tokens(player: Local, prompt: float, size: Description) -> Local:
    """The player with no more new tokens than its context has behind `prompt` tokens."""
    room = (player.max_length or min(size.context or LONGEST, LONGEST)) - round(prompt)
    most = max(1, min(player.max_new_tokens, room))
    return player.model_copy(update={"max_new_tokens": most})


def work_shape(player: Local, trainer: Learner, prompt: float, work: Work) -> WorkShape:
    """The batches in which the player samples and the trainer learns."""
    from equipoise.planning.trial import WorkShape

    rows = min(player.batch_size, max(1, work.answers // max(1, work.stages)))
    copies = max(1, work.answers // max(1, work.matches))
    new = player.most_tokens
    answers = 2 if trainer.needs == "pairs" else 1
    batch = getattr(trainer, "batch_size", 1)
    return WorkShape(
        rows=rows,
        prompts=max(1, rows // copies),
        prompt=max(1, round(prompt)),
        new=new,
        batch=batch,
        length=max(2, round(prompt) + answers * new),
        answer=answers * new,
        bf16=getattr(trainer, "precision", "fp32") == "bf16",
    )


# -- memory


def sampling_bytes(player: Local, size: Description, tokens: float, device: str) -> float:
    """Bytes of weights, a batch's keys and values, and its next tokens' logits."""
    width = number_width(player, size, device)
    cache = player.batch_size * tokens * size.kv_numbers * width
    logits = 4 * 4 * player.batch_size * size.vocabulary
    casts = device == "cpu" and player.precision == "bf16" and width == 4
    copies = 2.0 * size.parameters if casts else 0.0
    return base_bytes(player, size, width) + copies + cache + logits


def base_bytes(player: Local | LoadedSettings, size: Description, width: float) -> float:
    """Bytes of the base, of `width` a number where `quantization` leaves it."""
    short = BYTES.get(player.quantization or "", width)
    return (size.parameters - size.linear) * width + size.linear * short


def frozen_bytes(player: Local, size: Description, width: float) -> float:
    """Bytes of the weights that are not trained: under an adapter all that a description counts."""
    return 0.0 if player.lora is None else base_bytes(player, size, width)


def moment_bytes(trainer: Learner) -> float:
    """Bytes that AdamW keeps for a weight between two steps."""
    return 2.0 if getattr(trainer, "optimizer", "") == "adamw_8bit" else 8.0


def number_width(player: Local | LoadedSettings, size: Description, device: str) -> int:
    """Bytes of a number of the weights that play or judge."""
    if isinstance(player, Local) and engine_count(player):
        return 2
    short = player.dtype in ("bfloat16", "float16")
    short |= player.dtype == "auto" and device != "cpu" and size.short
    return 2 if short else 4


def training_bytes(
    player: Local,
    trainer: Learner,
    size: Description,
    shape: WorkShape,
    trial: Trial | None,
    device: str,
) -> float:
    """Bytes of weights, gradients, AdamW's moments, activations, logits and extras."""
    bf16 = getattr(trainer, "precision", "fp32") == "bf16"
    weights = frozen_bytes(player, size, 2.0 if bf16 else 4.0)
    weights += (8.0 + moment_bytes(trainer)) * size.trainable
    kept = trainer.extra_bytes(size.parameters, player.lora is not None)
    by_token, by_layer = _kept(size, trial)
    again = getattr(trainer, "gradient_checkpointing", False)
    if again == "selective":
        by_token = by_layer + by_token * (0.75 if bf16 else 0.5)
    elif again:
        by_token = by_layer + size.layers * size.hidden * (2 if bf16 else 4)
    activations = shape.batch * shape.length * by_token
    chunk = getattr(trainer, "chunk", None) or (256 if device == "cpu" else 2048)
    logits = 2 * 4 * min(chunk, shape.batch * shape.answer) * size.vocabulary
    return bytes_per_process(trainer, weights + kept) + activations + logits


def _kept(size: Description, trial: Trial | None) -> tuple[float, float]:
    """Bytes that a token leaves for the backward pass, in all layers and in one."""
    if trial is not None:
        return trial.kept, trial.kept_by_layer
    by_layer = 4.0 * ACTIVATIONS * size.hidden
    return size.layers * by_layer, by_layer


def _launch(trainer: Learner) -> Launch | None:
    return getattr(trainer, "launch", None)


def _processes(trainer: Learner) -> int:
    launch = _launch(trainer)
    return 1 if launch is None else launch.processes


def divides(trainer: Learner) -> bool:
    """True if each process holds a share of the weights."""
    launch = _launch(trainer)
    return launch is not None and launch.divides_weights


def bytes_per_process(trainer: Learner, weights: float) -> float:
    """Bytes of weights and optimizer in one process, a part where the model is divided."""
    return weights / _processes(trainer) if divides(trainer) else weights


def for_players(advice: str, names: Sequence[str]) -> str:
    """The advice with each of these players named in place of `player`."""
    settings = []
    for setting in advice.split(", "):
        part, point, rest = setting.partition(".")
        settings += [f"{n}.{rest}" for n in names] if part == "player" and point else [setting]
    return ", ".join(settings)


def advice(player: Local, trainer: Learner, training: bool) -> str:
    """Settings that save memory, the cheapest first; `player.…` are of the player."""
    settings = []
    if not training:
        if player.batch_size > 1:
            settings.append(f"player.batch_size={player.batch_size // 2}")
    else:
        batch = getattr(trainer, "batch_size", 1)
        if getattr(trainer, "gradient_checkpointing", True) is not True:
            settings.append("learner.gradient_checkpointing=true")
        if batch > 1:
            settings.append(f"learner.batch_size={batch // 2}")
        if getattr(trainer, "critic", None) == "model":
            settings.append("learner.critic=head")
        if player.lora is None:
            settings.append("player.lora={r: 16}")
        elif player.quantization is None:
            settings.append("player.quantization=4bit")
        if player.lora is None and moment_bytes(trainer) > 2:
            settings.append("learner.optimizer=adamw_8bit")
        elif getattr(trainer, "precision", "bf16") == "fp32":
            settings.append("learner.precision=bf16")
    return ", ".join(settings) or "a smaller model"


# -- time


def _seconds(
    player: Local,
    trainer: Learner,
    judge: Judge,
    prompt: float,
    work: Work,
    shape: WorkShape,
    trial: Trial | None,
) -> dict[str, float | None]:
    if trial is None:
        names = ("sampling", "scoring", "training", "judging")
        return {f"{name}_seconds": None for name in names}
    tokens = prompt + player.most_tokens
    batches = work.answers / shape.rows
    reading = batches * shape.prompts * prompt * trial.read
    passes, updates = _passes(trainer)
    learned = work.examples * tokens
    if trainer.needs == "pairs":
        learned = work.examples * (prompt / 2 + player.most_tokens)
    recomputed = 1.0
    if getattr(trainer, "gradient_checkpointing", False) is True:
        recomputed = 4 / 3 if player.lora is None else 3 / 2
    training = learned * (updates * recomputed * trial.train + passes * trial.score)
    return {
        "sampling_seconds": reading + batches * player.most_tokens * trial.step,
        "scoring_seconds": work.scored * tokens * trial.score,
        "training_seconds": training + work.steps * trial.update,
        "judging_seconds": _judging(judge, player, tokens, work, trial),
    }


def _passes(trainer: Learner) -> tuple[float, float]:
    """(passes without gradients, passes with them) of an example."""
    if isinstance(trainer, PolicyGradientSettings):
        models = 2 if trainer.critic == "model" else 1
        return models + (trainer.kl > 0), models * trainer.epochs
    if isinstance(trainer, FineTuning):
        return 0, trainer.epochs
    return 0, 1


def _judging(judge: Judge, player: Local, tokens: float, work: Work, trial: Trial) -> float | None:
    """Seconds of judging: 0 by rule, by a local model as if like the player, else None."""
    if parts := judge.inner_judges():
        times = [_judging(part, player, tokens, work, trial) for part in parts]
        return None if None in times else sum(filter(None, times))
    model = getattr(judge, "model", None)
    if isinstance(model, Endpoint) or judge.kind in ("peers", "meta_rewarding"):
        return None
    if isinstance(model, Local):
        batches = math.ceil(work.questions / model.batch_size)
        reading = work.questions * tokens * trial.read
        return reading + batches * model.most_tokens * trial.step
    if isinstance(model, str):  # which is asked no questions, and reads every answer
        return work.answers * tokens * trial.score
    return 0.0
