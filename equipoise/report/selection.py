"""The section on the player that was chosen by its held-out score, and tested once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from equipoise.payoffs.intervals import Interval
from equipoise.report.section import Section, Table, Tile, Tiles


@dataclass(frozen=True, slots=True)
class Selection:
    """The player chosen by its score beside the best start, and both on the test that was set
    aside; `by` is the dev set that chose, "" for the held-out prompts.
    """

    chosen: str
    start: str
    held_out: Mapping[str, Interval | None]
    test: Mapping[str, Interval | None]
    win_rate: Interval | None = None
    by: str = ""


def shown(interval: Interval | None) -> str:
    """The interval to read: in percent where it can be a share."""
    if interval is None:
        return "–"
    is_share = interval.low >= 0 and interval.high <= 1
    return interval.percent() if is_share else str(interval)


def selection_section(selection: Selection) -> Section:
    """The player that was chosen, and how it does on prompts that chose nothing."""
    chosen, start = selection.chosen, selection.start
    score = f"score on {selection.by}" if selection.by else "held-out score"
    wins = "–" if selection.win_rate is None else selection.win_rate.percent()
    tiles = [Tile("chosen", chosen, f"by its {score}, of all generations of all players")]
    lead = f"The {score} chose, so it flatters the chosen player"
    if selection.test:
        lead += "; the test was set aside and is used once."
        tiles.append(
            Tile(
                "its test score",
                shown(selection.test.get(chosen)),
                f"{start}: {shown(selection.test.get(start))}",
            )
        )
    else:
        lead += "; no test prompts were set aside (prompts.test)."
    if chosen == start:
        lead += f" No later generation has a better {score} than the best start."
    elif selection.test:
        note = "on the test, a tie counts half; 95 % interval"
        tiles.append(Tile(f"wins over {start}", wins, note))
    rows = tuple(
        (name, shown(selection.held_out.get(name)), shown(selection.test.get(name)))
        for name in dict.fromkeys((chosen, start))
    )
    table = Table(("player", score, "test score"), rows)
    return Section("selection", "Selection", (Tiles(tuple(tiles)), table), lead)
