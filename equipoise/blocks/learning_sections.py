"""Sections on how learning went: the headline numbers, the curves over generations, the losses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from equipoise.blocks.figures import group_figure, series_figure
from equipoise.blocks.section import Curves, Headline, Section, Series, Table, Tile, Tiles, number

PLAYED = ("player", "differs from what was trained", "share of it that plays")


def headline_section(headlines: Iterable[Headline], lead: str = "") -> Section:
    """The numbers that matter, large; `lead` says how to read them."""
    tiles = tuple(Tile(line.label, line.value, line.note) for line in headlines)
    if not tiles:
        return Section("headline", "Headline", reason="nothing has been evaluated yet")
    return Section("headline", "Headline", (Tiles(tiles),), lead)


def learning_section(
    groups: Sequence[Curves], anchor: str = "learning", title: str = "Learning"
) -> Section:
    """Everything measured at each generation, with intervals: a figure for each group of curves."""
    figures = [group_figure(group) for group in groups if group.curves]
    if not figures:
        return Section(anchor, title, reason="no generation has been evaluated yet")
    lead = "Measured at each generation; generation 0 is the player as it was given."
    if any(curve.low for group in groups for curve in group.curves):
        lead += " Bands are 95 % intervals."
    return Section(anchor, title, tuple(figures), lead)


def losses_section(losses: Sequence[Series], played: Sequence[tuple[str, ...]] = ()) -> Section:
    """The optimizer's log; `played` are rows on whether what was trained is what plays: player,
    nats a token between the two, the share of what was learned.
    """
    figures = [series_figure(series) for series in losses if series.x]
    if not figures:
        return Section("training", "Training", reason="no optimizer step was logged")
    tables = [Table(PLAYED, tuple(played), "Trained and played")] if played else []
    return Section(
        "training", "Training", (*figures, *tables), "Logged by the learner at its optimizer steps."
    )


def best_responses_section(responses: Sequence[Mapping[str, Any]]) -> Section:
    """A row for each exploiter: what it gets, what it began with, what the league had, and the
    budget; `responses` are facts as `run.best_response` gives them.
    """
    columns = (
        "against",
        "exploiter",
        "gets, 95 % interval",
        "at its start",
        "the league's best",
        "updates",
        "samples",
        "tokens",
        "its run",
    )
    table = Table(columns, tuple(map(response_row, responses)), prose=True)
    lead = (
        "Exploitability by training: a fresh player learned against a frozen one, for "
        "what it gets alone. It is a lower bound on what can beat it, for this budget "
        "and this start; beside it is the most that anybody of the league got."
    )
    return Section("best_responses", "What can still beat it", (table,), lead)


def response_row(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """An exploiter's row."""
    league, budget = facts["league"], facts["budget"]
    by = f" ({league['by']})" if league["by"] else ""
    unit = f" {facts['unit']}" if facts["unit"] else ""
    return (
        facts["against"]["player"],
        facts["exploiter"] + ("" if facts["finished"] else ", unfinished"),
        estimate_text(facts["gets"]) + unit,
        estimate_text(facts["at_start"]),
        estimate_text(league["gets"]) + by,
        f"{budget['updates']:,}",
        f"{budget['samples']:,}",
        f"{budget['tokens']:,}",
        facts["run"],
    )


def estimate_text(estimate: Mapping[str, Any] | None) -> str:
    """A mean with its interval to read."""
    if estimate is None or estimate["mean"] is None:
        return "–"
    low, high = estimate["low"], estimate["high"]
    mean = number(estimate["mean"], digits=3)
    if low is None or high is None or low == high:
        return mean
    return f"{mean} ({number(low, digits=3)} to {number(high, digits=3)})"
