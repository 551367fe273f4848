"""What `auto` means for a learner: how it computes on this player's device.

on a CPU              fp32, nothing computed twice
on an accelerator     bf16 and gradient checkpointing from a billion parameters on,
                      below that fp32 without; products of fp32 in TF32 where it has
                      that (`models.device`)
"""

from __future__ import annotations

from functools import cache
from typing import Literal, Protocol, TypeVar

from equipoise.players.base import Player
from equipoise.players.local_settings import LocalSettings

LARGE = 1_000_000_000
"""Parameters from which on an accelerator computes in bf16 and checkpoints."""
Auto = Literal["auto"]
TIGHT, CLOSE, WIDE = 1e-3, 0.02, 0.25
"""Nats a token by which player and learner may differ: in fp32, in fp32 whose products
are TF32, and with rounding.
"""


class HasAutomatic(Protocol):
    """Settings of a learner, some of which may be `auto`."""

    @property
    def precision(self) -> str: ...

    @property
    def gradient_checkpointing(self) -> bool | Auto: ...

    @property
    def max_disagreement(self) -> float | None: ...

    def model_copy(self, *, update: dict[str, object]) -> HasAutomatic: ...


S = TypeVar("S", bound=HasAutomatic)


def on(settings: S, player: Player) -> S:
    """The settings with nothing left to `auto`, for this player on its device.

    Raises ModelError for a device or a model that is not there.
    """
    tf32 = _multiplies_in_tf32(player)
    checkpointing = settings.gradient_checkpointing
    if "auto" not in (settings.precision, checkpointing):
        return decided(settings, large=False, tf32=tf32)
    return decided(settings, large=_is_large_here(player), tf32=tf32)


def decided(settings: S, large: bool, tf32: bool = False) -> S:
    """Likewise; `large`: the model is large, and on an accelerator; `tf32`: which multiplies
    float32 in TF32.
    """
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if large else "fp32"
    checkpointing = settings.gradient_checkpointing
    if checkpointing == "auto":
        checkpointing = large
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


def _multiplies_in_tf32(player: Player) -> bool:
    from equipoise.models.device import choose_device, has_tf32

    if not isinstance(player, LocalSettings):
        return False
    return choose_device(player.device).type == "cuda" and has_tf32()


def _is_large_here(player: Player) -> bool:
    from equipoise.models.device import choose_device

    if not isinstance(player, LocalSettings):
        return False
    return choose_device(player.device).type != "cpu" and _is_large(player.model)


@cache
def _is_large(model: str) -> bool:
    from equipoise.models.loading import describe

    return describe(model).parameters >= LARGE
