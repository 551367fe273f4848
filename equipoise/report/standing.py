"""Sections on a pool of players in training: how they stood over time, and who met
whom.
"""

from __future__ import annotations

import numpy as np

from equipoise.payoffs.cycles import cyclic_warning
from equipoise.report.curves import lines_figure
from equipoise.report.facts import Facts
from equipoise.report.figures import heat_map
from equipoise.report.section import Section, known, label, number


def standing(facts: Facts) -> Section | None:
    """Every player's rating after each generation's matches."""
    if len(facts.pool) < 2:
        return None
    if not facts.standing:
        return (
            None
            if facts.roles
            else Section(
                "standing",
                "Standing over time",
                reason="no standing has been recorded yet",
            )
        )
    unit = facts.standing_unit
    figure = lines_figure(
        "Rating after the matches of each generation",
        facts.standing,
        "generation",
        unit,
    )
    lead = (
        f"How the players stand in training, by {unit or 'rating'} with 95 % intervals. Ratings of different "
        f"generations compare players with one another, not a player with its own past.{caution(facts)}"
    )
    return Section("standing", "Standing over time", (figure,), lead)


def caution(facts: Facts) -> str:
    """What to say beside any rating where the league's pay-offs go round in circles."""
    warning = cyclic_warning(facts.cyclic_triples or 0.0)
    return f" Beware: {warning}; read who beats whom instead." if warning else ""


def match_ups(facts: Facts) -> Section | None:
    """Who met whom how often in training, and who won."""
    if len(facts.pool) < 2:
        return None
    table = facts.met
    if table is None:
        return (
            None
            if facts.roles
            else Section(
                "match-ups",
                "Match-ups",
                reason="no two players have met in training matches",
            )
        )
    n = len(table.players)
    met_NN = table.count_NN + table.unjudged_NN
    written = [
        [
            "" if i == j else _cell(float(table.payoff_NN[i, j]), int(met_NN[i, j]))
            for j in range(n)
        ]
        for i in range(n)
    ]
    value_NN = np.where(np.eye(n, dtype=bool), np.nan, table.payoff_NN)
    hover = [
        [
            f"{label(row)} met {label(column)}<br>{_told(table.payoff_NN[i, j], table.se_NN[i, j])}"
            f"<br>in {number(int(met_NN[i, j]))} matches, {number(int(table.unjudged_NN[i, j]))} of them not judged"
            for j, column in enumerate(table.players)
        ]
        for i, row in enumerate(table.players)
    ]
    titles = ("what this player got", "… from meeting")
    figure = heat_map(
        "Pay-off in training (matches)",
        table.players,
        table.players,
        value_NN,
        written,
        hover,
        titles,
    )
    lead = (
        f"Over all generations: +1 for a win, 0 for a tie, −1 for a loss, by the word of judge {facts.met_judge}; in "
        f"parentheses in how many matches the two met. Matches of a player with itself are left out.{sampled(facts)}"
    )
    return Section("match-ups", "Match-ups", (figure,), lead)


def _cell(value: float, met: int) -> str:
    if not met:
        return ""
    return f"{_signed(value)} ({met:,})"


def _told(value: float, se: float) -> str:
    if known(value) is None:
        return "<b>no judged meeting</b>"
    return f"<b>{_signed(value)}</b>" + ("" if known(se) is None else f" ± {se:.2f}")


def _signed(value: float) -> str:
    return "–" if known(value) is None else f"{value:+.2f}".replace("-", "−")


def sampled(facts: Facts) -> str:
    """Of how many matches something was read, where that is not all of them."""
    read, total = facts.sample
    return (
        f" From a random sample of {number(read)} of the run's {number(total)} matches."
        if read < total
        else ""
    )
