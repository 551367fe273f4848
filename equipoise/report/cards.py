"""Match cards: one match each, as the report's match browser shows it."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.types import Message


@dataclass(frozen=True, slots=True)
class CardPart:
    """One part of an answer: its text or, where there are `rows`, a small table whose first row
    names the columns.
    """

    name: str
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class CardAnswer:
    """One answer of a match: who gave it, its text, its score (None: unjudged) and what the judge
    noted.

    `parts` are shown in place of the text.
    """

    player: str
    text: str
    score: float | None = None
    note: str = ""
    parts: tuple[CardPart, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchCard:
    """One match to look at. `reason` says why it is unjudged, when it is."""

    id: str
    generation: int
    split: str
    prompt: tuple[Message, ...]
    answers: tuple[CardAnswer, ...]
    reason: str = ""
