"""All matches advance together: every round, each player gets one batch of views and
gives one batch of moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from equipoise import seeds
from equipoise.games.base import Ask, Game, Referee
from equipoise.matches.base import Planned
from equipoise.types import Match, Move, PlayerId, Turn, View

Act = Callable[[PlayerId, list[View], list[int]], list[Move]]


def play(planned: Sequence[Planned], game: Game, act: Act) -> list[Match]:
    """Play every planned match to its end, in order.

    `act(player, views, seeds)` gives one move a view. A move's dice come from (match
    seed, seat, its turn number), so they do not depend on who else is playing.
    """
    tables = [_Table(plan, game.referee(plan.prompt)) for plan in planned]
    waiting = [table for table in tables if table.asks]
    while waiting:
        batches: dict[PlayerId, list[tuple[_Table, int]]] = defaultdict(list)
        for table in waiting:
            for i, ask in enumerate(table.asks):
                batches[table.plan.seats[ask.seat]].append((table, i))
        for player, rows in batches.items():
            views = [table.asks[i].view for table, i in rows]
            moves = act(player, views, [table.seed(i) for table, i in rows])
            assert len(moves) == len(rows), (
                f"{player} gave {len(moves)} moves for {len(rows)} views"
            )
            for (table, i), move in zip(rows, moves, strict=True):
                table.moves[i] = move
        for table in waiting:
            table.advance()
        waiting = [table for table in waiting if table.asks]
    return [table.match(game.kind) for table in tables]


class _Table:
    """One match under way: its referee, what it asks now, and the turns so far."""

    def __init__(self, plan: Planned, referee: Referee) -> None:
        self.plan, self.referee = plan, referee
        self.turns: list[Turn] = []
        self._hear(next(self.referee, None))

    def _hear(self, asked: Ask | list[Ask] | None) -> None:
        self.together = isinstance(asked, list)
        self.asks: list[Ask] = (
            asked if isinstance(asked, list) else [asked] if asked else []
        )
        self.moves: list[Move | None] = [None] * len(self.asks)

    def seed(self, i: int) -> int:
        """The dice of the i-th ask: by seat, and by how often that seat has moved."""
        seat = self.asks[i].seat
        return seeds.child(
            self.plan.seed, seat, sum(turn.seat == seat for turn in self.turns)
        )

    def advance(self) -> None:
        """Hand the moves to the referee and take its next asks."""
        moves = [move for move in self.moves if move is not None]
        self.turns += [
            Turn(ask.seat, ask.view, move)
            for ask, move in zip(self.asks, moves, strict=True)
        ]
        try:
            self._hear(self.referee.send(moves if self.together else moves[0]))
        except StopIteration:
            self._hear(None)

    def match(self, game: str) -> Match:
        plan = self.plan
        return Match(
            plan.id,
            plan.generation,
            plan.split,
            game,
            plan.prompt.id,
            plan.seats,
            plan.seed,
            tuple(self.turns),
        )
