"""All matches advance together: every round, each player gets one batch of views and gives one
batch of moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from equipoise import seeds
from equipoise.games.base import Ask, Game, Referee
from equipoise.matches.base import Planned
from equipoise.types import Match, Move, PlayerId, Turn, View

Act = Callable[[PlayerId, list[View], list[int]], list[Move]]
# Likewise of several players, each with its views and seeds: the moves of each.
ActTogether = Callable[[list[tuple[PlayerId, list[View], list[int]]]], list[list[Move]]]


def play(
    planned: Sequence[Planned], game: Game, act: Act | None, together: ActTogether | None = None
) -> list[Match]:
    """Play every planned match to its end, in order.

    `act(player, views, seeds)` gives one move a view; `together`, where it is given, those of all
    players whose turn it is. A move's seed comes from (match seed, seat, its turn number), so it
    does not depend on who else is playing.
    """
    if together is None:
        assert act is not None, "somebody has to move"
        together = lambda batches: [act(*batch) for batch in batches]  # noqa: E731
    matches = [OpenMatch(plan, game.referee(plan.prompt)) for plan in planned]
    waiting = [match for match in matches if match.asks]
    while waiting:
        _move(waiting, together)
        for match in waiting:
            match.advance()
        waiting = [match for match in waiting if match.asks]
    return [match.result(game.kind) for match in matches]


def _move(waiting: Sequence[OpenMatch], together: ActTogether) -> None:
    """Get the moves that the matches wait for, one batch a player."""
    batches: dict[PlayerId, list[tuple[OpenMatch, int]]] = defaultdict(list)
    for match in waiting:
        for i, ask in enumerate(match.asks):
            batches[match.plan.seats[ask.seat]].append((match, i))
    turns = [
        (player, [match.asks[i].view for match, i in rows], [match.seed(i) for match, i in rows])
        for player, rows in batches.items()
    ]
    for (player, rows), moves in zip(batches.items(), together(turns), strict=True):
        assert len(moves) == len(rows), f"{player} gave {len(moves)} moves for {len(rows)} views"
        for (match, i), move in zip(rows, moves, strict=True):
            match.moves[i] = move


class OpenMatch:
    """A match that is being played: what its referee asks now (`asks`, none at its end), the moves
    that answer it so far (`moves`), and the turns before.
    """

    def __init__(self, plan: Planned, referee: Referee) -> None:
        self.plan = plan
        self._referee = referee
        self._turns: list[Turn] = []
        self._take(next(self._referee, None))

    def _take(self, request: Ask | list[Ask] | None) -> None:
        """Note what the referee asks next; None: nothing, the match is over."""
        self._together = isinstance(request, list)
        if request is None:
            self.asks: list[Ask] = []
        else:
            self.asks = request if isinstance(request, list) else [request]
        self.moves: list[Move | None] = [None] * len(self.asks)

    def seed(self, i: int) -> int:
        """The seed of the i-th ask: by seat, and by how often that seat has moved."""
        seat = self.asks[i].seat
        moved = sum(turn.seat == seat for turn in self._turns)
        return seeds.child(self.plan.seed, seat, moved)

    def advance(self) -> None:
        """Hand the moves to the referee and take its next asks."""
        moves = [move for move in self.moves if move is not None]
        for ask, move in zip(self.asks, moves, strict=True):
            self._turns.append(Turn(ask.seat, ask.view, move))
        try:
            self._take(self._referee.send(moves if self._together else moves[0]))
        except StopIteration:
            self._take(None)

    def result(self, game: str) -> Match:
        """The match as it was played."""
        plan = self.plan
        return Match(
            id=plan.id,
            generation=plan.generation,
            split=plan.split,
            game=game,
            prompt=plan.prompt.id,
            seats=plan.seats,
            seed=plan.seed,
            turns=tuple(self._turns),
        )
