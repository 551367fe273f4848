"""Memory and time that a run's local learners would take on this machine, estimated
from the sizes of their models.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from equipoise.errors import DataError
from equipoise.learners.base import Learner
from equipoise.models.loading import Description, describe
from equipoise.players.local import Local
from equipoise.run.config import RunConfig

EFFICIENCY = 0.3
"""Share of a large matrix product's speed that sampling and training reach; the
estimate's one guess."""
CHARACTERS_PER_TOKEN = 4
ACTIVATIONS = 16  # numbers that a layer keeps per hidden number for the backward pass


@dataclass(frozen=True)
class CostEstimate:
    """What a run takes, as if every player were like these learners.

    Memory in bytes, arithmetic in floating-point operations at most, time in seconds on
    `device`.
    """

    learners: tuple[str, ...]
    parameters: int
    trainable: int
    mean_prompt_tokens: float
    memory_while_sampling: float
    memory_while_training: float
    arithmetic: float
    seconds: float
    device: str


def costs(
    config: RunConfig, answers: int, examples: int, scored: int
) -> tuple[tuple[CostEstimate, ...], tuple[str, ...]]:
    """The costs of all local learners, and notes on what had to be assumed; learners
    that cost the same are one entry.

    Args: answers: sampled in the whole run; examples: answers that are learned from;
    scored: answers whose log-probability under an opponent is needed.
    """
    local = {
        name: player
        for name in config.learning
        if isinstance(player := config.players[name], Local)
    }
    if not local:
        return (), ()
    prompt_tokens, notes = _prompt_tokens(config)
    speed, device = _matrix_speed()
    grouped: dict[CostEstimate, tuple[str, ...]] = {}
    for name, player in local.items():
        model = describe(player.model, player.lora)
        trainer = config.learner_of(name)
        tokens = prompt_tokens + player.max_new_tokens
        passes = answers + scored + 3 * examples  # training: forward and twice backward
        arithmetic = 2 * model.parameters * passes * tokens
        cost = CostEstimate(
            (),
            parameters=model.parameters,
            trainable=model.trainable,
            mean_prompt_tokens=prompt_tokens,
            memory_while_sampling=_sampling_bytes(player, model, tokens),
            memory_while_training=_training_bytes(player, model, trainer, tokens),
            arithmetic=arithmetic,
            seconds=arithmetic / (speed * EFFICIENCY),
            device=device,
        )
        grouped[cost] = (*grouped.get(cost, ()), name)
    return tuple(
        replace(cost, learners=names) for cost, names in grouped.items()
    ), notes


def _sampling_bytes(player: Local, model: Description, tokens: float) -> float:
    """Weights, and the keys and values of a batch of answers."""
    width = _bytes_per_number(player)
    cache = player.batch_size * tokens * model.kv_numbers * width
    return model.parameters * width + cache


def _training_bytes(
    player: Local, model: Description, trainer: Learner, tokens: float
) -> float:
    """Weights, gradients and two Adam moments, activations, and what the trainer keeps."""
    width = _bytes_per_number(player)
    weights = model.parameters * width + model.trainable * (width + 8)
    kept = trainer.kept(model.parameters, player.lora is not None)
    answers_per_example = 1 if trainer.needs == "episodes" else 2
    rows = answers_per_example * getattr(trainer, "batch_size", 1)
    activations = rows * tokens * model.hidden * model.layers * ACTIVATIONS * width
    return weights + kept + activations


def _bytes_per_number(player: Local) -> int:
    return 2 if player.dtype in ("bfloat16", "float16") else 4


def _prompt_tokens(config: RunConfig) -> tuple[float, tuple[str, ...]]:
    """Mean length of a prompt, and notes; 64 tokens where the source is not there yet."""
    try:
        prompts = config.prompts.load().training
    except DataError as error:
        return 64.0, (
            f"the prompts cannot be read yet, so 64 tokens each are assumed ({error})",
        )
    characters = sum(
        len(message.content) for prompt in prompts for message in prompt.messages
    )
    return characters / CHARACTERS_PER_TOKEN / max(1, len(prompts)), ()


def _matrix_speed() -> tuple[float, str]:
    """(floating-point operations a second of a large matrix product here, the device's name)."""
    import torch

    from equipoise.models.device import choose_device

    device = choose_device()
    fast = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if fast else (1024, torch.float32)
    matrix = torch.rand(size, size, dtype=dtype, device=device)
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        (matrix @ matrix)[0, 0].item()
        best = min(best, time.perf_counter() - started)
    name = torch.cuda.get_device_name() if fast else f"this {device.type.upper()}"
    return 2 * size**3 / best, name
