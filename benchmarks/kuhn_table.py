"""The table of `benchmarks.kuhn`, from its raw results: for the terminal and docs/games.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.comparing import paired
from equipoise.payoffs.intervals import over_seeds

TITLES = {
    "self_play": "plain self-play",
    "history": "against its past",
    "mixture": "against the league's mixture",
    "mnpo": "MNPO on parted trajectories",
}
MEASURES = ("last", "average", "mixture")
COLUMNS = ("who is met", "seeds", *MEASURES, "average − last", "illegal moves")


def kuhn_rows(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each arm: NashConv after the last generation, mean and 95 % interval
    over the seeds; then the references.
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


def start(results: Mapping[str, Any]) -> float:
    """NashConv of the untrained model, which all runs begin from."""
    (value,) = {round(run["last"][0], 3) for run in results["runs"]}
    return value
