"""Sections on what was recorded: counts, what was left out and why, the matches themselves, the
configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from equipoise.blocks.section import (
    Cards,
    SampleSize,
    Section,
    Table,
    Tile,
    Tiles,
    Verbatim,
    clean,
    finite_or_none,
    number,
)
from equipoise.models.resources import Spending
from equipoise.types import Message

LONGEST = 6000  # characters of one message or answer on the page; the ledger holds the rest


def counts_section(counts: Mapping[str, int | float], dropped: Mapping[str, int]) -> Section:
    """Counts of records played, judged and learned from, and of what was dropped, by name.

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
        {"role": clean(message.role), **clipped(message.content)} for message in card.prompt
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
    row = {
        "player": clean(answer.player),
        "score": finite_or_none(answer.score),
        "note": clean(answer.note),
        **text_or_parts(answer),
    }
    if answer.thoughts:
        row["thoughts"] = clipped(answer.thoughts)
    return row


def text_or_parts(answer: CardAnswer) -> dict[str, Any]:
    """The answer's text, or its parts in place of it."""
    if not answer.parts:
        return clipped(answer.text)
    parts = [
        {
            "name": clean(part.name),
            "rows": [[clean(cell) for cell in line] for line in part.rows],
            **clipped(part.text),
        }
        for part in answer.parts
    ]
    return {"text": "", "more": 0, "parts": parts}


def clipped(text: str) -> dict[str, Any]:
    """The text for the page, and how many characters of it stay in the ledger only."""
    return {"text": clean(text[:LONGEST]), "more": max(len(text) - LONGEST, 0)}


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

    `parts` are shown in place of the text, `thoughts` folded above it.
    """

    player: str
    text: str
    score: float | None = None
    note: str = ""
    parts: tuple[CardPart, ...] = ()
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class MatchCard:
    """One match to look at. `id` names it for its reader; `generation` is None where answers are of
    no run's generation; `reason` says why it is unjudged, when it is.
    """

    id: str
    generation: int | None
    split: str
    prompt: tuple[Message, ...]
    answers: tuple[CardAnswer, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """The use of one endpoint's account."""

    name: str
    spent: Spending


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that one player, or a judge that is none, took: its `answers`, what was `read` for
    them, and `judging`.
    """

    name: str
    answers: int = 0
    generated: int = 0
    read: int = 0
    judging: int = 0

    @property
    def any(self) -> bool:
        """True if it took any."""
        return bool(self.generated or self.read or self.judging)


@dataclass(frozen=True, slots=True)
class Duration:
    """The seconds that all stages of a name took, `inside` the stage of another name."""

    stage: str
    seconds: float
    inside: str = ""


def cost_section(
    accounts: Sequence[Account],
    tokens: Sequence[Tokens],
    sample: SampleSize,
    durations: Sequence[Duration] = (),
    currency: str = "",
) -> Section:
    """Time by stage, calls of endpoints with what they cost, and the tokens that each player took
    in play and in judging. `currency`: of all prices; "" where there are none.
    """
    spent = [usage for usage in tokens if usage.any]
    if not accounts and not spent and not durations:
        return Section(
            "cost",
            "Cost",
            reason="no stage has ended, no endpoint was asked, and no player or judge "
            "counts tokens",
        )
    tables = []
    if accounts:
        tables.append(accounts_table(accounts, currency))
    if spent:
        tables.append(tokens_table(spent))
    if durations:
        tables.append(durations_table(durations))
    return Section("cost", "Cost", tuple(tables), _lead(bool(accounts), sample, currency))


def durations_table(durations: Sequence[Duration]) -> Table:
    """Seconds and share of each stage."""
    whole = sum(each.seconds for each in durations if not each.inside)
    rows = []
    for each in durations:
        stage = each.stage
        if each.inside:
            stage = f"{each.stage}, inside {each.inside}"
        share = number(each.seconds / whole, "%") if whole else "–"
        rows.append((stage, f"{each.seconds:,.1f}", share))
    rows.append(("all, each second once", f"{whole:,.1f}", ""))
    return Table(("stage", "seconds", "share"), tuple(rows), "Time")


def accounts_table(accounts: Sequence[Account], currency: str = "") -> Table:
    """Calls, tokens and money of each endpoint."""
    totals = Account("all", sum((account.spent for account in accounts), Spending()))
    listed = [*accounts, totals] if len(accounts) > 1 else accounts
    money = currency or "money"
    columns = ["account", "calls", "tokens", money]
    if totals.spent.unanswered:
        columns += ["calls unanswered", "their tokens", f"their {money}"]
    rows = []
    for account in listed:
        amounts = [number(amount) for amount in astuple(account.spent)]
        rows.append((account.name, *amounts[: len(columns) - 1]))
    return Table(tuple(columns), tuple(rows), "Endpoints")


def tokens_table(spent: Sequence[Tokens]) -> Table:
    """Tokens of each player and judge."""
    columns = ("player or judge", "answers", "tokens generated", "tokens read", "tokens in judging")
    rows = tuple(
        (
            usage.name,
            number(usage.answers),
            number(usage.generated),
            number(usage.read),
            number(usage.judging),
        )
        for usage in spent
    )
    return Table(columns, rows, "Tokens")


def _lead(paid: bool, sample: SampleSize, currency: str) -> str:
    sentences = "Everything ran here: no endpoint was asked."
    if paid and currency:
        sentences = f"Amounts are in {currency}, by the prices that were set."
    elif paid:
        sentences = "No prices were set, so calls and tokens are counted, and no money."
    if sample.is_partial:
        sentences += (
            f" Tokens are estimated from a random sample of {number(sample.read)} of "
            f"{number(sample.total)} matches."
        )
    return sentences
