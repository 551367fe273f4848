"""The players of a run at all their generations: where their weights lie, and the actors that are open."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from equipoise.errors import RunError
from equipoise.players.base import Actor, Player, Shelf
from equipoise.types import PlayerId


class Population:
    """Opens players on demand and shares what they share. Generation 0 is the player as given."""

    def __init__(self, players: Mapping[str, Player], folder: Path) -> None:
        self.players = dict(players)
        self.folder = folder
        self._shelf = Shelf()
        self._open: dict[PlayerId, Actor] = {}

    def weights(self, player: PlayerId) -> Path | None:
        """The folder of a generation's weights; None for generation 0. Raises RunError when they are gone."""
        if player.generation == 0:
            return None
        folder = self.home(player)
        if not folder.is_dir():
            raise RunError(f"{folder}: the weights of {player} are gone; `keep` decides which generations stay")
        return folder

    def home(self, player: PlayerId) -> Path:
        """Where a generation's weights belong, whether or not they are there."""
        return self.folder / player.name / str(player.generation)

    def actor(self, player: PlayerId) -> Actor:
        """The open actor of `player`."""
        if player not in self._open:
            self._open[player] = self.players[player.name].open(self.weights(player), self._shelf)
        return self._open[player]

    def release(self) -> None:
        """Close every actor and give back what they shared, so that a learner finds the memory free."""
        for actor in self._open.values():
            actor.close()
        self._open.clear()
        self._shelf.clear()

    def forget(self, name: str, newest: int) -> None:
        """Delete the weights of `name` but for its `newest` generations."""
        born = sorted(int(f.name) for f in (self.folder / name).glob("[0-9]*") if f.name.isdigit())
        for generation in born[:-newest]:
            shutil.rmtree(self.home(PlayerId(name, generation)))
