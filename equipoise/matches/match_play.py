"""Playing matches: the players' moves are asked for in batches, and handed to the referees."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from equipoise import seeds
from equipoise.answer import public_move
from equipoise.errors import ConfigError
from equipoise.games.base import Ask, Game, Referee
from equipoise.matches.base import Planned
from equipoise.types import Match, Move, PlayerId, Turn, View

Batch = tuple[PlayerId, list[View], list[int]]
"""A player, its views, and a seed for each."""
Act = Callable[[PlayerId, list[View], list[int]], list[Move]]
"""One move a view."""
ActTogether = Callable[[list[Batch]], list[list[Move]]]
"""The moves of several players, each for its own batch."""


def play(
    planned: Sequence[Planned], game: Game, act: Act | None, together: ActTogether | None = None
) -> list[Match]:
    """Play every planned match to its end, in order.

    All advance together: every round, each player gets one batch of views. `act(player, views,
    seeds)` gives one move a view; `together`, if given, those of all players in a round. A move's
    seed comes from (match seed, seat, its turn number), so it does not depend on who else is
    playing.
    """
    if together is None:
        assert act is not None, "somebody has to move"
        together = lambda batches: [act(*batch) for batch in batches]  # noqa: E731
    matches = [OpenMatch(plan, game.referee(plan.prompt), game.raw_moves) for plan in planned]
    waiting = [match for match in matches if match.asks]
    while waiting:
        asked: dict[PlayerId, list[tuple[OpenMatch, int]]] = defaultdict(list)
        for match in waiting:
            for i, ask in enumerate(match.asks):
                if ask.seat not in match.plan.seats:
                    seats = ", ".join(match.plan.seats)
                    raise ConfigError(f"game: the referee asks seat '{ask.seat}'; seats: {seats}")
                asked[match.plan.seats[ask.seat]].append((match, i))
        batches: list[Batch] = []
        for player, rows in asked.items():
            views = [match.asks[i].view for match, i in rows]
            batches.append((player, views, [match.seed(i) for match, i in rows]))
        for (player, rows), moves in zip(asked.items(), together(batches), strict=True):
            assert len(moves) == len(rows), f"{player}: {len(moves)} moves for {len(rows)} views"
            for (match, i), move in zip(rows, moves, strict=True):
                match.moves[i] = move
        for match in waiting:
            match.advance()
        waiting = [match for match in waiting if match.asks]
    return [match.result(game.kind) for match in matches]


class OpenMatch:
    """A match under way: present `asks` (none at its end), their `moves` so far, past turns."""

    def __init__(self, plan: Planned, referee: Referee, raw_moves: bool = False) -> None:
        """`raw_moves`: the referee reads whole moves, with their thoughts."""
        self.plan = plan
        self._referee = referee
        self._raw_moves = raw_moves
        self._turns: list[Turn] = []
        self._take(next(self._referee, None))

    def _take(self, request: Ask | list[Ask] | None) -> None:
        """Note the referee's next request; None: the match is over."""
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
        """Hand the moves to the referee, without their thoughts, and take its next asks."""
        moves = [move for move in self.moves if move is not None]
        for ask, move in zip(self.asks, moves, strict=True):
            self._turns.append(Turn(ask.seat, ask.view, move))
        if not self._raw_moves:
            moves = [public_move(move) for move in moves]
        try:
            self._take(self._referee.send(moves if self._together else moves[0]))
        except StopIteration:
            self._take(None)

    def result(self, game: str) -> Match:
        """The match as a record."""
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
