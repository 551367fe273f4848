"""A context for judges under test: a game, a pool, ratings, and players opened as a run would open
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.games.answers import Answers
from equipoise.games.base import Game
from equipoise.judges.base import JudgeContext, Questions
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player
from equipoise.types import Move, PlayerId, View


class TestContext(JudgeContext):
    """`players` are the run's, by name; every view is kept in `asked`, with the player of the run
    that got it, or None.
    """

    __test__ = False

    def __init__(
        self,
        game: Game | None = None,
        players: Mapping[str, Player] | None = None,
        ratings: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        players = players or {}
        resources = Resources()

        def actor(player: Player | PlayerId) -> Actor:
            opened = players[player.name] if isinstance(player, PlayerId) else player
            return opened.open(opened.start, resources)

        super().__init__(
            game=game or Answers(),
            seed=seed,
            pool=[PlayerId(name) for name in players],
            ratings=ratings or {},
            resources=resources,
            actor=actor,
        )
        asked: list[tuple[PlayerId | None, View]] = []
        object.__setattr__(self, "asked", asked)

    def ask_together(self, questions: Sequence[Questions]) -> list[list[Move]]:
        """The moves, and a note of who was asked what."""
        for player, views, _ in questions:
            known = player if isinstance(player, PlayerId) else None
            self.asked += [(known, view) for view in views]
        return super().ask_together(questions)
