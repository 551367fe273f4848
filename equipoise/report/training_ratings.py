"""Sections on several players in training: how they were rated over time, and who met whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.payoffs.table import PayoffTable
from equipoise.report.curves import lines_figure
from equipoise.report.elements import Curve, SampleSize
from equipoise.report.figures import heat_map
from equipoise.report.section import Section, known, label, number


def training_ratings_section(curves: Sequence[Curve], unit: str = "", caution: str = "") -> Section:
    """Every player's rating after each generation's matches; `caution` is what to say where ratings
    mislead.
    """
    title = "Ratings in training"
    if not curves:
        return Section("standing", title, reason="no rating of the training matches is recorded")
    figure = lines_figure("Rating after the matches of each generation", curves, "generation", unit)
    lead = (
        f"How the players compare in training, by {unit or 'rating'} with 95 % "
        "intervals. Ratings of different generations compare players with one "
        f"another, not a player with its own past.{caution}"
    )
    return Section("standing", title, (figure,), lead)


def match_ups_section(table: PayoffTable | None, judge: str, sample: SampleSize) -> Section:
    """Who met whom how often in training, and who won, by the scores of `judge`."""
    if table is None:
        return Section(
            "match-ups", "Match-ups", reason="no two players have met in training matches"
        )
    n = len(table.players)
    met_NN = table.count_NN + table.unjudged_NN
    written = [
        ["" if i == j else _cell(float(table.payoff_NN[i, j]), int(met_NN[i, j])) for j in range(n)]
        for i in range(n)
    ]
    hover = [[_hover(table, i, j, int(met_NN[i, j])) for j in range(n)] for i in range(n)]
    value_NN = np.where(np.eye(n, dtype=bool), np.nan, table.payoff_NN)
    figure = heat_map(
        "Pay-off in training (matches)",
        table.players,
        table.players,
        value_NN,
        written,
        hover,
        ("what this player got", "… from meeting"),
    )
    lead = (
        "Over all generations: +1 for a win, 0 for a tie, −1 for a loss, by the scores "
        f"of judge {judge}; in parentheses in how many matches the two met. Matches of "
        f"a player with itself are left out.{sample.note()}"
    )
    return Section("match-ups", "Match-ups", (figure,), lead)


def _hover(table: PayoffTable, i: int, j: int, met: int) -> str:
    row, column = table.players[i], table.players[j]
    payoff = _payoff(table.payoff_NN[i, j], table.se_NN[i, j])
    unjudged = number(int(table.unjudged_NN[i, j]))
    return (
        f"{label(row)} met {label(column)}<br>{payoff}"
        f"<br>in {number(met)} matches, {unjudged} of them not judged"
    )


def _payoff(value: float, se: float) -> str:
    if known(value) is None:
        return "<b>no judged meeting</b>"
    error = "" if known(se) is None else f" ± {se:.2f}"
    return f"<b>{_signed(value)}</b>{error}"


def _cell(value: float, met: int) -> str:
    return f"{_signed(value)} ({met:,})" if met else ""


def _signed(value: float) -> str:
    return "–" if known(value) is None else f"{value:+.2f}".replace("-", "−")
