"""Grades by the probabilities of a judge's next token.

The judge writes nothing, so nothing that it might quote can be taken for its verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from equipoise.judges.question import FAILED, UNREADABLE, Reading
from equipoise.players.base import Actor, WordProbabilities, WordReader
from equipoise.types import View

MOST_WORDS = 20  # grades of which the next token is read


def whole_grades(low: float, high: float) -> tuple[int, ...]:
    """The grades whose probabilities can be read; none where they are too many."""
    first, last = math.ceil(low), math.floor(high)
    return tuple(range(first, last + 1)) if last - first < MOST_WORDS else ()


def readings_by_next_token(
    actor: Actor, views: Sequence[View], grades: Sequence[int]
) -> list[Reading]:
    """The mean grade of each question by the actor, which can read words."""
    assert isinstance(actor, WordReader)
    words = list(map(str, grades))
    beginnings = actor.word_probabilities(views, words)
    return [read_beginning(beginning, grades) for beginning in beginnings]


def read_beginning(beginning: WordProbabilities | str, grades: Sequence[int]) -> Reading:
    """The mean grade Σ_g g·p(g) / Σ_g p(g) by the next token's probabilities.

    None where the judge would begin with no grade.
    """
    if isinstance(beginning, str):
        return Reading(None, f"{FAILED}: {beginning}")
    tokens = beginning.prompt_tokens
    total = sum(beginning.probabilities)
    if not beginning.known or not total > 0:
        reason = f"{UNREADABLE}: the reply would begin with {beginning.likeliest!r}"
        return Reading(None, reason, tokens)
    pairs = zip(grades, beginning.probabilities, strict=True)
    return Reading(sum(grade * p for grade, p in pairs) / total, "", tokens)
