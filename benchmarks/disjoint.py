"""Whether knowledge passes through a pool that judges itself: SPARTA with members who know disjoint
facts, among judges of unequal worth.

`examples/claims/disjoint_clerks.py` makes the members, once: five adapters that know two topics of
five each, on a base that knows none. A topic that a member does not know is foreign to it. Seeds
are of play and learning. Everybody is decoded greedily on the same held-out questions.

    python -m benchmarks.disjoint [--seeds 0 1 2] [--arms sparta alone …] [--jobs 2]

    foreign        right answers on topics that the member was not taught, mean of the pool
    own            on those that it was
    agreement      the share of all answers that name the helper whom most of them name
    tells …        by how many grades the members, as judges of the first generation, put right
                   answers above wrong ones, on topics that they know (own) and others (foreign)
    reputations    at the end: mean of the members, the liar, who grades backwards; a
                   reputation follows what its owner answers, not how it grades

Rows that teach nobody: the start, the base without an adapter, everybody naming the helper who is
right most often (topics are not equally common), and one adapter taught all topics from as many
rows as one member had.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean

from rich.table import Table

from benchmarks import arms, pool
from benchmarks.comparing import bounded
from benchmarks.controls import decoded, held_out_scores
from benchmarks.running import importable, recorded
from equipoise.environments.clerk import world
from equipoise.payoffs.intervals import over_seeds
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

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
    "abstaining": HONEST,
    "abstaining, the two too": [],
    "abstaining, alone": [*pool.ARMS["alone"], *HONEST],
    "abstaining, wide margins": [*HONEST, "pairs={kind: margin, min_margin: 0.5}"],
}
ABSTAINING = "abstaining"  # such arms' members lie in a folder of this name
LAST = "porter_vet"  # who is made last
UNRATED = ("world judges", "alone", "abstaining, alone")  # by reputation
Row = arms.Row
START, BASE, UNION, CONSTANT = "start", "base", "union", "constant"
ABSTAINING_START = "start, abstaining"
PARTS = ("foreign", "own")
TELLS = {part: f"tells {part}" for part in PARTS}
COLUMNS = (*PARTS, "agreement", *TELLS.values())


def members(home: Path) -> dict[str, tuple[str, ...]]:
    """Member -> the topics that it was taught, as the folders' names say."""
    folders = [place.name for place in home.iterdir() if "_" in place.name]
    return {name: tuple(name.split("_")) for name in sorted(folders)}


def play(seed: int, chosen: list[str], place: Path, generations: int) -> None:
    """Every arm of a seed, where it has not been played yet."""
    home = place / "world"
    for arm in chosen:
        own = home / ABSTAINING if arm.startswith(ABSTAINING) else home
        settings = [
            f"player_defaults.model={home / 'base'}",
            *(f"players.{name}.adapter={own / name}" for name in members(own)),
            *(f"generations={generations}", f"evaluate.every={generations}"),
            *ARMS[arm],
        ]
        arms.played(str(RECIPE), place / arms.name_of(arm, seed), seed, settings)


def by_knowledge(folder: Path, taught: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """Mean over these players of the share of right answers on own and on foreign topics, and the
    share of all answers that the commonest helper has.
    """
    topics = held_out_topics(folder)
    shares: dict[str, list[float]] = {"own": [], "foreign": []}
    for name, own in taught.items():
        right = held_out_scores(folder, name)
        known = {topic: topic in own for topic in world.HELPERS}
        for part, values in by_topic(right, topics, known).items():
            shares[part].append(fmean(values))
    found = {part: fmean(values) for part, values in shares.items() if values}
    return found | {"agreement": agreement(folder, taught)}


def told_apart(folder: Path, taught: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """By how many grades the members put right answers above wrong ones in the first generation."""
    grades: dict[tuple[str, bool], list[float]] = {}
    with RunDirectory.read(folder) as run:
        prompts = {prompt.id: prompt for prompt in run.ledger.prompts("train", 0)}
        matches = list(run.ledger.matches("train", 0))
        judgements = run.ledger.judgements_of(match.id for match in matches)
    for match in matches:
        helper = prompts[match.prompt].facts["helper"]
        right = {turn.seat: helper in turn.move.text for turn in match.turns}
        for vote in judgements[match.id].votes:
            judge = PlayerId.parse(vote.by).name
            if judge in taught and vote.value is not None:
                part = "own" if helper in taught[judge] else "foreign"
                grades.setdefault((part, right[vote.seat]), []).append(vote.value)
    return {
        name: fmean(grades[part, True]) - fmean(grades[part, False]) for part, name in TELLS.items()
    }


def held_out_topics(folder: Path) -> dict[str, str]:
    """Prompt -> the helper who knows."""
    with RunDirectory.read(folder) as run:
        prompts = run.ledger.prompts("held_out")
    return {prompt.id: prompt.facts["helper"] for prompt in prompts}


def by_topic(
    right: Mapping[str, float], topics: Mapping[str, str], known: Mapping[str, bool]
) -> dict[str, list[float]]:
    """The scores by prompt on known ("own") and on other ("foreign") topics."""
    parts: dict[str, list[float]] = {}
    for prompt, score in right.items():
        part = "own" if known[topics[prompt]] else "foreign"
        parts.setdefault(part, []).append(score)
    return parts


def agreement(folder: Path, names: Iterable[str]) -> float:
    """The share of these players' answers that name the helper whom most of them name."""
    named = Counter[str]()
    with RunDirectory.read(folder) as run:
        for match in run.ledger.matches("held_out"):
            (player,) = {seat.name for seat in match.seats.values()}
            if player in names:
                texts = [turn.move.text for turn in match.turns]
                named.update(next(filter(text.count, world.HELPERS), "") for text in texts)
    return max(named.values()) / named.total()


def constant(topics: Mapping[str, str], taught: Mapping[str, tuple[str, ...]]) -> Row:
    """Everybody always names the helper who is most often right."""
    common = Counter(topics.values()).most_common(1)[0][0]
    right = {prompt: float(topic == common) for prompt, topic in topics.items()}
    parts = [
        by_topic(right, topics, {topic: topic in own for topic in world.HELPERS})
        for own in taught.values()
    ]
    found = {name: fmean(fmean(part[name]) for part in parts) for name in PARTS}
    return found | {"agreement": 1.0}


def reputations(folder: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """At the end: the members' mean, and each worthless judge's."""
    with RunDirectory.read(folder) as run:
        rated = recorded(run, "rate")[-1]["ratings"]
    values = {rating["name"]: rating["value"] for rating in rated}
    found = {"members": fmean(values[name] for name in names)}
    return found | {name: values[name] for name in WORTHLESS if name in values}


def seed_rows(seed: int, chosen: list[str], place: Path) -> dict[str, Row]:
    """Every row of a seed."""
    home = place / "world"
    taught = members(home)
    rows: dict[str, Row] = {}
    for arm in chosen:
        out = place / arms.name_of(arm, seed)
        ended = by_knowledge(decoded(out, "end", place / f"end-{out.name}"), taught)
        judged = (
            {}
            if arm in UNRATED
            else told_apart(out, taught) | {"reputations": reputations(out, taught)}
        )
        rows[arm] = ended | judged
    one = min(taught)
    abstaining = [arm for arm in chosen if arm.startswith(ABSTAINING)]
    if abstaining:
        first = place / arms.name_of(abstaining[0], seed)
        start = decoded(first, "start", place / f"abstaining-start-{seed}")
        rows[ABSTAINING_START] = by_knowledge(start, taught)
    if abstaining == chosen:
        return rows
    chosen = [arm for arm in chosen if arm not in abstaining]
    first = place / arms.name_of(chosen[0], seed)
    start = decoded(first, "start", place / f"start-{seed}")
    rows[START] = by_knowledge(start, taught)
    rows[CONSTANT] = constant(held_out_topics(start), taught)
    bare = decoded(first, "base", place / f"base-{seed}", players=[one])
    rows[BASE] = by_knowledge(bare, {one: ()})
    everything = {f"players.{one}.adapter": str(home / UNION)}
    out = place / f"union-{seed}"
    knowing = decoded(first, "start", out, players=[one], settings=everything)
    rows[UNION] = by_knowledge(knowing, {one: ()})
    return rows


def make_members(place: Path, chosen: Iterable[str]) -> None:
    """The pool, and its members who abstain where an arm asks for them, where they have not been
    made yet.
    """
    home = place / "world"
    wanted: list[tuple[Path, list[str]]] = [(home / UNION, [])]
    if any(arm.startswith(ABSTAINING) for arm in chosen):
        wanted.append((home / ABSTAINING / LAST, ["--abstaining"]))
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    for made, options in wanted:
        if not made.exists():
            command = [sys.executable, str(MAKER), str(home), *options]
            subprocess.run(command, check=True, env=alone)


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    o = arms.parser(__doc__, ARMS, seeds=[0, 1, 2], generations=3).parse_args()
    importable(HOME)  # the recipe's judges lie beside it
    by_row = arms.over_seeds(
        o,
        lambda seed, place: play(seed, o.arms, place, o.generations),
        lambda seed, place, played: seed_rows(seed, o.arms, place),
        lambda row: "  ".join(f"{part} {row[part]:.3f}" for part in COLUMNS if part in row),
        begin=lambda place: make_members(place, o.arms),
    )
    arms.show(table(by_row), differences(by_row))


def table(by_row: Mapping[str, list[Row]]) -> Table:
    """A row for each arm: mean over seeds with its interval."""
    shown = Table(title="right answers, greedy, mean and 95 % interval over seeds")
    for column in ("", *COLUMNS, "reputations"):
        shown.add_column(column, justify="left" if not column else "right")
    order = [START, ABSTAINING_START, BASE, CONSTANT, UNION, *ARMS]
    for name in sorted(by_row, key=order.index):
        rows = by_row[name]
        cells = [cell(rows, column) for column in COLUMNS]
        rated = [row["reputations"] for row in rows if "reputations" in row]
        means = {key: fmean(each[key] for each in rated) for key in rated[0]} if rated else {}
        text = ", ".join(f"{key} {value:.0f}" for key, value in means.items())
        shown.add_row(name, *cells, text or "–")
    return shown


def cell(rows: list[Row], column: str) -> str:
    """Mean over seeds; grades, unlike shares, are points."""
    if column not in rows[0]:
        return "–"
    values = [row[column] for row in rows]
    in_grades = column in TELLS.values()
    return over_seeds(values).text() if in_grades else bounded(values).percent()


def differences(by_row: Mapping[str, list[Row]]) -> list[str]:
    """By how much the pool ends above every other row, on foreign topics, and the judge who is
    right above judges who are not.
    """
    lines = []
    compared = (
        ("sparta", by_row),
        ("world judges", ["honest judges"]),
        (ABSTAINING, ["honest judges", "abstaining, alone", ABSTAINING_START, CONSTANT]),
    )
    for first, others in compared:
        for other in others:
            sides = [by_row.get(name, []) for name in (first, other)]
            if other == first or not sides[0] or len(sides[0]) != len(sides[1]):
                continue
            gap = arms.difference(by_row, first, other, "foreign")
            lines.append(f"{first} − {other}, foreign: {gap.percent()}")
    return lines


if __name__ == "__main__":
    main()
