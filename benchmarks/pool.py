"""A pool of tiny clerks by SPARTA, and the value of its parts.

Six members on the built-in world, four specialists, a veteran and a novice, duel, judge one another
and learn. Each ablation removes one part; `alone` removes the pool: every member learns from its
own answers, graded by itself. The measure (right answers to held-out questions, by the world's
rules) is never trained on.

Beside every arm stands what could refute it: its members decoded greedily, before and after, and
the model that they all are adapters on, without an adapter. Arms are compared like with like, best
with best and mean with mean, paired over the seeds.

Static and dynamic scores differ from the plain ones from the third generation on.

    python -m benchmarks.pool [--seeds 0 1 2] [--arms sparta alone …] [--jobs 2]
        [--scale 1]
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks import arms
from benchmarks.arms import Row
from benchmarks.comparing import bounded, paired
from benchmarks.controls import Decoded, decoded
from benchmarks.running import recorded
from equipoise.payoffs.intervals import over_seeds
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

MEMBERS = ("sums", "asker", "guard", "helper", "veteran", "novice")
PROMPTS = {"count": 1200, "per_generation": 400, "held_out": 200, "test": 200}
ARMS: dict[str, list[str]] = {
    "sparta": [],
    "equal weights": ["judge.weights=equal", "training_ratings.judge_weights=equal"],
    "random matching": ["schedule.alpha=1"],
    "static scores": ["training_ratings.scores=static"],
    "dynamic scores": ["training_ratings.scores=dynamic"],
    "world judges": ["judge=clerk", "training_ratings=bradley_terry"],
    "alone": [
        "schedule=self_play",
        "training_matches=own",
        "judge.who=self",
        "training_ratings=bradley_terry",
    ],
}
# Pools of two: no third member is left to judge.
PAIRS = (("sums", "guard"), ("asker", "helper"), ("veteran", "novice"))
TWO = ["judge.who=self"]
# One member without its adapter, by itself: the base that all members share.
BASE = {
    **{f"players.{name}": None for name in MEMBERS[1:]},
    "schedule": "self_play",
    "judge": "clerk",
    "training_ratings": "bradley_terry",
}
ONCE = {"evaluate.samples": 1}  # greedy answers to a question are all alike
GREEDY = ", greedy"


def runs(arm: str) -> dict[str, list[str]]:
    """The runs that make an arm: name -> overrides."""
    if arm != "pools of two":
        return {arm: ARMS[arm]}
    return {
        "+".join(pair): [*TWO, *(f"players.{name}=null" for name in MEMBERS if name not in pair)]
        for pair in PAIRS
    }


def sizes(scale: float, generations: int) -> list[str]:
    """The settings that every run has; `scale` is that of its prompts."""
    counts = {name: max(8, round(count * scale)) for name, count in PROMPTS.items()}
    counts["count"] = max(counts["count"], generations * counts["per_generation"])
    prompts = [f"prompts.{name}={count}" for name, count in counts.items()]
    return [f"generations={generations}", "evaluate.samples=2", *prompts]


def folders(arm: str, seed: int, place: Path) -> dict[str, Path]:
    """Run -> its folder, of those that make an arm."""
    several = len(runs(arm)) > 1
    return {
        name: place / arms.name_of(f"{arm} {name}" if several else arm, seed) for name in runs(arm)
    }


def play(seed: int, chosen: list[str], place: Path, scale: float, generations: int) -> None:
    """Every arm of a seed, where it has not been played yet."""
    for arm in chosen:
        for name, folder in folders(arm, seed, place).items():
            settings = [*sizes(scale, generations), *runs(arm)[name]]
            arms.played("sparta_clerks", folder, seed, settings)


def outcome(folder: Path) -> dict[str, Any]:
    """Every member's held-out score by generation, the test, the reputations."""
    with RunDirectory.read(folder) as run:
        measured = [facts["scores"] for facts in recorded(run, "measure")]
        rated = [facts["ratings"] for facts in recorded(run, "rate")]
        (selected,) = recorded(run, "select")
        judged = [stage for stage in run.ledger.stages("judge") if "/judge/" in stage.key]
    return {
        "scores": [
            {PlayerId.parse(name).name: score["mean"] for name, score in scores.items()}
            for scores in measured
        ],
        "ratings": [{rating["name"]: rating["value"] for rating in ratings} for ratings in rated],
        "test": {name: score["mean"] for name, score in selected["test"].items()},
        "chosen": selected["chosen"],
        "start": selected["start"],
        "unjudged": max(stage.facts["unjudged_share"] for stage in judged),
    }


def greedy_scores(folder: Path, which: Decoded, out: Path) -> dict[str, float]:
    """The members of a finished run decoded greedily at its start or its end: their mean and their
    best score on the held-out questions, and on the test the score of that best one.
    """
    with RunDirectory.read(decoded(folder, which, out, settings=ONCE)) as run:
        (measured,), (selected,) = recorded(run, "measure"), recorded(run, "select")
    scores = [score["mean"] for score in measured["scores"].values()]
    return {
        "mean": float(np.mean(scores)),
        "best held out": max(scores),
        "best": selected["test"][selected["chosen"]]["mean"],
        "members": len(scores),
    }


def base_score(folder: Path, out: Path) -> float:
    """What the base without any adapter answers rightly of the same questions, greedily."""
    first = MEMBERS[:1]
    bare = decoded(folder, "base", out, players=first, settings=ONCE | BASE)
    with RunDirectory.read(bare) as run:
        (measured,) = recorded(run, "measure")
    (score,) = measured["scores"].values()
    return float(score["mean"])


def greedy_figures(folders: dict[str, Path], place: Path, seed: int) -> dict[str, float]:
    """The greedy columns of an arm in a seed; the start of a whole pool is the same for every arm."""
    before, after = [], []
    for name, folder in folders.items():
        same = "pool" if len(folders) == 1 else name
        before.append(greedy_scores(folder, "start", place / f"start-{seed}-{same}"))
        after.append(greedy_scores(folder, "end", place / f"end-{folder.name}"))
    weights = [part["members"] for part in before]
    found = {}
    for when, parts in (("before", before), ("after", after)):
        means = [part["mean"] for part in parts]
        found[f"mean {when}{GREEDY}"] = float(np.average(means, weights=weights))
        best = max(parts, key=lambda part: part["best held out"])
        found[f"best {when}{GREEDY}"] = best["best"]
    if len(folders) == 1:
        (folder,) = folders.values()
        found[f"base{GREEDY}"] = base_score(folder, place / f"base-{seed}")
    return found


def figures(parts: list[dict]) -> dict[str, float]:
    """An arm's figures in a seed; an arm of several pools is taken together."""
    first, last = ({}, {})
    for part in parts:
        first |= part["scores"][0]
        last |= part["scores"][-1]
    best = max(parts, key=lambda part: max(max(scores.values()) for scores in part["scores"]))
    begun = max(parts, key=lambda part: max(part["scores"][0].values()))
    correlations = [correlation for part in parts for correlation in _spearman(part)]
    return {
        "mean before": float(np.mean(list(first.values()))),
        "mean after": float(np.mean(list(last.values()))),
        "best before": begun["test"][begun["start"]],
        "best after": best["test"][best["chosen"]],
        "first spearman": correlations[0] if correlations else float("nan"),
        "spearman": float(np.mean(correlations)) if correlations else float("nan"),
        "unjudged": max(part["unjudged"] for part in parts),
    }


def _spearman(part: dict) -> list[float]:
    """Rank correlations of reputations and scores, generation by generation.

    A generation's reputations follow from its own answers, so they are compared with its scores
    before it learned.
    """
    correlations = []
    for ratings, scores in zip(part["ratings"], part["scores"], strict=False):
        if len(ratings) > 2:
            result: Any = spearmanr(list(ratings.values()), [scores[name] for name in ratings])
            correlations.append(float(result.statistic))
    return correlations


def seed_rows(seed: int, chosen: list[str], place: Path) -> Mapping[str, Row]:
    """Every arm of a seed, with its greedy columns."""
    rows: dict[str, dict[str, float]] = {}
    for arm in chosen:
        homes = folders(arm, seed, place)
        rows[arm] = figures([outcome(folder) for folder in homes.values()])
        rows[arm] |= greedy_figures(homes, place, seed)
    return rows


def text(row: Row) -> str:
    """A seed's line of an arm."""
    return (
        f"pool {row['mean before']:.1%} → {row['mean after']:.1%}, best (test) "
        f"{row['best before']:.1%} → {row['best after']:.1%}, greedy "
        f"{row[f'mean before{GREEDY}']:.1%} → {row[f'mean after{GREEDY}']:.1%}, "
        f"Spearman {row['spearman']:.2f}"
    )


def main() -> None:
    """Print the tables, and write the figures behind them as JSON with --json."""
    every = [*ARMS, "pools of two"]
    parser = arms.parser(__doc__, every, seeds=[0, 1, 2], generations=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the prompts")
    o = parser.parse_args()
    by_arm = arms.over_seeds(
        o,
        lambda seed, place: play(seed, o.arms, place, o.scale, o.generations),
        lambda seed, place, played: seed_rows(seed, o.arms, place),
        text,
        scale=o.scale,
    )
    arms.show(table(by_arm), [])
    arms.show(greedy_table(by_arm), differences(by_arm))


def table(by_arm: Mapping[str, list[Row]]) -> Table:
    """A row for each arm: mean over seeds with its interval."""
    seeds = len(next(iter(by_arm.values())))
    shown = Table(
        title=f"right answers, {seeds} seeds, mean and 95 % interval; 'best' is "
        "chosen held out and tested once"
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
    ):
        shown.add_column(column, justify="left" if not column else "right")
    for arm, rows in by_arm.items():
        shown.add_row(arm, *_share(rows, "mean"), *_share(rows, "best"), _spearmans(rows))
    return shown


def greedy_table(by_arm: Mapping[str, list[Row]]) -> Table:
    """The same, decoded greedily, beside the base without adapters."""
    shown = Table(title="the same, decoded greedily")
    for column in ("", "pool before", "pool after", "gain"):
        shown.add_column(column, justify="left" if not column else "right")
    for column in ("best before", "best after", "gain", "base without adapters"):
        shown.add_column(column, justify="right")
    for arm, rows in by_arm.items():
        base = [row[f"base{GREEDY}"] for row in rows if f"base{GREEDY}" in row]
        cells = [*_share(rows, "mean", GREEDY), *_share(rows, "best", GREEDY)]
        shown.add_row(arm, *cells, f"{np.mean(base):.1%}" if base else "")
    return shown


def differences(by_arm: Mapping[str, list[Row]]) -> list[str]:
    """By how much the whole method ends above every other arm, like with like."""
    whole = by_arm.get("sparta", [])
    lines = []
    for arm, rows in by_arm.items():
        if arm == "sparta" or len(rows) != len(whole):
            continue
        for column, suffix in product(("mean after", "best after"), ("", GREEDY)):
            gap = arms.difference(by_arm, "sparta", arm, column + suffix)
            lines.append(f"sparta − {arm}, {column}{suffix}: {gap.percent()}")
    return lines


def _share(rows: list[Row], score: str, suffix: str = "") -> list[str]:
    before, after = (
        [row[f"{score} {when}{suffix}"] for row in rows] for when in ("before", "after")
    )
    gain = paired(after, before)
    return [f"{np.mean(before):.1%}", bounded(after).percent(), gain.percent()]


def _spearmans(rows: list[Row]) -> str:
    correlations = [row["spearman"] for row in rows]
    return "–" if np.isnan(correlations).any() else over_seeds(correlations).text()


if __name__ == "__main__":
    main()
