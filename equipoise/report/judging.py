"""Sections on the judges: who judged whom how, and how good they are at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.report.facts import Facts
from equipoise.report.figures import heat_map
from equipoise.report.section import Figure, Section, Table, known, label, number
from equipoise.report.standing import sampled

Row = tuple[
    str, Mapping[str, Mapping[str, Any]]
]  # who judged, and player -> {"mean", "n"}

COLUMNS: tuple[tuple[str, str], ...] = (
    ("judgements", "matches that the judge spoke on"),
    ("unjudged", "share of the answers in them that got no score; they count nowhere"),
    ("unreadable", "share of what was said in which no verdict could be found"),
    (
        "first preferred",
        "share of decided comparisons won by the answer that was shown first; half is no bias",
    ),
    (
        "inconsistent",
        "share of comparisons read in both orders in which the winner changed with the order",
    ),
    (
        "length",
        "rank correlation of scores (or wins) with the answer's length, prompt by prompt; 0 is no bias",
    ),
    (
        "own answers",
        "how much more it gives its own answers than others give them; in parentheses, to other players'",
    ),
    (
        "agreement",
        "Krippendorff's alpha of those who judged the same answers: 1 agree, 0 as by chance",
    ),
    ("calls", "readings by a model"),
    ("tokens", "asked and answered in those readings"),
    ("cost", "in the currency of the prices that were set; 0 for local models"),
)


def who_judged_whom(facts: Facts) -> Section | None:
    """The mean score that each judge gave each player."""
    if not facts.judges:
        return None
    figures = tuple(_figure(title, rows) for title, rows in _groups(facts.judges))
    if not figures:
        return Section(
            "who-judged-whom",
            "Who judged whom",
            reason="one judge and one player: nothing to compare",
        )
    lead = (
        "What the row's judge gave the column's player: the mean score, or the probability of winning where answers "
        f"were compared. Empty: never judged.{sampled(facts)}"
    )
    return Section("who-judged-whom", "Who judged whom", figures, lead)


def _groups(judges: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, list[Row]]]:
    """Rows of one scale: those within [0, 1] together, any other judge in a figure of
    its own.
    """
    shares: list[Row] = []
    others: list[tuple[str, list[Row]]] = []
    for judge, found in judges.items():
        rows = list(found["who_judged_whom"].items())
        means = [cell["mean"] for _, given in rows for cell in given.values()]
        if all(0 <= mean <= 1 for mean in means):
            shares += [
                (_named(judge, voter, len(judges)), given) for voter, given in rows
            ]
        else:
            others.append((f"Mean score by {judge}", rows))
    for title, rows in [("Mean score given", shares), *others]:
        if len(rows) > 1 or any(len(given) > 1 for _, given in rows):
            yield title, rows


def _named(judge: str, voter: str, judges: int) -> str:
    return voter if judges == 1 or voter == judge else f"{voter} ({judge})"


def _figure(title: str, rows: Sequence[Row]) -> Figure:
    players = sorted({player for _, given in rows for player in given})
    value_JN = np.array(
        [
            [given.get(player, {}).get("mean", np.nan) for player in players]
            for _, given in rows
        ]
    )
    written = [
        [number(value, digits=2) if known(value) is not None else "" for value in row]
        for row in value_JN
    ]
    hover = [
        [
            f"{label(judge)} on {label(player)}<br><b>{written[i][j] or 'never judged'}</b>"
            f"<br>{number(given.get(player, {}).get('n', 0))} answers"
            for j, player in enumerate(players)
        ]
        for i, (judge, given) in enumerate(rows)
    ]
    names = [judge for judge, _ in rows]
    below = bool((value_JN < 0).any())
    return heat_map(
        title,
        names,
        players,
        value_JN,
        written,
        hover,
        ("judge", "player"),
        around_zero=below,
    )


def judges(facts: Facts) -> Section | None:
    """How much each judge left out, what sways it beside the answer, and what it took."""
    if not facts.judges:
        return None
    rows = tuple(
        row for judge, found in facts.judges.items() for row in _rows(judge, found)
    )
    table = Table(("judge", *(name for name, _ in COLUMNS)), rows)
    legend = Table(("column", "what it says"), COLUMNS, prose=True)
    lead = (
        "A judge that asks several has a line for each of them. –: cannot be known from what was recorded."
        + sampled(facts)
    )
    return Section("judges", "Judges", (table, legend), lead)


def _rows(judge: str, found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    voters: Mapping[str, Mapping[str, Any]] = found["voters"]
    alone = list(voters) == [judge]
    agreement = found["agreement"] or found["agreement_on_pairs"]
    yield (
        judge,
        number(found["judgements"]),
        number(found["unjudged_share"], "%"),
        *_biases(found),
        _own(found["self_preference"].get(judge)) if alone else "–",
        "–" if agreement is None else number(agreement["alpha"], digits=2),
        *_spent(found),
    )
    for name, voter in () if alone else voters.items():
        yield (
            f"·\u00a0{name}",
            "–",
            "–",
            *_biases(voter),
            _own(found["self_preference"].get(name)),
            "–",
            *_spent(voter),
        )


def _biases(found: Mapping[str, Any]) -> tuple[str, str, str, str]:
    length = found["length"] or {}
    of = length.get("within_prompts")
    return (
        number(found["unreadable_share"], "%"),
        _share(found["first_preferred"]),
        _share(found["inconsistent"]),
        _signed(length.get("of_pairs") if of is None else of),
    )


def _spent(found: Mapping[str, Any]) -> tuple[str, str, str]:
    return number(found["calls"]), number(found["tokens"]), number(found["cost"])


def _share(found: Mapping[str, Any] | None) -> str:
    """A share with its interval."""
    if found is None:
        return "–"
    mean, low, high = (
        None if found[name] is None else 100 * found[name]
        for name in ("mean", "low", "high")
    )
    if low is None or high is None:
        return f"{number(mean, digits=0)} %"
    return f"{number(mean, digits=0)} % ({number(low, digits=0)} to {number(high, digits=0)})"


def _own(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "–"
    others = found["lead_on_others"]
    return f"{_signed(found['lead']['mean'])} ({_signed(others and others['mean'])})"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")
