"""Whether knowledge passes through a pool that judges itself: SPARTA with members who know
disjoint facts, among judges of unequal worth.

`examples/claims/disjoint_clerks.py` makes the members, once: five adapters that know two topics of
five each, on a base that knows none. A topic that a member does not know is foreign to it. Seeds are
of play and learning. Everybody is decoded greedily on the same held-out questions.

    python -m benchmarks.disjoint [--seeds 0 1 2 3 4] [--arms sparta alone …] [--jobs 2]

    foreign        right answers on topics that the member was not taught, mean of the pool
    own            on those that it was
    reputations    at the end: mean of the members, the liar, who grades backwards

Rows that teach nobody: the start, the base without an adapter, and one adapter taught all topics from
as many right answers and grades as all members together have on what they know.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from benchmarks import arms, pool
from benchmarks.comparing import bounded, paired
from benchmarks.controls import decoded, held_out_scores
from benchmarks.running import equipoise, importable, recorded, with_settings
from equipoise.run.directory import RunDirectory

HOME = Path(__file__).parents[1] / "examples" / "claims"
RECIPE, MAKER = HOME / "disjoint_clerks.yaml", HOME / "disjoint_clerks.py"
WORTHLESS = ("liar", "backwards")
HONEST = [f"players.{name}=null" for name in WORTHLESS]
ARMS: dict[str, list[str]] = {
    "sparta": [],
    "dynamic scores": ["training_ratings.scores=dynamic"],
    "equal weights": pool.ARMS["equal weights"],
    "random matching": pool.ARMS["random matching"],
    "honest judges": HONEST,
    "world judges": [*pool.ARMS["world judges"], *HONEST],
    "alone": [*pool.ARMS["alone"], *HONEST],
}
UNRATED = ("world judges", "alone")  # by reputation
START, BASE, UNION = "start", "base", "union"
PARTS = ("foreign", "own")


def members(world: Path) -> dict[str, tuple[str, ...]]:
    """Member -> the topics that it was taught, as the folders' names say."""
    folders = [place.name for place in world.iterdir() if "_" in place.name]
    return {name: tuple(name.split("_")) for name in sorted(folders)}


def play(arm: str, seed: int, world: Path, out: Path, generations: int) -> Path:
    """An arm's run on a seed's members, where it has not been played yet."""
    if not (out / "report.html").exists():
        settings = [
            f"player_defaults.model={world / 'base'}",
            *(f"players.{name}.adapter={world / name}" for name in members(world)),
            *(f"seed={seed}", f"generations={generations}"),
            f"evaluate.every={generations}",
            *ARMS[arm],
        ]
        arguments = ("--out", str(out), "--overwrite", "--json")
        equipoise("run", str(RECIPE), *arguments, *with_settings(settings))
    return out


def by_knowledge(
    folder: Path, taught: Mapping[str, tuple[str, ...]]
) -> dict[str, float]:
    """Mean over these players of the share of right answers on own and on foreign topics."""
    with RunDirectory.read(folder) as run:
        topics = {
            prompt.id: prompt.facts["helper"]
            for prompt in run.ledger.prompts("held_out")
        }
    shares: dict[str, list[float]] = {"own": [], "foreign": []}
    for name, own in taught.items():
        scores = held_out_scores(folder, name)
        parts: dict[str, list[float]] = {"own": [], "foreign": []}
        for prompt, score in scores.items():
            parts["own" if topics[prompt] in own else "foreign"].append(score)
        for part, values in parts.items():
            if values:
                shares[part].append(fmean(values))
    return {part: fmean(values) for part, values in shares.items() if values}


def reputations(folder: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """At the end: the members' mean, and each worthless judge's."""
    with RunDirectory.read(folder) as run:
        rated = recorded(run, "rate")[-1]["ratings"]
    values = {rating["name"]: rating["value"] for rating in rated}
    found = {"members": fmean(values[name] for name in names)}
    return found | {name: values[name] for name in WORTHLESS if name in values}


def seed_rows(
    seed: int, chosen: list[str], place: Path, generations: int
) -> dict[str, arms.Row]:
    """Every row of a seed."""
    world = place / "world"
    taught, rows = members(world), dict[str, arms.Row]()
    for arm in chosen:
        out = play(
            arm, seed, world, place / f"{arm.replace(' ', '_')}-{seed}", generations
        )
        ended = by_knowledge(decoded(out, "end", place / f"end-{out.name}"), taught)
        rated = {} if arm in UNRATED else {"reputations": reputations(out, taught)}
        rows[arm] = ended | rated
    first = place / f"{chosen[0].replace(' ', '_')}-{seed}"
    start = decoded(first, "start", place / f"start-{seed}")
    rows[START] = by_knowledge(start, taught)
    one = min(taught)
    bare = decoded(first, "base", place / f"base-{seed}", players=[one])
    rows[BASE] = by_knowledge(bare, {one: ()})
    all_taught = decoded(
        first,
        "start",
        place / f"union-{seed}",
        players=[one],
        settings={f"players.{one}.adapter": str(world / UNION)},
    )
    rows[UNION] = by_knowledge(all_taught, {one: ()})
    return rows


def make_members(place: Path) -> None:
    """The pool, where it has not been made yet."""
    if not (place / "world" / UNION).exists():
        command = [sys.executable, str(MAKER), str(place / "world")]
        alone = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=alone)


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    o = arms.parser(__doc__, ARMS, seeds=[0, 1, 2], generations=3).parse_args()
    importable(HOME)  # the recipe's judges lie beside it
    by_row = arms.over_seeds(
        o,
        lambda seed, place: seed_rows(seed, o.arms, place, o.generations),
        lambda row: "  ".join(
            f"{part} {row[part]:.3f}" for part in PARTS if part in row
        ),
        begin=make_members,
    )
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(table(by_row))
    for line in differences(by_row):
        console.print(line, highlight=False)


def table(by_row: Mapping[str, list[arms.Row]]) -> Table:
    """A row for each arm: mean over seeds with its interval."""
    shown = Table(title="right answers, greedy, mean and 95 % interval over seeds")
    for column in ("", "foreign", "own", "reputations"):
        shown.add_column(column, justify="left" if not column else "right")
    order = [START, BASE, UNION, *ARMS]
    for name in sorted(by_row, key=order.index):
        rows = by_row[name]
        cells = [
            bounded([row[part] for row in rows]).text("%") if part in rows[0] else "–"
            for part in PARTS
        ]
        rated = [row["reputations"] for row in rows if "reputations" in row]
        means = (
            {key: fmean(each[key] for each in rated) for key in rated[0]}
            if rated
            else {}
        )
        text = ", ".join(f"{key} {value:.0f}" for key, value in means.items())
        shown.add_row(name, *cells, text or "–")
    return shown


def differences(by_row: Mapping[str, list[arms.Row]]) -> list[str]:
    """By how much the whole method ends above every other row, on foreign topics."""
    whole = [row["foreign"] for row in by_row.get("sparta", [])]
    lines = []
    for name, rows in by_row.items():
        if whole and name != "sparta":
            gap = paired(whole, [row["foreign"] for row in rows])
            lines.append(f"sparta − {name}, foreign: {gap.percent()}")
    return lines


if __name__ == "__main__":
    main()
