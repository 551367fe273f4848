"""What each seat of a match answered last, and to which chat."""

from __future__ import annotations

from equipoise.types import Match, Turn


def last_answers(match: Match) -> dict[str, Turn]:
    """The last turns without those of seats whose last move failed."""
    turns = match.last_turns()
    return {seat: turn for seat, turn in turns.items() if turn.move.finish != "error"}


def why_unanswered(match: Match) -> list[str]:
    """Why seats of the match have no last answer."""
    turns = match.last_turns()
    reasons = [
        f"the move failed: {turn.move.error}"
        for turn in turns.values()
        if turn.move.finish == "error"
    ]
    if not turns.keys() >= match.seats.keys():
        reasons.append("no answer was given")
    return reasons
