"""Sections on what was recorded: counts, what was left out and why, the matches
themselves, the configuration.
"""

from __future__ import annotations

from typing import Any

from equipoise.report.facts import Answer, Facts, MatchCard
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

HARMFUL = "Show them: attacks and answers that may be harmful"
MIXED = "Show them: some of the prompts ask for harm, and some of the answers may be harmful"
LONGEST = (
    6000  # characters of one message or answer on the page; the ledger holds the rest
)


def counts(facts: Facts) -> Section | None:
    """How much was played, judged and learned from, and what was dropped by name."""
    tiles = tuple(
        Tile(
            name.replace("_", " "), number(value, "%" if name.endswith("share") else "")
        )
        for name, value in facts.counts.items()
    )
    if not tiles and not facts.dropped:
        return Section(
            "records", "What was used", reason="no record has been written yet"
        )
    blocks: list[Tiles | Table] = [Tiles(tiles)] if tiles else []
    if facts.dropped:
        rows = tuple((reason, number(n)) for reason, n in facts.dropped.items())
        blocks.append(Table(("reason", "how many"), rows, "Left out"))
    lead = "Nothing that is missing counts as a zero or a draw: it is left out, and counted here."
    return Section("records", "What was used", tuple(blocks), lead)


def _clipped(text: str) -> dict[str, Any]:
    """The text for the page, and how many characters of it stay in the ledger only."""
    return {"text": clean(text[:LONGEST]), "more": max(len(text) - LONGEST, 0)}


def row(card: MatchCard) -> dict[str, Any]:
    """The match as the page's browser reads it."""
    return {
        "id": clean(card.id),
        "generation": card.generation,
        "split": clean(card.split),
        "prompt": [
            {"role": clean(message.role), **_clipped(message.content)}
            for message in card.prompt
        ],
        "answers": [
            {
                "player": clean(a.player),
                "score": known(a.score),
                "note": clean(a.note),
                **_content(a),
            }
            for a in card.answers
        ],
        "reason": clean(card.reason),
    }


def _content(answer: Answer) -> dict[str, Any]:
    """The answer's text, or its parts in place of it."""
    if not answer.parts:
        return _clipped(answer.text)
    return {
        "text": "",
        "more": 0,
        "parts": [
            {
                "name": clean(part.name),
                "rows": [[clean(cell) for cell in line] for line in part.rows],
                **_clipped(part.text),
            }
            for part in answer.parts
        ],
    }


def matches(facts: Facts) -> Section | None:
    """A browser of matches: prompt, answers, verdict; folded away where they are
    attacks.
    """
    if not facts.matches:
        return Section("matches", "Matches", reason="no match to show")
    total = int(facts.counts.get("matches", len(facts.matches)))
    told = facts.assistance
    folded = (
        HARMFUL if facts.attack else MIXED if told is not None and told.harmful else ""
    )
    lead = (
        ""
        if told is None
        else (
            "Each of the assistant's answers block by block; the user sees the response alone. The cell that <analyze> "
            "chooses is in brackets. Search for “faults” to find outputs that are not well-formed."
        )
    )
    return Section(
        "matches",
        "Matches",
        (Cards([row(card) for card in facts.matches], total, folded),),
        lead,
    )


def configuration(facts: Facts) -> Section | None:
    """The resolved configuration, as the run directory keeps it."""
    if not facts.configuration_yaml:
        return None
    block = Verbatim(
        "config.yaml, with every default resolved", facts.configuration_yaml
    )
    return Section("configuration", "Configuration", (block,))
