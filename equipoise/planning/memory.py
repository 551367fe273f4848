"""Bytes of models that play, judge and learn, from their sizes and settings alone, and the settings
that save memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.judges.reward_model import LoadedSettings
from equipoise.learners.base import Learner
from equipoise.learners.launch import Launch
from equipoise.models.device import Hardware
from equipoise.models.loading import ACTIVATIONS, Description
from equipoise.models.quantization import BYTES
from equipoise.players.local import Local
from equipoise.sampling.engines.base import RemoteSampler

if TYPE_CHECKING:
    from equipoise.planning.trial import Trial, WorkShape

ENGINE_SHARE = 0.9  # of an accelerator's memory that an engine takes


def sampling_bytes(player: Local, size: Description, tokens: float, device: str) -> float:
    """Bytes of weights, a batch's keys and values, and its next tokens' logits."""
    width = number_width(player, size, device)
    cache = player.batch_size * tokens * size.kv_numbers * width
    logits = 4 * 4 * player.batch_size * size.vocabulary
    copies = 0.0
    if device == "cpu" and player.precision == "bf16" and width == 4:
        copies = 2.0 * size.parameters
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
    if player.dtype in ("bfloat16", "float16"):
        return 2
    as_stored = player.dtype == "auto" and device != "cpu"
    return 2 if as_stored and size.short else 4


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
    weights += trainer.extra_bytes(size.parameters, player.lora is not None)

    # What a token leaves for the backward pass, in one layer and in all.
    if trial is not None:
        by_layer = trial.kept_by_layer
        by_token = trial.kept
    else:
        by_layer = 4.0 * ACTIVATIONS * size.hidden
        by_token = size.layers * by_layer
    checkpointing = getattr(trainer, "gradient_checkpointing", False)
    if checkpointing == "selective":
        by_token = by_layer + by_token * (0.75 if bf16 else 0.5)
    elif checkpointing:
        by_token = by_layer + size.layers * size.hidden * (2 if bf16 else 4)
    activations = shape.batch * shape.length * by_token

    chunk = getattr(trainer, "chunk", None) or (256 if device == "cpu" else 2048)
    rows = min(chunk, shape.batch * shape.answer)
    logits = 2 * 4 * rows * size.vocabulary
    return bytes_per_process(trainer, weights) + activations + logits


# -- processes and engines


def process_count(trainer: Learner) -> int:
    """The processes that train."""
    launch: Launch | None = getattr(trainer, "launch", None)
    return 1 if launch is None else launch.processes


def divides_weights(trainer: Learner) -> bool:
    """True if each process holds a share of the weights."""
    launch: Launch | None = getattr(trainer, "launch", None)
    return launch is not None and launch.divides_weights


def bytes_per_process(trainer: Learner, weights: float) -> float:
    """Bytes of weights and optimizer in one process, a part where the model is divided."""
    return weights / process_count(trainer) if divides_weights(trainer) else weights


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


# -- advice


def saving_settings(player: Local, trainer: Learner, training: bool) -> str:
    """Settings that save memory, the cheapest first; `player.…` are of the player."""
    settings = []
    if not training:
        if player.batch_size > 1:
            settings.append(f"player.batch_size={player.batch_size // 2}")
        return ", ".join(settings) or "a smaller model"
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


def for_players(advice: str, names: Sequence[str]) -> str:
    """The advice with each of these players named in place of `player`."""
    settings: list[str] = []
    for setting in advice.split(", "):
        part, point, rest = setting.partition(".")
        if part == "player" and point:
            settings += [f"{name}.{rest}" for name in names]
        else:
            settings.append(setting)
    return ", ".join(settings)
