"""Sections on the population: who beats whom, the equilibrium, the ratings."""

from __future__ import annotations

import numpy as np

from equipoise.report.curves import curve_figure, lines_figure
from equipoise.report.facts import Facts
from equipoise.report.figures import bars, dots, heat_map
from equipoise.report.section import Figure, Section, Tile, Tiles, known, label, number
from equipoise.report.standing import caution

MOST_BARS = 12  # members of a mixture up to which each has its bar, even an empty one
LEAST = 0.001  # share from which on a member of a larger league has one


def payoffs(facts: Facts) -> Section | None:
    """The pay-off table between players or generations."""
    value_NN, n = facts.payoff_NN, len(facts.players)
    if value_NN is None or n == 0 or not np.isfinite(value_NN).any():
        return (
            None
            if facts.roles
            else Section(
                "payoffs",
                "Who beats whom",
                reason="no two players have met in judged matches",
            )
        )
    unknown_NN = np.full((n, n), np.nan)
    se_NN = unknown_NN if facts.se_NN is None else facts.se_NN
    count_NN = unknown_NN if facts.count_NN is None else facts.count_NN
    written = [[_cell(value_NN[i, j], se_NN[i, j]) for j in range(n)] for i in range(n)]
    hover = [
        [
            f"{label(row)} meets {label(column)}<br><b>{written[i][j] or 'not played'}</b>{_behind(count_NN[i, j])}"
            for j, column in enumerate(facts.players)
        ]
        for i, row in enumerate(facts.players)
    ]
    names, titles = facts.players, ("what this player gets", "… meets")
    figure = heat_map(
        "Pay-off of the row's player against the column's",
        names,
        names,
        value_NN,
        written,
        hover,
        titles,
    )
    lead = "Each cell is the mean pay-off of the row's player when it meets the column's, ± one standard error."
    return Section("payoffs", "Who beats whom", (figure,), lead)


def _cell(value: float, se: float) -> str:
    if known(value) is None:
        return ""
    mean = f"{value:+.2f}".replace("-", "−")
    return mean if known(se) is None else f"{mean} ± {se:.2f}"


def _behind(count: float) -> str:
    return "" if known(count) is None else f"<br>{int(count)} judged matches"


def equilibrium(facts: Facts) -> Section | None:
    """What can still beat the population, and the mixture that is hardest to beat."""
    blocks: list[Tiles | Figure] = []
    if known(facts.cycle_share) is not None:
        note = "how much of the pay-off no rating can explain: 0 a ladder, 100 % rock–paper–scissors"
        tiles = [Tile("cycle share", number(facts.cycle_share, "%"), note)]
        if known(facts.cyclic_triples) is not None and len(facts.players) > 2:
            note = "share of the triples in which each beats the next: 0 a ladder, coin flips 25 %"
            tiles.append(
                Tile("cyclic triples", number(facts.cyclic_triples, "%"), note)
            )
        blocks.append(Tiles(tuple(tiles)))
    if facts.exploitability is not None and facts.exploitability.x:
        blocks.append(curve_figure(facts.exploitability))
    if facts.gaps is not None:
        blocks.append(
            lines_figure(
                facts.gaps.name,
                facts.gaps.curves,
                unit=facts.gaps.unit,
                note=facts.gaps.note,
            )
        )
    if facts.mixture:
        note = "the weights at which no member of the population does better against the mixture than the mixture itself"
        weights = list(facts.mixture.items())
        if len(weights) > MOST_BARS:
            shown = [(name, weight) for name, weight in weights if weight >= LEAST]
            note += f"; {len(weights) - len(shown)} members with less than {number(LEAST, '%')} are left out"
            weights = shown
        blocks.append(bars("Equilibrium mixture", weights, note))
    if not blocks:
        return (
            None
            if facts.roles
            else Section(
                "equilibrium", "Equilibrium", reason="no pay-off table to solve"
            )
        )
    lead = "Exploitability is what the best answer to the mixture gains over it; zero at a Nash equilibrium."
    return Section("equilibrium", "Equilibrium", tuple(blocks), lead)


def ratings(facts: Facts) -> Section | None:
    """One number a player."""
    if not facts.ratings:
        return (
            None
            if facts.roles
            else Section("ratings", "Ratings", reason="no duels to rate")
        )
    figure = dots("Rating with 95 % interval", facts.ratings, facts.rating_unit)
    lead = (
        "A rating puts everyone on one ladder; where preferences cycle, read the pay-off table instead."
        + caution(facts)
    )
    return Section("ratings", "Ratings", (figure,), lead)
