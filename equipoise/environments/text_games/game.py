"""Games of many turns whose rules a library knows.

A match is a `Table`: it says who is asked what, takes the answer, and knows in the end what
everybody gets. All that is left to chance comes from the prompt, so two matches on one prompt are
dealt the same cards, and a judge can replay a recorded match move by move to learn what the library
pays for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import Field

from equipoise import seeds
from equipoise.environments.text_games.answer_form import FORMS, AnswerForm, FormName
from equipoise.games.base import Ask, Game, Referee
from equipoise.types import Match, Prompt


@dataclass(frozen=True)
class Result:
    """How a match ended: seat -> what it gets, None with the reason where nobody can say; seat ->
    how many of its answers were no legal moves.
    """

    returns: Mapping[str, float] | None
    reason: str = ""
    illegal: Mapping[str, int] = field(default_factory=dict)


class Table(Protocol):
    """One match in progress."""

    def ask(self) -> Ask | None:
        """Who is to move, and on what; None: the match is over. Asked again, it says the same."""
        ...

    def take(self, answer: str) -> None:
        """The answer to the last ask, legal or not."""
        ...

    def result(self) -> Result:
        """How it ended, as far as it was played."""
        ...


class TextGame(Game):
    """A game of many turns. A failed move (a server's error, no room for an answer) ends the match,
    and nobody is paid for it.
    """

    players: int = Field(2, ge=1, description="seats")
    form: FormName = Field(
        "whole",
        description="how a move is written: whole, the answer is the move; the last "
        "[ … ] (bracket), <move> … </move> (tagged) or \\boxed{ … } (boxed) in it",
    )
    dice: int = Field(
        0, ge=0, description="with the prompt, the seed of all that the game leaves to chance"
    )

    @property
    def seats(self) -> tuple[str, ...]:
        """ "player 0", "player 1", …; each is a role of its own."""
        return tuple(f"player {i}" for i in range(self.players))

    @property
    def answer_form(self) -> AnswerForm:
        """How moves are written."""
        return FORMS[self.form]

    def seed(self, prompt: Prompt) -> int:
        """The seed of all chance in a match on this prompt."""
        return seeds.child(self.dice, "deal", prompt.id)

    @abstractmethod
    def table(self, prompt: Prompt) -> Table:
        """A new match on this prompt."""

    def referee(self, prompt: Prompt) -> Referee:
        """Ask whoever is to move, until the match is over or a move fails."""
        table = self.table(prompt)
        while (ask := table.ask()) is not None:
            move = yield ask
            assert not isinstance(move, list)
            if move.finish == "error":
                return
            table.take(move.text)

    def replayed(self, match: Match, prompt: Prompt) -> Result:
        """What the library says of a recorded match, played again move by move."""
        table = self.table(prompt)
        for turn in match.turns:
            if turn.move.finish == "error":
                return Result(None, f"{turn.seat} did not move: {turn.move.error}")
            ask = table.ask()
            if ask is None or (ask.seat, ask.view) != (turn.seat, turn.view):
                return Result(
                    None,
                    "played again, the game asks something else than it did: the "
                    "match was recorded with another version of its library",
                )
            table.take(turn.move.text)
        if table.ask() is not None:
            return Result(None, "the match was not played to its end")
        return table.result()
