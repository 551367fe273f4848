"""Answers truncated at `max_new_tokens`: learned from without an end, or left out. Prompts and
given answers that do not fit their model: left out, cut, or an error.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal

import msgspec

from equipoise.errors import DataError
from equipoise.types import Match, Message, Pair, Turn, Turns

Truncated = Literal["keep", "drop", "keep_with_end"]
"""keep: learned from without an end token; drop: not learned from; keep_with_end: learned
from as if their end had been sampled, as published codes do."""

TooLong = Literal["drop", "stop", "cut_prompt", "cut_answer"]
"""drop: a prompt that leaves no room for an answer, and an example whose answer does not fit behind
its prompt, are left out and counted; stop: they are an error; cut_prompt: a prompt loses its first
tokens; cut_answer: an answer loses its last ones, and its end with them."""

Answered = tuple[Sequence[Message], str | Turns, bool]
"""A chat, its answer, and whether that was cut."""


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
        turns = tuple(t for t in match.turns if t.seat not in cut and not is_truncated(t))
        if cut and len({turn.seat for turn in turns}) < needed:
            left_out += 1
        else:
            whole.append(msgspec.structs.replace(match, turns=turns))
    return whole, left_out


def mark_truncated(pairs: Sequence[Pair], matches: Sequence[Match]) -> list[Pair]:
    """The pairs with a note of the answers that nobody who gave them ended by themselves."""
    cut: dict[tuple[tuple[Message, ...], str | Turns], bool] = {}
    for turn in chain.from_iterable(match.turns for match in matches):
        answer = turn.view.messages, turn.move.text
        cut[answer] = cut.get(answer, True) and is_truncated(turn)
    noted: list[Pair] = []
    for pair in pairs:
        chosen = cut.get((pair.messages, pair.chosen), False)
        rejected = cut.get((pair.messages, pair.rejected), False)
        if chosen or rejected:
            pair = msgspec.structs.replace(pair, chosen_cut=chosen, rejected_cut=rejected)
        noted.append(pair)
    return noted


def fitting_pairs(
    pairs: Sequence[Pair], fits: Callable[[Answered], bool], too_long: TooLong
) -> tuple[list[Pair], int]:
    """(the pairs to learn from; the number of those with an answer that does not fit).

    These are left out, or with `cut_prompt` and `cut_answer` kept, for the learner to cut.
    Raises DataError with `stop`.
    """
    kept: list[Pair] = []
    unfit = 0
    for pair in pairs:
        chosen = pair.messages, pair.chosen, pair.chosen_cut
        rejected = pair.messages, pair.rejected, pair.rejected_cut
        if fits(chosen) and fits(rejected):
            kept.append(pair)
            continue
        unfit += 1
        if too_long == "stop":
            beginning = pair.messages[0].content[:60] if pair.messages else ""
            raise DataError(
                f"a prompt and its answer do not fit the learner's max_length (it begins "
                f"{beginning!r}); raise max_length, or set too_long: drop, cut_prompt or cut_answer"
            )
        if too_long != "drop":
            kept.append(pair)
    return kept, unfit
