"""What each seat of a match answered last, and to which chat."""

from __future__ import annotations

from equipoise.types import Match, Turn


def last_turns(match: Match) -> dict[str, Turn]:
    """Each seat's last turn, in the order of the seats, without those that never moved."""
    turns = {turn.seat: turn for turn in match.turns}
    return {seat: turns[seat] for seat in match.seats if seat in turns}


def last_answers(match: Match) -> dict[str, Turn]:
    """The last turns without those of seats whose last move failed."""
    turns = last_turns(match)
    return {seat: turn for seat, turn in turns.items() if turn.move.finish != "error"}


def why_unanswered(match: Match) -> list[str]:
    """Why seats of the match have no last answer."""
    turns = {turn.seat: turn for turn in match.turns}
    reasons = [
        f"the move failed: {turn.move.error}"
        for turn in turns.values()
        if turn.move.finish == "error"
    ]
    if not turns.keys() >= match.seats.keys():
        reasons.append("no answer was given")
    return reasons
