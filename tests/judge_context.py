"""A bench for judges under test: a game, a pool, ratings, and players opened as a run
would open them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from equipoise.games.answers import Answers
from equipoise.games.base import Game
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Move, PlayerId, View


@dataclass
class TestBench:
    """`players` are the run's, by name; every asked view is kept in `asked`."""

    __test__ = False

    game: Game = field(default_factory=Answers)
    players: Mapping[str, Player] = field(default_factory=dict)
    ratings: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    resources: Resources = field(default_factory=Resources)
    asked: list[tuple[PlayerId | None, View]] = field(default_factory=list)

    @property
    def pool(self) -> list[PlayerId]:
        """Every player, as given."""
        return [PlayerId(name) for name in self.players]

    def ask(
        self, who: Player | PlayerId, views: Sequence[View], seeds: Sequence[int]
    ) -> list[Move]:
        """The moves of a player of the run, or of one of the judge's own."""
        self.asked += [
            (who if isinstance(who, PlayerId) else None, view) for view in views
        ]
        player = self.players[who.name] if isinstance(who, PlayerId) else who
        return player.open(player.start, self.resources).act(views, seeds)
