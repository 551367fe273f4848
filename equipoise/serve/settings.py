"""The settings of `equipoise serve` and `equipoise chat`, and what they serve."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, create_model

from equipoise.component import Settings
from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.measure_sets import is_run
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


def with_extensions(kind: type[S]) -> type[S]:
    """The settings with the extensions' fields, and in conversations their wishes and reports."""
    fields: dict[str, Any] = {}
    for field, offer in extension_offers().items():
        fields[field] = (Choice, Field(None, description=offer.option))
        if issubclass(kind, ChatSettings):
            fields[offer.wish] = (Choice, Field(None, description=offer.wish_help))
            fields[offer.report] = (bool, Field(False, description=offer.report_help))
    return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **fields)


def game_of(target: str, trust: bool) -> Game | None:
    """The game of a run; None for a model or an address. Raises RunError as `catalogue_of`."""
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

    target: a run, a model (folder, file, hub id or packaged name), or a server's address. changes:
    settings of the players. trust: of somebody else's run, keys may be sent and parts imported.
    Raises RunError, ConfigError or ModelError.
    """

    def change(player: Player) -> Player:
        is_changed = changes and isinstance(player, Local | Endpoint)
        return _player(player.settings(), changes) if is_changed else player

    if is_run(target):
        return Catalogue.of_run(Path(target), change, extensions, trust)
    settings: dict[str, Any] = {"kind": "local", "model": target}
    path = Path(target)
    name = path.resolve().name if path.exists() else target
    if target.startswith(("http://", "https://")):
        if "model" not in changes:
            raise ConfigError(f"{target}: name the model there: -s player.model=NAME")
        settings, name = {"kind": "endpoint", "base_url": target}, str(changes["model"])
    return Catalogue.of_player(name, _player(settings, changes), extensions)


def _player(settings: dict[str, Any], changes: Mapping[str, Any]) -> Any:
    merged = recipe_loader.merge(settings, changes)
    return recipe_loader.component(Player, merged, (), "-s player")
