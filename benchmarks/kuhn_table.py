"""The table of `benchmarks.kuhn`, from its raw results: for the terminal and docs/games.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparing import paired
from equipoise.payoffs.intervals import over_seeds

TITLES = {
    "self_play": "plain self-play",
    "history": "against its past",
    "mixture": "against the league's mixture",
    "mnpo": "MNPO on parted trajectories",
    "optimistic": "optimistic, by mean outcomes of 2,048 matches",
}
LATER = "kuhn_optimistic.json"  # an arm of other seeds, measured apart
MEASURES = ("last", "average", "mixture")
COLUMNS = ("who is met", "seeds", *MEASURES, "average − last", "illegal moves")


def with_later_arm(results: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The results, and the runs of the arm that was measured apart, in the same folder."""
    later = json.loads((folder / LATER).read_text())
    assert later["generations"] == results["generations"], "of as many generations"
    runs = [*results["runs"], *later["runs"]]
    return {**results, "runs": runs, "date": max(results["date"], later["date"])}


def kuhn_rows(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each arm: NashConv after the last generation, mean and 95 % interval over the
    seeds; then the references.
    """
    rows: list[tuple[str, ...]] = []
    for arm, title in TITLES.items():
        runs = [run for run in results["runs"] if run["arm"] == arm]
        if not runs:
            continue
        measured = [over_seeds(final(runs, measure)).text() for measure in MEASURES]
        gain = paired(final(runs, "average"), final(runs, "last")).text()
        illegal = np.mean(final(runs, "illegal"))
        rows.append((title, str(len(runs)), *measured, gain, f"{100 * illegal:.1f} %"))
    for name, value in results["references"].items():
        generations = name.removeprefix("cfr_")
        if name == "uniform":
            rows.append(("uniform play", "", f"{value:.3f}", "", "", "", ""))
        else:
            title = f"OpenSpiel's CFR, {generations} iterations"
            rows.append((title, "", "", f"{value:.3f}", "", "", ""))
    return rows


def final(runs: Sequence[Mapping[str, Any]], measure: str) -> list[float]:
    """What each run had after its last generation."""
    return [run[measure][-1] for run in runs]


def kuhn_claim(results: Mapping[str, Any]) -> tuple[str, str, str]:
    """(what was measured; the figure of each arm; what could refute it)."""
    arms = {
        title: [run for run in results["runs"] if run["arm"] == arm]
        for arm, title in TITLES.items()
    }
    counts = {len(runs) for runs in arms.values()}
    seeds = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    generations, references = results["generations"], results["references"]
    (start,) = {round(run["last"][0], 3) for run in results["runs"]}
    figures = [
        f"{title} {over_seeds(final(runs, 'last')).text()}, "
        f"average {over_seeds(final(runs, 'average')).text()}"
        for title, runs in arms.items()
    ]
    return (
        f"NashConv in Kuhn poker after {generations} generations of a tiny model, exact; "
        f"{seeds} seeds",
        f"start {start:.3f}; {'; '.join(figures)}",
        f"uniform play {references['uniform']:.3f}, OpenSpiel's CFR after "
        f"{generations} iterations {references[f'cfr_{generations}']:.3f}",
    )
