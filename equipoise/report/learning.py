"""Sections on how learning went: the headline numbers, the curves over generations, the losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from equipoise.report.curves import curve_figure, lines_figure
from equipoise.report.elements import Curves, Headline, Series
from equipoise.report.figures import series_figure
from equipoise.report.section import Figure, Section, Table, Tile, Tiles

PLAYED = ("player", "differs from what was trained", "share of it that plays")


def headline_section(headlines: Iterable[Headline]) -> Section:
    """The numbers that matter, large."""
    tiles = tuple(Tile(line.label, line.value, line.note) for line in headlines)
    if not tiles:
        return Section("headline", "Headline", reason="nothing has been evaluated yet")
    return Section("headline", "Headline", (Tiles(tiles),))


def learning_section(groups: Sequence[Curves], alone: bool) -> Section:
    """What was measured at each generation, with intervals; a group of curves each.

    `alone`: there is a single learner, so that each of its curves has its own figure.
    """
    if not groups:
        return Section("learning", "Learning", reason="no generation has been evaluated yet")
    figures = [figure for group in groups for figure in _figures(group, alone)]
    lead = "Measured at each generation; generation 0 is the player as it was given."
    if any(curve.low for group in groups for curve in group.curves):
        lead += " Bands are 95 % intervals."
    return Section("learning", "Learning", tuple(figures), lead)


def _figures(group: Curves, alone: bool) -> list[Figure]:
    if not alone:
        return [lines_figure(group.name, group.curves, unit=group.unit, note=group.note)]
    return [
        curve_figure(replace(curve, name=f"{group.name} of {curve.name}")) for curve in group.curves
    ]


def losses_section(losses: Sequence[Series], played: Sequence[tuple[str, ...]] = ()) -> Section:
    """What the optimizer saw; `played` are rows on whether what was trained is what plays: player,
    nats a token between the two, the share of what was learned.
    """
    figures = [series_figure(series) for series in losses if series.x]
    if not figures:
        return Section("training", "Training", reason="no optimizer step was logged")
    tables = [Table(PLAYED, tuple(played), "Trained and played")] if played else []
    return Section(
        "training", "Training", (*figures, *tables), "Logged by the learner at its optimizer steps."
    )
