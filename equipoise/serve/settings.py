"""The settings of `equipoise serve` and `equipoise chat`, and what they serve."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, create_model, model_validator

from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.players.base import Player
from equipoise.players.local import Local
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.engine import Extension, extension_offers

S = TypeVar("S", bound=Settings)
# YAML reads a bare off as false.
Choice = Annotated[Any, BeforeValidator(lambda value: "off" if value is False else value)]
PLAYER = Field({}, description="settings of the players: player.top_p=0.9, player.max_length=4096")


class ServeSettings(Limits):
    """Settings of `equipoise serve`; extensions add theirs (`with_extensions`)."""

    grace: int = Field(
        30, ge=0, description="seconds to finish answers under way when the server is stopped"
    )
    player: dict[str, Any] = PLAYER


class ChatSettings(Settings):
    """Settings of `equipoise chat`; extensions add theirs (`with_extensions`)."""

    seed: int = Field(0, ge=0, description="seed of the answers")
    temperature: float | None = Field(
        None, ge=0, description="sampling temperature; null: the player's"
    )
    max_tokens: int | None = Field(
        None, ge=1, description="tokens of an answer, hidden ones included; null: the player's"
    )
    player: dict[str, Any] = PLAYER

    @model_validator(mode="before")
    @classmethod
    def _has_no_steering_words(cls, values: Any) -> Any:
        for name in ("steer", "blocks"):
            if isinstance(values, dict) and name in values:
                raise ValueError(
                    f"there is no setting '{name}'; write -s steering=NAME, or --player "
                    "policy@3:NAME; with -s steering=off the blocks are shown"
                )
        return values


def with_extensions(kind: type[S]) -> type[S]:
    """The settings with the extensions' fields."""
    fields: dict[str, Any] = {}
    for field, offer in extension_offers().items():
        fields[field] = (Choice, Field(None, description=offer.option))
    return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **fields)


def game_of(target: str, trust: bool) -> Game | None:
    """The game of a run; None for a model. Raises RunError as `catalogue_of`."""
    if not is_run(target):
        return None
    with RunDirectory.read(Path(target), trust) as run:
        run.agree_without_parts(trust)  # a game may read a file
        return run.config.game


def catalogue_of(
    target: str,
    changes: Mapping[str, Any],
    extensions: Mapping[str, Extension] | None = None,
    trust: bool = False,
) -> Catalogue:
    """The models behind a target, by name.

    target: a run, or a model (folder, file, hub id or packaged name). changes: settings of the
    players. trust: of somebody else's run, keys may be sent and parts imported. Raises RunError,
    ConfigError or ModelError.
    """

    def change(player: Player) -> Player:
        if changes and isinstance(player, Local):
            return _player(player.settings(), changes)
        return player

    if is_run(target):
        return Catalogue.of_run(Path(target), change, extensions, trust)
    if target.startswith(("http://", "https://")):
        raise ConfigError(
            f"{target}: another server's models are not passed on; send requests there, or put "
            "LiteLLM before several servers"
        )
    path = Path(target)
    name = path.resolve().name if path.exists() else target
    player = _player({"kind": "local", "model": target}, changes)
    return Catalogue.of_player(name, player, extensions)


def _player(settings: dict[str, Any], changes: Mapping[str, Any]) -> Any:
    merged = recipe_loader.merge(settings, changes)
    return recipe_loader.component(Player, merged, (), "-s player")
