"""The table of `benchmarks.kuhn`, from its raw results: for the terminal and docs/games.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.verdicts import Scores

TITLES = {
    "self_play": "plain self-play",
    "history": "against its past",
    "mixture": "against the league's mixture",
    "mnpo": "MNPO on parted trajectories",
    "optimistic": "optimistic, by mean outcomes of 2,048 matches",
}
MEASURES = ("last", "average", "mixture")
COLUMNS = ("who is met", "seeds", *MEASURES, "average − last", "illegal moves")
GENERATIONS = "cfr_"  # before the number of OpenSpiel's iterations


def kuhn_rows(scores: Scores) -> list[tuple[str, ...]]:
    """A row for each arm: NashConv after the last generation, mean and 95 % interval over the
    seeds; then the references.
    """
    rows: list[tuple[str, ...]] = []
    for arm in [arm for arm in TITLES if arm in scores.arms]:
        seeds = str(len(scores.cells(arm, "last")))
        measured = [scores.mean(arm, measure).text() for measure in MEASURES]
        gain = scores.difference(f"{arm}:average", f"{arm}:last", "").text()
        illegal = scores.mean(arm, "illegal").mean
        rows.append((TITLES[arm], seeds, *measured, gain, f"{100 * illegal:.1f} %"))
    for arm in [arm for arm in scores.arms if arm not in TITLES]:
        if arm == "uniform":
            value = scores.mean(arm, "last").mean
            rows.append(("uniform play", "", f"{value:.3f}", "", "", "", ""))
        else:
            title = f"OpenSpiel's CFR, {arm.removeprefix(GENERATIONS)} iterations"
            rows.append((title, "", "", f"{scores.mean(arm, 'average').mean:.3f}", "", "", ""))
    return rows


def kuhn_claim(scores: Scores, told: Mapping[str, Any]) -> tuple[str, str, str]:
    """(what was measured; the figure of each arm; what could refute it)."""
    arms = [arm for arm in TITLES if arm in scores.arms]
    counts = {len(scores.cells(arm, "last")) for arm in arms}
    seeds = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    generations = told["generations"]
    first = [i for i in scores.items if i.column == "last" and i.arm in TITLES and not i.generation]
    (start,) = {round(item.value, 3) for item in first}
    figures = [
        f"{TITLES[arm]} {scores.mean(arm, 'last').text()}, "
        f"average {scores.mean(arm, 'average').text()}"
        for arm in arms
    ]
    return (
        f"NashConv in Kuhn poker after {generations} generations of a tiny model, exact; "
        f"{seeds} seeds",
        f"start {start:.3f}; {'; '.join(figures)}",
        f"uniform play {scores.mean('uniform', 'last').mean:.3f}, OpenSpiel's CFR after "
        f"{generations} iterations "
        f"{scores.mean(f'{GENERATIONS}{generations}', 'average').mean:.3f}",
    )
