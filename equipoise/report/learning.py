"""Sections on how learning went: the headline numbers, the curves over generations, the
losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from equipoise.payoffs.intervals import Interval
from equipoise.report.curves import curve_figure, lines_figure
from equipoise.report.elements import Curves
from equipoise.report.facts import Facts
from equipoise.report.figures import series_figure
from equipoise.report.section import Figure, Section, Table, Tile, Tiles


def headline(facts: Facts) -> Section | None:
    """The numbers that matter, large."""
    if not facts.headline:
        return Section("headline", "Headline", reason="nothing has been evaluated yet")
    tiles = tuple(Tile(line.label, line.value, line.note) for line in facts.headline)
    return Section("headline", "Headline", (Tiles(tiles),))


def learning(groups: Sequence[Curves], alone: bool) -> Section:
    """What was measured at each generation, with intervals; a group of curves each.

    `alone`: there is a single learner, so that each of its curves has its own figure.
    """
    if not groups:
        return Section(
            "learning", "Learning", reason="no generation has been evaluated yet"
        )
    figures = [figure for group in groups for figure in _figures(group, alone)]
    lead = "Measured at each generation; generation 0 is the player as it was given."
    if any(curve.low for group in groups for curve in group.curves):
        lead += " Bands are 95 % intervals."
    return Section("learning", "Learning", tuple(figures), lead)


def _figures(group: Curves, alone: bool) -> list[Figure]:
    if not alone:
        return [
            lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
        ]
    return [
        curve_figure(replace(curve, name=f"{group.name} of {curve.name}"))
        for curve in group.curves
    ]


def curves(facts: Facts) -> Section | None:
    """What was measured at each generation, with intervals."""
    alone = [curve for curve in facts.curves if curve.x]
    groups = [
        lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
        for group in facts.compared
    ]
    drawn = (*groups, *map(curve_figure, alone))
    if not drawn and facts.assistance is not None and facts.assistance.measured:
        return None  # its welfare has a section of its own
    if not drawn:
        return Section(
            "learning", "Learning", reason="no generation has been evaluated yet"
        )
    lead = "Measured at each generation; generation 0 is the player as it was given."
    bands = (
        " Bands are 95 % intervals."
        if any(
            c.low
            for c in (*alone, *(c for group in facts.compared for c in group.curves))
        )
        else ""
    )
    return Section("learning", "Learning", drawn, lead + bands)


def selection(facts: Facts) -> Section | None:
    """The player that was chosen, and how it does on prompts that chose nothing."""
    found = facts.selection
    if found is None:
        return None
    wins = "–" if found.win_rate is None else found.win_rate.percent()
    tiles = (
        Tile(
            "chosen",
            found.chosen,
            "by its held-out score, of all generations of all players",
        ),
        Tile(
            "its test score",
            _score(found.test.get(found.chosen)),
            f"{found.start}: {_score(found.test.get(found.start))}",
        ),
        Tile(
            f"wins over {found.start}",
            wins,
            "on the test, a tie counts half; 95 % interval",
        ),
    )
    names = dict.fromkeys((found.chosen, found.start))
    rows = tuple(
        (name, _score(found.held_out.get(name)), _score(found.test.get(name)))
        for name in names
    )
    lead = "The held-out score chose, so it flatters the chosen; the test was set aside and is used once."
    if found.chosen == found.start:
        lead += " No later generation does better on the held-out prompts than the best start."
    table = Table(("player", "held-out score", "test score"), rows)
    return Section(
        "selection",
        "Selection",
        (Tiles(tiles[:2] if len(names) == 1 else tiles), table),
        lead,
    )


def _score(found: Interval | None) -> str:
    """In percent where it can be a share."""
    if found is None:
        return "–"
    return found.percent() if found.low >= 0 and found.high <= 1 else str(found)


def losses(facts: Facts) -> Section | None:
    """What the optimizer saw."""
    drawn = tuple(series_figure(series) for series in facts.losses if series.x)
    if not drawn:
        return Section("training", "Training", reason="no optimizer step was logged")
    return Section(
        "training", "Training", drawn, "Logged by the learner at its optimizer steps."
    )
