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
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

from pydantic import Field

from equipoise.errors import ModelError
from equipoise.players.base import Player
from equipoise.players.local_settings import LocalSettings

if TYPE_CHECKING:
    from equipoise.models.loading import Description

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
        "slower; selective: products and attention are kept, half of the activations' memory "
        "(bf16: three quarters) at hardly any time; auto: true on an accelerator from a billion "
        "parameters on, selective on a CPU for whole weights from a hundred million on"
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


def resolve_auto(settings: S, player: Player) -> S:
    """The settings with nothing left to `auto`, on this player's device. Raises ModelError."""
    if not isinstance(player, LocalSettings):
        return decide(settings, large=False)
    from equipoise.models.device import choose_device, has_tf32

    device = choose_device(player.device).type
    tf32 = device == "cuda" and has_tf32()
    if "auto" not in (settings.precision, settings.gradient_checkpointing):
        return decide(settings, large=False, tf32=tf32)
    return decide_on(device, settings, _size(player.model), tf32, whole=player.lora is None)


def decide_on(
    device: str, settings: S, size: Description, tf32: bool = False, whole: bool = False
) -> S:
    """The settings without `auto` for a model on a type of device; whole: its own weights learn."""
    if device != "cpu":
        large = size.parameters >= LARGE
        return decide(settings, large, tf32, again=large and size.checkpoints)
    from equipoise.models.device import bfloat16_is_faster

    notable = size.parameters >= NOTABLE
    short = notable and settings.precision == "auto" and bfloat16_is_faster()
    cheap = notable and whole and size.checkpoints and not size.shared
    return decide(settings, large=False, short=short, again="selective" if cheap else False)


def decide(
    settings: S,
    large: bool,
    tf32: bool = False,
    short: bool = False,
    again: bool | Literal["selective"] | None = None,
) -> S:
    """The settings without `auto`; large: on an accelerator; tf32, short: it multiplies so; again:
    what the backward pass computes again, None: all where large.
    """
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if large or short else "fp32"
    checkpointing = settings.gradient_checkpointing
    if checkpointing == "auto":
        checkpointing = large if again is None else again
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


def faults_of_recomputing(setting: bool | str, player: Player) -> Iterator[str]:
    """Why a model's layers cannot be computed again as gradient_checkpointing asks."""
    if setting in (False, "auto") or not isinstance(player, LocalSettings):
        return
    try:
        size = _size(player.model)
    except ModelError:
        return  # which the player tells
    if not size.checkpoints:
        yield f"gradient_checkpointing: model '{player.model}' has no such way; set it false"
    elif setting == "selective" and size.shared:
        yield f"gradient_checkpointing: layers of model '{player.model}' share weights; set it true"


@cache
def _size(model: str) -> Description:
    from equipoise.models.loading import describe

    return describe(model)
