"""Answers truncated at `max_new_tokens`: learned from without an end, or left out."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from equipoise.types import Match, Pair, Turn

Truncated = Literal["keep", "drop", "keep_with_end"]
"""keep: learned from without an end token; drop: not learned from; keep_with_end: learned
from as if their end had been sampled, as published codes do."""


def truncated_seats(match: Match) -> set[str]:
    """The seats whose last answer was truncated."""
    return {seat for seat, turn in match.last_turns().items() if is_truncated(turn)}


def is_truncated(turn: Turn) -> bool:
    """True if the answer ended at a limit on its length."""
    return turn.move.finish == "length"


def drop_truncated(matches: Sequence[Match], needed: int = 2) -> tuple[list[Match], int]:
    """(matches without truncated turns; the number left out, with fewer than `needed` answers)."""
    whole: list[Match] = []
    left_out = 0
    for match in matches:
        cut = truncated_seats(match)
        turns = tuple(turn for turn in match.turns if turn.seat not in cut)
        if cut and len({turn.seat for turn in turns}) < needed:
            left_out += 1
        else:
            whole.append(msgspec.structs.replace(match, turns=turns))
    return whole, left_out


def mark_truncated(pairs: Sequence[Pair], matches: Sequence[Match]) -> list[Pair]:
    """The pairs with a note of the answers that no seat of the match ended by itself."""
    by_id = {match.id: match for match in matches}
    noted: list[Pair] = []
    for pair in pairs:
        match = by_id.get(pair.match)
        chosen, rejected = (
            match is not None and _always_cut(match, text) for text in (pair.chosen, pair.rejected)
        )
        if chosen or rejected:
            cut = {"chosen_cut": chosen, "rejected_cut": rejected}
            pair = msgspec.structs.replace(pair, **cut)
        noted.append(pair)
    return noted


def _always_cut(match: Match, text: str) -> bool:
    turns = [turn for turn in match.turns if turn.move.text == text]
    return bool(turns) and all(map(is_truncated, turns))
