"""The players of a run at all their generations: their weights, and the actors that are open."""

from collections.abc import Callable, Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

from equipoise.errors import RunError
from equipoise.models import loading
from equipoise.models.resources import Replies, Resources
from equipoise.players.base import Actor, Adjustable, Player
from equipoise.players.local_settings import LocalSettings
from equipoise.system.files import check_whole
from equipoise.system.folder import Folder
from equipoise.types import PlayerId

OpenActor = Callable[[Player, Path | None, Resources], Actor]


class Population:
    """Opens players on demand, sharing what they load. Generation 0 is the player as configured."""

    def __init__(
        self,
        players: Mapping[str, Player],
        folder: Path,
        replies: Replies | None = None,
        resources: Resources | None = None,
        live: Callable[[PlayerId], Actor | None] = lambda player: None,
        open_actor: OpenActor | None = None,
    ) -> None:
        """`folder` holds the trained generations; `replies` keeps those that were paid for.

        `resources`: another population's, to share; `live`: a learner's actor in memory, or None.
        """
        self.players = dict(players)
        self.folder = folder
        self.resources = Resources(replies) if resources is None else resources
        self._live = live
        self._open_actor = open_actor or open_by_player
        self._open: dict[PlayerId | str, Actor] = {}
        self._whole: set[PlayerId] = set()  # whose files were checked

    def weights(self, player: PlayerId) -> Path | None:
        """The folder of a generation's weights; None: the model's own. Raises RunError."""
        if player.generation == 0:
            return self.players[player.name].start
        folder = self.home(player)
        if not folder.is_dir():
            raise RunError(
                f"{folder}: the weights of {player} are gone; `keep` decides which generations stay"
            )
        if player not in self._whole:
            check_whole(folder)
            self._whole.add(player)
        return folder

    def home(self, player: PlayerId) -> Path:
        """The folder of a generation's weights, whether or not it is there."""
        return home(self.folder, player)

    def kept(self, name: str) -> list[int]:
        """The generations of a player whose weights are there, oldest first."""
        folders = (self.folder / name).glob("[0-9]*")
        trained = [int(folder.name) for folder in folders if folder.name.isdigit()]
        return sorted({0, *trained})

    def actor(self, player: PlayerId | Player) -> Actor:
        """The open actor of a player of the run, or of one that only a judge's settings know."""
        if not isinstance(player, PlayerId):
            return self._get(player.model_dump_json(), player)
        live = self._live(player)
        return self._get(player, self.players[player.name], player) if live is None else live

    def _get(self, key: PlayerId | str, settings: Player, player: PlayerId | None = None) -> Actor:
        if key not in self._open:
            weights = settings.start if player is None else self.weights(player)
            self._open[key] = self._open_actor(settings, weights, self.resources)
        return self._open[key]

    def actor_with(
        self,
        player: PlayerId,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        *,
        whole_context: bool = True,
    ) -> Actor:
        """The actor under other sampling (None: the player's), by default with the model's full
        context.
        """
        own = self.players[player.name]
        changed = with_decoding(own, temperature, max_new_tokens, whole_context=whole_context)
        if changed == own:
            return self.actor(player)
        live = self._live(player)
        if isinstance(live, Adjustable):
            return live.with_settings(changed)
        return self._get(f"{player} {changed.model_dump_json()}", changed, player)

    def release(self, keep: Collection[Hashable] = ()) -> None:
        """Close every actor and what they shared, but for the keys in `keep`."""
        for actor in self._open.values():
            actor.close()
        self._open.clear()
        self.resources.clear(keep)

    def forget(self, name: str, newest: int, spared: Collection[PlayerId] = ()) -> None:
        """Delete the weights of `name` but for its `newest` generations and those `spared`."""
        trained = self.kept(name)[1:]
        for generation in trained[:-newest]:
            if PlayerId(name, generation) not in spared:
                with Folder.open(self.folder) as players, players.inner(name) as generations:
                    generations.remove(str(generation))


def open_by_player(player: Player, weights: Path | None, resources: Resources) -> Actor:
    return player.open(weights, resources)


def home(folder: Path, player: PlayerId) -> Path:
    """The folder of a generation's weights below a run's folder of players."""
    return folder / player.name / str(player.generation)


def with_decoding(
    player: Player,
    temperature: float | None = None,
    max_new_tokens: int | None = None,
    *,
    whole_context: bool = False,
) -> Player:
    """The player with these settings of sampling where it has them; None leaves its own.

    With `whole_context` its bound on prompt and answer gives way to the model's own.
    """
    given = {"temperature": temperature, "max_new_tokens": max_new_tokens}
    change: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if whole_context and isinstance(player, LocalSettings):
        change["max_length"] = loading.whole_context(player.model, player.max_length)
    change = {name: change[name] for name in change if name in type(player).model_fields}
    return player.model_copy(update=change) if change else player
