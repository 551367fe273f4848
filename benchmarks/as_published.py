"""The four methods as published, and as we have them by default, on the built-in world.

Each recipe `…_as_released` and the recipe that it extends play the same world with the same tiny
models, rates and numbers of prompts, which its world below sets; what is left between them is what
`equipoise recipes NAME` lists.

    python -m benchmarks.as_published [--methods gtalign …] [--seeds 0 1 2] [--scale 1]
        [--out benchmarks/results/as_published.json]

The world has no model that can judge an answer well, so what `gtalign_as_released` asks a model is
asked of the world's rules; it keeps the second reward, the z-scores and its optimizer. Measured is
the last generation on the same held-out prompts by the same judge. The result is written after each
run, and runs in it are not run again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from equipoise.payoffs.intervals import over_seeds
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.play_out import play_out

Settings = dict[str, Any]
OUT = Path("benchmarks/results/as_published.json")
ARMS = ("default", "as released")


class World(NamedTuple):
    """How a method is played here: the packaged recipe whose keys it takes, what is changed in
    them, settings that each arm keeps of its own, and what is measured, under that name in a
    measurement's facts.
    """

    recipe: str
    keys: tuple[str, ...]
    changed: Settings
    kept: tuple[tuple[str, str], ...]
    measured: str
    what: str


RULES = {"by": "rule", "grader": None, "tasks": {"clerk": "clerk_assistance"}}
WINDOWS = {"response_words": [1, 20], "output_words": [12, 40], "steepness": 0.3, "wait": 500}
SECOND = {"llm_quality": 0.35, "llm_length": 0.05, "llm_frontier": 0.2}
WORLDS = {
    "mnpo": World(
        "quickstart",
        ("players", "prompts", "judge", "learner"),
        {"generations": 3, "prompts": {"count": 1200, "per_generation": 300, "held_out": 200}},
        (),
        "score",
        "held-out score",
    ),
    "sparta": World(
        "sparta_clerks",
        ("player_defaults", "players", "prompts", "judge", "learner", "evaluate"),
        {
            "generations": 4,
            "prompts": {"count": 800, "per_generation": 60, "held_out": 60, "test": 0},
            "evaluate": {"samples": 1},
            "schedule": {"k": 3},
        },
        (("prompts", "reuse"), ("learner", "weight_decay")),
        "score",
        "held-out score, mean of the pool",
    ),
    "gpo": World(
        "gpo_clerks",
        ("player_defaults", "players", "prompts", "game", "judge", "turns", "learners"),
        {
            "generations": 24,
            "prompts": {"count": 600, "held_out": 60},
            "turns": {"steps": {"defender": 8, "adversary": 4}},
            "learner": {
                "critic": "head",
                "learning_rate": 1e-4,
                "critic_learning_rate": 3e-4,
                "warmup_steps": 2,
            },
            "evaluate": {"every": 24},
        },
        (("prompts", "per_generation"),),
        "score",
        "the defender's mean pay-off",
    ),
    "gtalign": World(
        "gtalign_clerks",
        ("players", "prompts", "game"),
        {
            "generations": 16,
            "prompts": {"per_generation": 64, "held_out": 100},
            "judge": {**RULES, "terms": WINDOWS},
            "learner": {
                "critic": "head",
                "learning_rate": 1e-4,
                "critic_learning_rate": 1e-3,
                "minibatches": 2,
                "batch_size": 64,
            },
            "evaluate": {"every": 16, "judge": {"kind": "assistance", **RULES, "terms": WINDOWS}},
        },
        (),
        "score",
        "welfare √(user · llm)",
    ),
}


def settings_of(recipe: str, world: World, seed: int, scale: float) -> Settings:
    """The recipe in its world."""
    own = recipe_loader.read(recipe)
    place = recipe_loader.read(world.recipe)
    over = {key: place[key] for key in world.keys}
    values = recipe_loader.merge(recipe_loader.merge(own, over), world.changed)
    for room, name in world.kept:
        if name in own.get(room, {}):
            values[room] = {**values[room], name: own[room][name]}
    if recipe == "gtalign_as_released":
        values["judge"] = {**values["judge"], "terms": {**WINDOWS, **SECOND}}
    values["generations"] = max(1, round(values["generations"] * scale))
    return {**values, "seed": seed, "name": recipe}


def played(recipe: str, world: World, seed: int, scale: float) -> Settings:
    """One run: what was measured at its start and its end."""
    started = time.perf_counter()
    config = recipe_loader.build(settings_of(recipe, world, seed, scale), recipe)
    with (
        tempfile.TemporaryDirectory() as folder,
        RunDirectory.create(config, Path(folder) / "run") as run,
    ):
        done = play_out(run)
    first, *_, last = done.measured
    return {
        "start": first[world.measured],
        "end": last[world.measured],
        "generations": config.generations,
        "records": dict(done.records),
        "seconds": round(time.perf_counter() - started, 1),
    }


def pairs_of(method: str) -> dict[str, str]:
    """Arm -> its recipe."""
    return dict(zip(ARMS, (method, f"{method}_as_released"), strict=True))


def main() -> None:
    """Run what the file has not yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = [
        name for name in WORLDS if f"{name}_as_released" in recipe_loader.recipe_descriptions()
    ]
    parser.add_argument("--methods", nargs="+", default=known, choices=known)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--scale", type=float, default=1.0, help="of the generations")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    runs = json.loads(options.out.read_text())["runs"] if options.out.exists() else []
    done = {(run["recipe"], run["seed"], run["scale"]) for run in runs}
    for seed in options.seeds:
        for method in options.methods:
            for arm, recipe in pairs_of(method).items():
                if (recipe, seed, options.scale) in done:
                    continue
                facts = played(recipe, WORLDS[method], seed, options.scale)
                key = {"method": method, "arm": arm, "recipe": recipe, "seed": seed}
                runs.append({**key, "scale": options.scale, **facts})
                write(options.out, runs)
    Console().print(table(runs))


def write(path: Path, runs: list[Settings]) -> None:
    """All runs so far, with what they come to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"runs": runs, "summary": [row._asdict() for row in summary(runs)]}
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


class Row(NamedTuple):
    """A method's line: both arms' means over the seeds that both ran, and the paired difference,
    released less default, with Student's interval.
    """

    method: str
    what: str
    seeds: int
    start: float
    default: float
    as_released: float
    difference: tuple[float, float | None, float | None]


def summary(runs: list[Settings]) -> list[Row]:
    """A row a method that has a seed with both arms."""
    rows = []
    for method, world in WORLDS.items():
        ends: dict[str, Mapping[int, Settings]] = {
            arm: {run["seed"]: run for run in runs if (run["method"], run["arm"]) == (method, arm)}
            for arm in ARMS
        }
        default, released = (ends[arm] for arm in ARMS)
        seeds = sorted(default.keys() & released.keys())
        if not seeds:
            continue
        gaps = [released[seed]["end"] - default[seed]["end"] for seed in seeds]
        interval = over_seeds(gaps)
        means = [
            sum(run[seed][key] for seed in seeds) / len(seeds)
            for run, key in ((default, "start"), (default, "end"), (released, "end"))
        ]
        known = len(seeds) > 1
        low, high = (interval.low, interval.high) if known else (None, None)
        difference = (interval.mean, low, high)
        rows.append(Row(method, world.what, len(seeds), *means, difference))
    return rows


def table(runs: list[Settings]) -> Table:
    """The rows as a table."""
    shown = Table(title="as published, against our defaults", box=None)
    for column in ("method", "measure", "seeds", "start", *ARMS, "difference"):
        shown.add_column(column)
    for row in summary(runs):
        mean, low, high = row.difference
        interval = "" if low is None else f" ({low:+.3f} to {high:+.3f})"
        numbers = (f"{x:.3f}" for x in (row.start, row.default, row.as_released))
        shown.add_row(row.method, row.what, str(row.seeds), *numbers, f"{mean:+.3f}{interval}")
    return shown


if __name__ == "__main__":
    main()
