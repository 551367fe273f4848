"""What is to be served: a run's players, a model, or a model behind another server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import ConfigError
from equipoise.games.base import Game
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.local import Local
from equipoise.runs import recipes
from equipoise.runs.directory import RunDirectory
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.extension import Extension


@dataclass(frozen=True)
class Source:
    """Exactly one of a run's directory, a model (folder, hub id or packaged name), and another
    server's address.

    `adapter` goes with `model`; `upstream_model` is the model's name at `upstream`,
    `upstream_key_env` the variable that holds the key. `overrides` (`key=value`) change the
    players' settings; `trust`: of a run that somebody else began, too, keys may be sent and its own
    parts imported. Raises ConfigError for settings that do not fit together.
    """

    run: Path | None = None
    model: str = ""
    adapter: str = ""
    upstream: str = ""
    upstream_model: str = ""
    upstream_key_env: str = ""
    overrides: Sequence[str] = ()
    trust: bool = False

    def __post_init__(self) -> None:
        if sum((self.run is not None, bool(self.model), bool(self.upstream))) != 1:
            raise ConfigError(
                "name what to serve: a run directory, --model MODEL, "
                "or --upstream URL --upstream-model NAME"
            )
        if bool(self.upstream) != bool(self.upstream_model):
            raise ConfigError("--upstream and --upstream-model go together")
        if self.adapter and not self.model:
            raise ConfigError("--adapter needs --model")
        if self.upstream_key_env and not self.upstream:
            raise ConfigError("--upstream-key-env needs --upstream")

    def game(self) -> Game | None:
        """The run's game; None for a model alone. Raises RunError where there is no run."""
        if self.run is None:
            return None
        with RunDirectory.read(self.run, self.trust) as run:
            return run.config.game

    def catalogue(self, extensions: Mapping[str, Extension] | None = None) -> Catalogue:
        """The models, by name. Raises RunError, ConfigError or ModelError."""
        if self.run is not None:
            return Catalogue.of_run(self.run, self._changed, extensions, self.trust)
        if self.upstream:
            settings = {
                "kind": "endpoint",
                "base_url": self.upstream,
                "model": self.upstream_model,
                "api_key_env": self.upstream_key_env or None,
            }
            name, player = self.upstream_model, self._player(settings, "--upstream")
        else:
            settings = {"kind": "local", "model": self.model, "adapter": self.adapter or None}
            path = Path(self.model)
            name = path.resolve().name if path.is_dir() else self.model
            player = self._player(settings, "--model")
        assert isinstance(player, Local | Endpoint)
        return Catalogue.of_player(name, player, extensions)

    def _changed(self, player: Player) -> Player:
        """A run's player with the overrides."""
        if not self.overrides:
            return player
        return self._player(player.settings(), str(self.run))

    def _player(self, settings: Mapping[str, Any], source: str) -> Player:
        return recipes.component(Player, json.dumps(settings), self.overrides, source)
