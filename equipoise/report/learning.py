"""Sections on how learning went: the headline numbers, the curves over generations, the losses."""

from __future__ import annotations

from equipoise.report.facts import Facts
from equipoise.report.figures import curve_figure, series_figure
from equipoise.report.section import Section, Tile, Tiles


def headline(facts: Facts) -> Section | None:
    """The numbers that matter, large."""
    if not facts.headline:
        return Section("headline", "Headline", reason="nothing has been evaluated yet")
    tiles = tuple(Tile(line.label, line.value, line.note) for line in facts.headline)
    return Section("headline", "Headline", (Tiles(tiles),))


def curves(facts: Facts) -> Section | None:
    """What was measured at each generation, with intervals."""
    drawn = tuple(curve_figure(curve) for curve in facts.curves if curve.x)
    if not drawn:
        return Section("learning", "Learning", reason="no generation has been evaluated yet")
    lead = "Measured at each generation; generation 0 is the player as it was given."
    bands = " Bands are 95 % intervals." if any(curve.low for curve in facts.curves) else ""
    return Section("learning", "Learning", drawn, lead + bands)


def losses(facts: Facts) -> Section | None:
    """What the optimizer saw."""
    drawn = tuple(series_figure(series) for series in facts.losses if series.x)
    if not drawn:
        return Section("training", "Training", reason="no optimizer step was logged")
    return Section("training", "Training", drawn, "Logged by the learner at its optimizer steps.")
