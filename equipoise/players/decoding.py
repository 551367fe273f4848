"""Players that answer at another temperature, or with another limit on their answers."""

from __future__ import annotations

from typing import Any

from equipoise.players.base import Player


def with_decoding(
    player: Player,
    temperature: float | None = None,
    max_new_tokens: int | None = None,
    *,
    whole_context: bool = False,
) -> Player:
    """The player with these settings of sampling, as far as it has them; None leaves its own. With
    `whole_context` its bound on prompt and answer together, which is made for training, gives way
    to the model's own.
    """
    wanted: dict[str, Any] = {"temperature": temperature, "max_new_tokens": max_new_tokens}
    change: dict[str, Any] = {
        name: value
        for name, value in wanted.items()
        if value is not None and name in type(player).model_fields
    }
    if whole_context and "max_length" in type(player).model_fields:
        change["max_length"] = None
    return player.model_copy(update=change) if change else player
