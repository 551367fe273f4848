"""Sections on what was recorded: counts, what was left out and why, the matches themselves, the
configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.report.cards import CardAnswer, MatchCard
from equipoise.report.section import (
    Cards,
    Section,
    Table,
    Tile,
    Tiles,
    Verbatim,
    clean,
    known,
    number,
)

LONGEST = 6000  # characters of one message or answer on the page; the ledger holds the rest


def counts_section(counts: Mapping[str, int | float], dropped: Mapping[str, int]) -> Section:
    """How much was played, judged and learned from, and what was dropped by name.

    A count whose name ends in "share" is shown in percent.
    """
    if not counts and not dropped:
        return Section("records", "What was used", reason="no record has been written yet")
    tiles = tuple(
        Tile(name.replace("_", " "), number(value, "%" if name.endswith("share") else ""))
        for name, value in counts.items()
    )
    blocks: list[Tiles | Table] = [Tiles(tiles)] if tiles else []
    if dropped:
        rows = tuple((reason, number(n)) for reason, n in dropped.items())
        blocks.append(Table(("reason", "how many"), rows, "Left out"))
    lead = "Nothing that is missing counts as a zero or a draw: it is left out, and counted here."
    return Section("records", "What was used", tuple(blocks), lead)


def matches_section(
    cards: Sequence[MatchCard], total: int, folded: str = "", lead: str = ""
) -> Section:
    """A browser of matches: prompt, answers, verdict.

    `total` is how many the run holds; `folded` is what stands in place of the matches until a
    reader asks for them.
    """
    if not cards:
        return Section("matches", "Matches", reason="no match to show")
    browser = Cards([card_row(card) for card in cards], total, folded)
    return Section("matches", "Matches", (browser,), lead)


def configuration_section(yaml: str) -> Section:
    """The resolved configuration, as the run directory keeps it."""
    block = Verbatim("config.yaml, with every default resolved", yaml)
    return Section("configuration", "Configuration", (block,))


def card_row(card: MatchCard) -> dict[str, Any]:
    """The match as the page's browser reads it."""
    messages = [
        {"role": clean(message.role), **_clipped(message.content)} for message in card.prompt
    ]
    return {
        "id": clean(card.id),
        "generation": card.generation,
        "split": clean(card.split),
        "prompt": messages,
        "answers": [_answer(answer) for answer in card.answers],
        "reason": clean(card.reason),
    }


def _answer(answer: CardAnswer) -> dict[str, Any]:
    return {
        "player": clean(answer.player),
        "score": known(answer.score),
        "note": clean(answer.note),
        **_content(answer),
    }


def _content(answer: CardAnswer) -> dict[str, Any]:
    """The answer's text, or its parts in place of it."""
    if not answer.parts:
        return _clipped(answer.text)
    parts = [
        {
            "name": clean(part.name),
            "rows": [[clean(cell) for cell in line] for line in part.rows],
            **_clipped(part.text),
        }
        for part in answer.parts
    ]
    return {"text": "", "more": 0, "parts": parts}


def _clipped(text: str) -> dict[str, Any]:
    """The text for the page, and how many characters of it stay in the ledger only."""
    return {"text": clean(text[:LONGEST]), "more": max(len(text) - LONGEST, 0)}
