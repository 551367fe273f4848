"""Settings that are `auto`: the way in which a learner computes on a player's device.

on a CPU              bf16 from a hundred million parameters on where a trial shows that it is
                      faster (`models.device`), else fp32; from there on whole weights
                      compute their cheap activations twice
on an accelerator     bf16 and gradient checkpointing from a billion parameters on,
                      below that fp32 without; products of fp32 in TF32 where it has
                      that (`models.device`)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import Field

from equipoise.players.base import Player
from equipoise.players.local_settings import LocalSettings

LARGE = 1_000_000_000
"""Parameters from which on an accelerator computes in bf16 and checkpoints."""
NOTABLE = 100_000_000
"""Parameters from which on a CPU's time goes into products, so that bf16 may save it."""
TIGHT, CLOSE, WIDE = 1e-3, 0.02, 0.25
"""Nats a token by which player and learner may differ: in fp32, in TF32, with rounding."""
OPTIMIZERS = {  # here -> in transformers
    "adamw_fused": "adamw_torch_fused",
    "adamw": "adamw_torch",
    "adamw_8bit": "adamw_bnb_8bit",
}
Optimizer = Annotated[
    Literal["adamw_fused", "adamw", "adamw_8bit"],
    Field(
        description="AdamW in one kernel or in torch's plain steps; adamw_8bit: its moments in 8 "
        "bits by bitsandbytes (arXiv 2110.02861), 10 bytes a trained weight for 16"
    ),
]

Recomputed = Annotated[
    bool | Literal["auto", "selective"],
    Field(
        description="compute activations again in the backward pass: less memory, about a third "
        "slower; selective: all but products and attention, half of that memory at hardly any "
        "time; auto: true on an accelerator from a billion parameters on, selective on a CPU for "
        "whole weights from a hundred million on"
    ),
]


class HasAutomatic(Protocol):
    """Settings of a learner, some of which may be `auto`."""

    @property
    def precision(self) -> str: ...

    @property
    def gradient_checkpointing(self) -> bool | Literal["auto", "selective"]: ...

    @property
    def max_disagreement(self) -> float | None: ...

    def model_copy(self, *, update: dict[str, object]) -> HasAutomatic: ...


S = TypeVar("S", bound=HasAutomatic)


def settle(settings: S, player: Player) -> S:
    """The settings with nothing left to `auto`, on this player's device. Raises ModelError."""
    if not isinstance(player, LocalSettings):
        return decide(settings, large=False)
    from equipoise.models.device import choose_device, has_tf32

    device = choose_device(player.device).type
    tf32 = device == "cuda" and has_tf32()
    is_open = "auto" in (settings.precision, settings.gradient_checkpointing)
    parameters = _parameters(player.model) if is_open else 0
    return decide_on(device, settings, parameters, tf32, whole=player.lora is None)


def decide_on(
    device: str, settings: S, parameters: int, tf32: bool = False, whole: bool = False
) -> S:
    """The settings without `auto` for a model of so many parameters on a type of device; whole: its
    own weights learn.
    """
    if device != "cpu":
        return decide(settings, parameters >= LARGE, tf32)
    from equipoise.models.device import bfloat16_is_faster

    notable = parameters >= NOTABLE
    short = notable and settings.precision == "auto" and bfloat16_is_faster()
    return decide(settings, large=False, short=short, tight=notable and whole)


def decide(
    settings: S, large: bool, tf32: bool = False, short: bool = False, tight: bool = False
) -> S:
    """The settings without `auto`; large: on an accelerator; tf32, short: it multiplies so; tight:
    activations are much of the memory.
    """
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if large or short else "fp32"
    checkpointing = settings.gradient_checkpointing
    if checkpointing == "auto":
        checkpointing = "selective" if tight else large
    most = settings.max_disagreement
    if most is None:
        rounded = getattr(settings, "rounding", "none") != "none"
        exact = CLOSE if tf32 else TIGHT
        most = exact if precision == "fp32" and not rounded else WIDE
    chosen = {
        "precision": precision,
        "gradient_checkpointing": checkpointing,
        "max_disagreement": most,
    }
    return settings.model_copy(update=chosen)  # pyright: ignore[reportReturnType]


def faults_of_weights(optimizer: Optimizer, launch: Any, player: Player) -> Iterator[str]:
    """Faults of an optimizer and of a quantised base, with processes that divide weights or not."""
    divides = launch is not None and launch.divides_weights
    if divides and getattr(player, "quantization", None):
        yield "launch: a base of 4 or 8 bits is not divided among processes; use ddp"
    if optimizer != "adamw_8bit":
        return
    if divides:
        yield "optimizer: adamw_8bit keeps whole moments; with fsdp2, use adamw_fused"
    if find_spec("bitsandbytes") is None:
        yield (
            "optimizer: adamw_8bit is by bitsandbytes, which is not installed; "
            "pip install 'equipoise[quantization]'"
        )


@cache
def _parameters(model: str) -> int:
    from equipoise.models.loading import describe

    return describe(model).parameters
