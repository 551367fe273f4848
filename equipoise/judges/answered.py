"""What each seat of a match answered last, and to which chat."""

from __future__ import annotations

from equipoise.types import Match, Turn


def last_answers(match: Match) -> dict[str, Turn]:
    """Each seat's last turn in the order of the seats; absent are seats that never
    moved or whose last move failed.
    """
    last = {turn.seat: turn for turn in match.turns}
    return {
        seat: last[seat]
        for seat in match.seats
        if seat in last and last[seat].move.finish != "error"
    }


def why_unanswered(match: Match) -> list[str]:
    """Why seats of the match have no last answer."""
    last = {turn.seat: turn.move for turn in match.turns}
    failed = [
        f"the move failed: {move.error}"
        for move in last.values()
        if move.finish == "error"
    ]
    return failed + (
        ["no answer was given"] if any(seat not in last for seat in match.seats) else []
    )
