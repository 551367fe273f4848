"""A person at a match: the players move by themselves, and the match waits for the person."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import DataError
from equipoise.games.base import Game
from equipoise.matches.base import Planned
from equipoise.matches.match_play import Act, OpenMatch
from equipoise.types import Match, Move, PlayerId, View

LONGEST_MOVE = 20_000  # characters


class Sitting:
    """A match in which one person plays; `view` is what the person is asked now, None when the
    match is over.
    """

    def __init__(
        self, plan: Planned, game: Game, human: PlayerId, act: Act, moves: Sequence[str] = ()
    ) -> None:
        """`act` gives the players' moves; `moves` are those that the person made already. Raises
        DataError for moves that could not be made.
        """
        self.plan = plan
        self.human = human
        self.moves: list[str] = []
        self._game = game
        self._act = act
        self._match = OpenMatch(plan, game.referee(plan.prompt))
        self._go_on()
        for text in moves:
            self.move(text)

    @property
    def view(self) -> View | None:
        """What the person is asked, None at the end."""
        place = self._waiting()
        return None if place is None else self._match.asks[place].view

    def move(self, text: str) -> None:
        """The person moves; then the players do, until the person is asked again.

        Raises DataError for an empty or overlong move, for one that is none of the actions where
        there are some, and where the match is over.
        """
        place = self._waiting()
        if place is None:
            raise DataError("the match is over")
        if not text.strip():
            raise DataError("a move has at least one character")
        if len(text) > LONGEST_MOVE:
            raise DataError(f"a move has at most {LONGEST_MOVE} characters")
        actions = self._match.asks[place].view.actions
        if actions:
            text = _named(text, actions)
        self._match.moves[place] = Move(text)
        self.moves.append(text)
        self._go_on()

    def result(self) -> Match:
        """The match as it was played. Raises DataError before its end."""
        if self._match.asks:
            raise DataError("the match is not over yet")
        return self._match.result(self._game.kind)

    def _waiting(self) -> int | None:
        """The place of the ask that the person has not answered."""
        for place, ask in enumerate(self._match.asks):
            seated = self.plan.seats[ask.seat]
            if seated == self.human and self._match.moves[place] is None:
                return place
        return None

    def _go_on(self) -> None:
        """Have the players move, as long as nobody waits for the person."""
        while self._match.asks:
            self._play()
            if self._waiting() is not None:
                return
            self._match.advance()

    def _play(self) -> None:
        """The players' answers to what is asked now, one batch a player."""
        match = self._match
        by_player: dict[PlayerId, list[int]] = {}
        for place, ask in enumerate(match.asks):
            player = self.plan.seats[ask.seat]
            if player != self.human and match.moves[place] is None:
                by_player.setdefault(player, []).append(place)
        for player, places in by_player.items():
            views = [match.asks[place].view for place in places]
            dice = [match.seed(place) for place in places]
            for place, move in zip(places, self._act(player, views, dice), strict=True):
                match.moves[place] = move


def _named(text: str, actions: Sequence[str]) -> str:
    """The action that is meant; its case does not matter. Raises DataError for none."""
    for action in actions:
        if action.casefold() == text.strip().casefold():
            return action
    raise DataError(f"'{text[:60]}' is none of {', '.join(actions)}")
