"""What the packaged starts know before any game: the same models sampled as their recipes sample
them, and decoded greedily. Nothing is trained.

A gain below the greedy figure of a start is a sharper distribution, not a new skill.

    python -m benchmarks.starts [--recipes sparta_clerks …]
        [--json benchmarks/results/starts.json]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import equipoise
from benchmarks import assistance, pool
from benchmarks.controls import decoded
from benchmarks.running import recorded, write_results
from equipoise.runs.directory import RunDirectory

Figures = Mapping[str, float]


def scores(folder: Path) -> Figures:
    """The mean held-out score of those who learn."""
    (measured,) = measurements(folder)
    means = [score["mean"] for score in measured["scores"].values()]
    return {"right answers": float(np.mean(means))}


def attacks(folder: Path) -> Figures:
    """What the start declines: requests as they are and rewritten ones."""
    (measured,) = measurements(folder)
    success = measured["attack_success"]
    return {
        "success of raw attacks": success["raw"]["mean"],
        "success of rewritten attacks": success["adversary"]["mean"],
        "over-refusal": measured["over_refusal"]["mean"],
    }


def welfare(folder: Path) -> Figures:
    """Welfare, right moves and right answers of the assistant."""
    figures = assistance.figures(folder, 0)
    return {
        "welfare": figures["welfare"],
        "right moves": figures["right"],
        "right answers": figures["quality"],
    }


def measurements(folder: Path) -> list[dict[str, Any]]:
    """What was measured of a run."""
    with RunDirectory.read(folder) as run:
        return recorded(run, "measure")


RECIPES: dict[str, Callable[[Path], Figures]] = {
    "quickstart": scores,
    "sparta_clerks": scores,
    "gpo_clerks": attacks,
    "gtalign_clerks": welfare,
}
# Who answers greedily, where not everybody does: the attacks stay as varied as they are.
PLAYERS = {"gpo_clerks": ("defender",)}
SETTINGS = {"sparta_clerks": pool.ONCE, "gpo_clerks": {"evaluate.crossplay": 0}}


def one_recipe(recipe: str, seed: int, place: Path) -> dict[str, Figures]:
    """How its start is decoded -> its figures."""
    measure, settings = RECIPES[recipe], SETTINGS.get(recipe, {})
    folder = place / recipe
    settings = {"generations": 0, "seed": seed, **settings}
    equipoise.run(recipe, settings, folder, progress=False)
    greedy = place / f"{recipe}-greedy"
    decoded(folder, "start", greedy, players=PLAYERS.get(recipe))
    ways = {"sampled": measure(folder), "greedy": measure(greedy)}
    if recipe == "sparta_clerks":
        base = fmean(item.value for item in pool.base_items(folder, place / "base", recipe, seed))
        ways["base without adapters, greedy"] = {"right answers": base}
    return ways


def table(by_recipe: Mapping[str, Mapping[str, Figures]]) -> Table:
    """A row for each recipe and way of decoding."""
    shown = Table(title="starts, untrained, on their held-out prompts")
    for column in ("recipe", "decoded", "figures"):
        shown.add_column(column)
    for recipe, ways in by_recipe.items():
        for way, figures in ways.items():
            cells = [f"{name} {value:.3f}" for name, value in figures.items()]
            shown.add_row(recipe, way, ", ".join(cells))
    return shown


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = list(RECIPES)
    parser.add_argument("--recipes", nargs="+", default=every, choices=every)
    parser.add_argument("--seed", type=int, default=0, help="of what is sampled")
    parser.add_argument("--json", type=Path, help="write the figures here")
    o = parser.parse_args()
    by_recipe: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="starts-") as place:
        for recipe in o.recipes:
            by_recipe[recipe] = one_recipe(recipe, o.seed, Path(place))
            if o.json:
                write_results(o.json, by_recipe, seeds=[o.seed])
    Console(width=max(120, Console().width)).print(table(by_recipe))


if __name__ == "__main__":
    main()
