"""A pool of tiny clerks by SPARTA, and what each part of it is worth.

Six members on the built-in world, four specialists, a veteran and a novice, duel, judge
one another and learn. The ablations take one thing away each; `alone` takes the pool
away: every member learns from its own answers, graded by itself. What is measured
(right answers to held-out questions, by the world's rules) is never taught.

    python -m benchmarks.pool [--seeds 0 1 2] [--arms sparta alone …] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from equipoise.payoffs.intervals import Interval, over_seeds
from equipoise.run.directory import Run
from equipoise.types import PlayerId

MEMBERS = ("sums", "asker", "guard", "helper", "veteran", "novice")
SMALL = [
    "generations=3",
    "prompts.count=1200",
    "prompts.per_generation=400",
    "prompts.held_out=200",
    "prompts.test=200",
    "evaluate.samples=2",
]
ARMS: dict[str, list[str]] = {
    "sparta": [],
    "equal weights": ["judge.weights=equal", "training_ratings.judge_weights=equal"],
    "random matching": ["schedule.alpha=1"],
    "world judges": ["judge=clerk", "training_ratings=bradley_terry"],
    "alone": [
        "schedule=self_play",
        "training_matches=own",
        "judge.who=self",
        "training_ratings=bradley_terry",
    ],
}
PAIRS = (
    ("sums", "guard"),
    ("asker", "helper"),
    ("veteran", "novice"),
)  # pools of two: nobody else is left to judge
TWO = ["judge.who=self"]


def runs(arm: str) -> dict[str, list[str]]:
    """The runs that make an arm: name -> overrides."""
    if arm != "pools of two":
        return {arm: ARMS[arm]}
    return {
        "+".join(pair): [
            *TWO,
            *(f"players.{name}=null" for name in MEMBERS if name not in pair),
        ]
        for pair in PAIRS
    }


def play(overrides: list[str], seed: int, folder: Path, jobs: int) -> dict:
    """One run in a process of its own: every member's held-out score by generation, the
    test, the reputations.
    """
    threads = str(max(1, len(os.sched_getaffinity(0)) // jobs))
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "run",
        "sparta_clerks",
        "--out",
        str(folder),
        "--json",
    ]
    for text in [*SMALL, *overrides, f"seed={seed}"]:
        command += ["-s", text]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": threads},
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    with Run.read(folder) as run:
        measured = [
            found["scores"] for _, _, _, found, _ in run.ledger.stages("measure")
        ]
        standing = [found["ratings"] for _, _, _, found, _ in run.ledger.stages("rate")]
        (selected,) = [found for _, _, _, found, _ in run.ledger.stages("select")]
        unread = [
            found["unjudged_share"]
            for key, _, _, found, _ in run.ledger.stages("judge")
            if "/judge/" in key
        ]
    return {
        "scores": [
            {PlayerId.parse(n).name: s["mean"] for n, s in scores.items()}
            for scores in measured
        ],
        "ratings": [
            {rating["name"]: rating["value"] for rating in ratings}
            for ratings in standing
        ],
        "test": {name: found["mean"] for name, found in selected["test"].items()},
        "chosen": selected["chosen"],
        "start": selected["start"],
        "unjudged": max(unread),
        "minutes": json.loads(done.stdout)["seconds"] / 60,
    }


def figures(parts: list[dict]) -> dict[str, float]:
    """What an arm came to in one seed; an arm of several pools is taken together."""
    first, last = (
        {k: v for part in parts for k, v in part["scores"][t].items()} for t in (0, -1)
    )
    best = max(
        parts, key=lambda part: max(max(scores.values()) for scores in part["scores"])
    )
    begun = max(parts, key=lambda part: max(part["scores"][0].values()))
    # A generation's reputations come of its own answers, so they are held against what
    # it was worth, before it learned.
    agreed = [
        float(
            spearmanr(
                [ratings[n] for n in ratings], [scores[n] for n in ratings]
            ).statistic
        )
        for part in parts
        for ratings, scores in zip(part["ratings"], part["scores"], strict=False)
        if len(ratings) > 2
    ]
    return {
        "mean before": float(np.mean(list(first.values()))),
        "mean after": float(np.mean(list(last.values()))),
        "best before": begun["test"][begun["start"]],
        "best after": best["test"][best["chosen"]],
        "first spearman": agreed[0] if agreed else float("nan"),
        "spearman": float(np.mean(agreed)) if agreed else float("nan"),
        "unjudged": max(part["unjudged"] for part in parts),
        "minutes": sum(part["minutes"] for part in parts),
    }


def main() -> None:
    """Print the table, and write the figures behind it as JSON when asked."""
    names = [*ARMS, "pools of two"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=names, choices=names)
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="runs played side by side, each on its share of the cores",
    )
    parser.add_argument("--json", type=Path, help="write every run's figures here")
    asked = parser.parse_args()
    console = Console()
    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in asked.arms}
    with (
        tempfile.TemporaryDirectory(prefix="pool-") as place,
        ThreadPoolExecutor(asked.jobs) as workers,
    ):
        tasks = {
            (arm, seed, name): workers.submit(
                play, overrides, seed, Path(place) / f"{arm}-{seed}-{name}", asked.jobs
            )
            for seed in asked.seeds
            for arm in asked.arms
            for name, overrides in runs(arm).items()
        }
        for seed in asked.seeds:
            for arm in asked.arms:
                one = figures([tasks[arm, seed, name].result() for name in runs(arm)])
                found[arm].append(one)
                console.print(
                    f"seed {seed}  {arm:15}  pool {one['mean before']:.1%} → {one['mean after']:.1%}, best (test) "
                    f"{one['best before']:.1%} → {one['best after']:.1%}, Spearman {one['spearman']:.2f} "
                    f"in {one['minutes']:.1f} min"
                )
                if asked.json:
                    asked.json.write_text(json.dumps(found, indent=1))
    console.print(table(found))


def table(found: dict[str, list[dict[str, float]]]) -> Table:
    """A row an arm: mean over seeds with its interval."""
    seeds = len(next(iter(found.values())))
    shown = Table(
        title=f"right answers, {seeds} seeds, mean and 95 % interval; 'best' is chosen held out and tested once"
    )
    for column in (
        "",
        "pool before",
        "pool after",
        "gain",
        "best before",
        "best after",
        "gain",
        "Spearman",
        "minutes",
    ):
        shown.add_column(column, justify="left" if not column else "right")
    for arm, rows in found.items():
        shown.add_row(arm, *_share(rows, "mean"), *_share(rows, "best"), *_rest(rows))
    return shown


def _share(rows: list[dict[str, float]], which: str) -> list[str]:
    before, after = (
        [row[f"{which} {when}"] for row in rows] for when in ("before", "after")
    )
    gain = over_seeds([b - a for a, b in zip(before, after, strict=True)])
    return [f"{np.mean(before):.1%}", _percent(over_seeds(after)), _percent(gain)]


def _percent(interval: Interval) -> str:
    return f"{interval.mean:.1%} ({interval.low:.1%} to {interval.high:.1%})"


def _rest(rows: list[dict[str, float]]) -> list[str]:
    agreed = [row["spearman"] for row in rows]
    said = (
        "–"
        if np.isnan(agreed).any()
        else "{0.mean:.2f} ({0.low:.2f} to {0.high:.2f})".format(over_seeds(agreed))
    )
    return [said, f"{np.mean([row['minutes'] for row in rows]):.1f}"]


if __name__ == "__main__":
    main()
