"""Models as targets of `evaluate` and `compare`: the player that a name, an address or a mapping
stands for, and its settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import ConfigError, shorten
from equipoise.players.base import Player
from equipoise.runs import recipe_loader
from equipoise.system.addresses import lacks_scheme

Model = str | Path | Mapping[str, Any]
T = TypeVar("T")


def is_address(target: object) -> bool:
    """True for the address of an endpoint."""
    return str(target).startswith(("http://", "https://"))


def is_player(values: Mapping[str, Any]) -> bool:
    """True for the settings of a player, and False for targets by name."""
    if "kind" in values or "base_url" in values:
        return True
    known: set[str] = set()
    for kind in ("local", "endpoint"):
        known |= Player.find(kind).model_fields.keys()
    return isinstance(values.get("model"), str) and values.keys() <= known


def parsed(target: T) -> T | dict[str, Any]:
    """The target, a player's settings read where they are given as YAML. Raises ConfigError."""
    if not isinstance(target, str) or not target.lstrip().startswith("{"):
        return target
    player = recipe_loader.parse_mapping(target, "a target")
    if not {"kind", "model", "base_url"}.intersection(player):
        raise ConfigError(
            f"{shorten(target)}: is no player; write one as "
            "'{base_url: http://…/v1, model: NAME, api_key_env: VARIABLE}'"
        )
    return player


def player_of(model: Model) -> dict[str, Any]:
    """The player's settings for a model: a folder, hub id, packaged name, address or mapping."""
    if isinstance(model, Mapping):
        player = dict(recipe_loader.plain_values(model))
        player.setdefault("kind", "endpoint" if "base_url" in player else "local")
        return player
    text = str(model)
    if lacks_scheme(text.partition("#")[0]):
        raise ConfigError(f"{text}: a server's address begins with http://, as http://{text}")
    if not is_address(text):
        return {"kind": "local", "model": text}
    address, _, name = text.partition("#")
    player = {"kind": "endpoint", "base_url": address}
    if name:
        player["model"] = name
    return player


def settings_for(
    model: Model, overrides: recipe_loader.Overrides, kinds: Collection[str]
) -> recipe_loader.Overrides:
    """The settings that a model reads, without those that only others of these `kinds` know."""
    own = Player.find(player_of(model)["kind"]).model_fields
    known: set[str] = set()
    for kind in kinds:
        known |= Player.find(kind).model_fields.keys()

    def is_read(key: str) -> bool:
        name = key.partition("=")[0].strip().partition(".")[0]
        return name in own or name not in known

    if isinstance(overrides, Mapping):
        return {key: value for key, value in overrides.items() if is_read(str(key))}
    return [text for text in overrides if is_read(text)]
