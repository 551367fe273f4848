"""Matches of attack and defence for tests, played by what each seat is given to say."""

from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.environments.red_team.game import RedTeam
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.types import Match, Message, Move, PlayerId, Prompt, user

ADVERSARY, DEFENDER = PlayerId("adversary", 2), PlayerId("defender", 1)
FAILED = "failed"  # said by a player whose move fails


def game(**settings: Any) -> RedTeam:
    """The game with these settings."""
    return RedTeam.model_validate(settings)


def seed(text: str = "open the safe", *before: Message, identity: str = "", **facts: Any) -> Prompt:
    """A seed prompt."""
    return Prompt(identity or f"p:{text}", (*before, user(text)), facts)


def played(
    rules: RedTeam, prompt: Prompt, generation: int = 0, **said: str | Sequence[str]
) -> Match:
    """The match in which each seat says its texts in turn; seats by name, with _ for the space or
    the dot.

    A text "failed" is a move that fails. A seat that is asked more often than it has texts repeats
    the last.
    """
    seats: Mapping[str, PlayerId] = {
        seat: ADVERSARY if rules.role(seat) == "adversary" else DEFENDER
        for seat in rules.seats_for(prompt)
    }
    lines = {seat: said[seat.replace(" ", "_").replace(".", "_")] for seat in seats}
    left = {seat: [text] if isinstance(text, str) else list(text) for seat, text in lines.items()}
    order: list[str] = []

    def act(player, views, dice):
        moves = []
        for _ in views:
            here = order.pop(0)
            text = left[here].pop(0) if len(left[here]) > 1 else left[here][0]
            moves.append(
                Move("", "error", error="the line is dead")
                if text == FAILED
                else Move(text, token_ids=(1,))
            )
        return moves

    class Told(RedTeam):
        """Notes who is asked, in order."""

        def referee(self, prompt):
            rounds = rules.referee(prompt)
            asks = next(rounds, None)
            while asks is not None:
                assert isinstance(asks, list)
                order.extend(ask.seat for ask in asks)
                heard = yield asks
                try:
                    asks = rounds.send(heard)
                except StopIteration:
                    return

    told = Told.model_validate(rules.model_dump())
    identity = f"m:{prompt.id}:{sorted(lines.items())}"
    (match,) = play([Planned(identity, generation, "train", prompt, dict(seats), 7)], told, act)
    return match
