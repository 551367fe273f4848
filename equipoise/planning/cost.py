"""Memory and time that a run's local learners would take, on this machine or on other hardware.

Memory follows from the sizes of their models (`planning.memory`); what a token keeps for the
backward pass, and how long passes take, comes from a trial of the architecture (`planning.trial`),
on other hardware from what that computes and reads a second. Times are at most: as if every answer
were as long as it may be.
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
from equipoise.learners.automatic import decide_on
from equipoise.learners.base import Learner
from equipoise.learners.fine_tuning import FineTuning
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.models.device import Hardware, choose_device, machine_memory, program_memory
from equipoise.models.loading import LONGEST, Description, describe, row_length
from equipoise.planning.memory import (
    divides_weights,
    engine_count,
    for_players,
    number_width,
    process_count,
    rows_at_once,
    sampling_bytes,
    saving_settings,
    training_bytes,
)
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.runs.config import RunConfig
from equipoise.types import Prompt

if TYPE_CHECKING:
    from equipoise.planning.trial import Trial, WorkShape

SAMPLE = 200  # prompts whose tokens are counted
ASSUMED = 64.0  # tokens of a prompt where there is none


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
    dice = seeds.generator(config.seed, "plan")
    chosen = dice.permutation(len(prompts))[:SAMPLE].tolist()
    questions = [config.game.first_question(prompts[i]) for i in chosen]
    # The processes that play, score and judge, of a pool or a cluster.
    workers = int(getattr(config.executor, "processes", getattr(config.executor, "workers", 1)))
    tried: dict[str, CostEstimate] = {}
    grouped: dict[CostEstimate, list[str]] = {}
    notes: list[str] = []
    for name in config.learning:
        player = config.players[name]
        if not isinstance(player, Local):
            continue
        trainer = resolve_auto(config.learner_of(name), player, hardware)
        player = player.carrying(trainer.carried_precision())
        key = repr((player.model_dump(), trainer.model_dump()))
        if key not in tried:
            judge = config.judge_of(name)
            tried[key] = estimate_cost(player, trainer, judge, questions, work, hardware, workers)
        estimate = tried[key]
        grouped.setdefault(estimate, []).append(name)
        room = row_length(player.model, player.max_length) - estimate.mean_prompt_tokens
        if room < player.most_tokens:
            notes.append(
                f"players.{name}: max_new_tokens is {player.max_new_tokens}, but "
                f"max_length leaves {room:.0f} tokens behind a prompt of mean length"
            )
    estimates = [
        replace(estimate, learners=tuple(names), advice=for_players(estimate.advice, names))
        for estimate, names in grouped.items()
    ]
    return tuple(estimates), tuple(notes)


def estimate_cost(
    player: Local,
    trainer: Learner,
    judge: Judge,
    prompts: Sequence[Prompt],
    work: Work,
    hardware: Hardware | None,
    workers: int,
) -> CostEstimate:
    """The cost of one learner on this machine, or on `hardware`, its work shared by `workers`."""
    from equipoise.planning.trial import try_model

    size = describe(player.model, player.lora)
    prompt = prompt_tokens(player, prompts)
    player = limit_new_tokens(player, prompt, size)
    tokens = prompt + player.most_tokens
    processes = process_count(trainer)
    if hardware is None:
        workers = 1
        device = choose_device(player.device)
        kind = device.type
        place = device.type
        memory = machine_memory(device)
        program = program_memory() if kind == "cpu" else 0.0  # before the trial's own takes part
        shape = work_shape(player, trainer, prompt, work)
        trial = try_model(player.model, player.lora, size, shape, player.device)
        seconds = stage_seconds(player, trainer, judge, prompt, work, shape, trial)
    else:
        program = 0.0
        workers = min(workers, hardware.count)
        kind = "cuda"
        place = hardware.name
        memory = hardware.memory
        rows = rows_at_once(player, size, tokens, hardware)
        player = player.model_copy(update={"batch_size": rows})
        shape = work_shape(player, trainer, prompt, work)
        trial = trial_on(hardware, player, trainer, size, shape)
        whole = stage_seconds(player, trainer, judge, prompt, work, shape, trial)
        samplers = engine_count(player) or workers
        seconds = shared_seconds(whole, samplers, workers, min(processes, hardware.count))

    sampling = sampling_bytes(player, size, tokens, kind)
    training = training_bytes(player, trainer, size, shape, trial, kind)
    copies = processes if kind == "cpu" else 1
    peak = max(program + sampling, copies * (program + training))
    estimate = CostEstimate(
        learners=(),
        parameters=size.parameters,
        trainable=size.trainable,
        mean_prompt_tokens=prompt,
        memory_while_sampling=sampling,
        memory_while_training=training,
        peak_memory=peak,
        memory=memory,
        processes=processes,
        workers=workers,
        device=place,
        advice="",
        **seconds,
    )
    if estimate.fits:
        return estimate
    return replace(estimate, advice=saving_settings(player, trainer, training > sampling))


def trial_on(
    hardware: Hardware, player: Local, trainer: Learner, size: Description, shape: WorkShape
) -> Trial:
    """The trial of a player and its trainer that there would be on `hardware`."""
    from equipoise.planning.trial import foresee

    return foresee(
        size,
        shape,
        hardware,
        lora=player.lora is not None,
        width=number_width(player, size, "cuda"),
        engine=engine_count(player) > 0,
        divided=divides_weights(trainer),
    )


def shared_seconds(
    seconds: dict[str, float | None], samplers: int, workers: int, trainers: int
) -> dict[str, float | None]:
    """The seconds of each stage with its work shared by all its processes."""
    processes = {
        "sampling_seconds": samplers,
        "scoring_seconds": workers,
        "training_seconds": trainers,
        "judging_seconds": workers,
    }
    shared: dict[str, float | None] = {}
    for name, whole in seconds.items():
        shared[name] = None if whole is None else whole / processes[name]
    return shared


def resolve_auto(trainer: Learner, player: Local, hardware: Hardware | None = None) -> Learner:
    """The learner with nothing left to `auto`, as it would be on `hardware`; None: here."""
    if hardware is None or not isinstance(trainer, FineTuning | PolicyGradientSettings):
        return trainer.resolve_auto(player)
    return decide_on("cuda", trainer, describe(player.model), tf32=True)


# -- what is passed through the model


def prompt_tokens(player: Local, prompts: Sequence[Prompt]) -> float:
    """Mean tokens of a prompt in the chat template; an assumed number without prompts."""
    encoding = player.encoding()
    lengths = []
    for prompt in prompts:
        with suppress(DataError):  # it is not answered, and costs nothing
            lengths.append(len(encoding.prompt_ids(prompt.messages)))
    if not lengths:
        return ASSUMED
    return sum(lengths) / len(lengths)


def limit_new_tokens(player: Local, prompt: float, size: Description) -> Local:
    """The player with no more new tokens than its context has behind `prompt` tokens."""
    context = player.max_length or min(size.context or LONGEST, LONGEST)
    room = context - round(prompt)
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
    length = max(2, round(prompt) + answers * new)
    return WorkShape(
        rows=rows,
        prompts=max(1, rows // copies),
        prompt=max(1, round(prompt)),
        new=new,
        batch=batch,
        length=length,
        answer=answers * new,
        bf16=getattr(trainer, "precision", "fp32") == "bf16",
    )


# -- time


def stage_seconds(
    player: Local,
    trainer: Learner,
    judge: Judge,
    prompt: float,
    work: Work,
    shape: WorkShape,
    trial: Trial | None,
) -> dict[str, float | None]:
    """The seconds of all sampling, scoring, training and judging; None without a trial."""
    if trial is None:
        names = ("sampling", "scoring", "training", "judging")
        return {f"{name}_seconds": None for name in names}
    tokens = prompt + player.most_tokens

    batches = work.answers / shape.rows
    reading = batches * shape.prompts * prompt * trial.read
    sampling = reading + batches * player.most_tokens * trial.step

    learned = work.examples * tokens
    if trainer.needs == "pairs":  # two answers to one prompt, which is computed once
        learned = work.examples * (prompt / 2 + player.most_tokens)
    recomputed = 1.0
    if getattr(trainer, "gradient_checkpointing", False) is True:
        recomputed = 4 / 3 if player.lora is None else 3 / 2
    scored, updates = 0.0, 1.0  # passes of an example without gradients, and with them
    if isinstance(trainer, PolicyGradientSettings):
        models = 2 if trainer.critic == "model" else 1
        scored = models + (trainer.kl > 0)
        updates = models * trainer.epochs
    elif isinstance(trainer, FineTuning):
        updates = trainer.epochs
    passes = learned * (updates * recomputed * trial.train + scored * trial.score)

    return {
        "sampling_seconds": sampling,
        "scoring_seconds": work.scored * tokens * trial.score,
        "training_seconds": passes + work.steps * trial.update,
        "judging_seconds": judging_seconds(judge, tokens, work, trial),
    }


def judging_seconds(judge: Judge, tokens: float, work: Work, trial: Trial) -> float | None:
    """Seconds of judging: 0 by rule, by a local model as if like the player, else None."""
    parts = judge.inner_judges()
    if parts:
        times = [judging_seconds(part, tokens, work, trial) for part in parts]
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
