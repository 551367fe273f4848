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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean

from benchmarks import pool
from benchmarks.controls import decoded, held_out_scores
from benchmarks.experiment import Experiment, Options, name_of, of_rows, played
from benchmarks.running import importable, recorded
from benchmarks.verdicts import Item
from equipoise.environments.clerk import world
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
START, BASE, UNION, CONSTANT = "start", "base", "union", "constant"
ABSTAINING_START = "start, abstaining"
PARTS = ("foreign", "own")
TELLS = {part: f"tells {part}" for part in PARTS}
COLUMNS = (*PARTS, "agreement", *TELLS.values())


def members(home: Path) -> dict[str, tuple[str, ...]]:
    """Member -> the topics that it was taught, as the folders' names say."""
    folders = [place.name for place in home.iterdir() if "_" in place.name]
    return {name: tuple(name.split("_")) for name in sorted(folders)}


def settings(place: Path, arm: str) -> list[str]:
    """Those of an arm, whose members lie in this folder's world."""
    home = place / "world"
    own = home / ABSTAINING if arm.startswith(ABSTAINING) else home
    adapters = (f"players.{name}.adapter={own / name}" for name in members(own))
    return [f"player_defaults.model={home / 'base'}", *adapters, *ARMS[arm]]


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed, where it has not been played yet."""
    for arm in o.arms:
        own = [f"generations={o.generations}", f"evaluate.every={o.generations}"]
        folder = place / name_of(arm, seed)
        played(str(RECIPE), folder, seed, [*settings(place, arm), *own])


def by_knowledge(
    folder: Path, taught: Mapping[str, tuple[str, ...]], arm: str, seed: int
) -> Iterator[Item]:
    """These players' answers on own and on foreign topics, and the share of all answers that the
    commonest helper has.
    """
    topics = held_out_topics(folder)
    for name, own in taught.items():
        for prompt, right in held_out_scores(folder, name).items():
            part = "own" if topics[prompt] in own else "foreign"
            yield Item(arm, seed, 0, f"{prompt} {name}", part, right)
    yield Item(arm, seed, 0, "", "agreement", agreement(folder, taught))


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


def constant(
    topics: Mapping[str, str], taught: Mapping[str, tuple[str, ...]], seed: int
) -> Iterator[Item]:
    """Everybody always names the helper who is most often right."""
    common = Counter(topics.values()).most_common(1)[0][0]
    for name, own in taught.items():
        for prompt, topic in topics.items():
            part = "own" if topic in own else "foreign"
            yield Item(CONSTANT, seed, 0, f"{prompt} {name}", part, float(topic == common))
    yield Item(CONSTANT, seed, 0, "", "agreement", 1.0)


def reputations(folder: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """At the end: the members' mean, and each worthless judge's."""
    with RunDirectory.read(folder) as run:
        rated = recorded(run, "rate")[-1]["ratings"]
    values = {rating["name"]: rating["value"] for rating in rated}
    found = {"reputation, members": fmean(values[name] for name in names)}
    return found | {f"reputation, {n}": values[n] for n in WORTHLESS if n in values}


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed, and the rows that teach nobody."""
    home = place / "world"
    taught = members(home)
    for arm in o.arms:
        out = place / name_of(arm, seed)
        yield from by_knowledge(decoded(out, "end", place / f"end-{out.name}"), taught, arm, seed)
        if arm not in UNRATED:
            yield from of_rows({arm: told_apart(out, taught) | reputations(out, taught)}, seed)
    one = min(taught)
    abstaining = [arm for arm in o.arms if arm.startswith(ABSTAINING)]
    others = [arm for arm in o.arms if arm not in abstaining]
    if abstaining:
        first = place / name_of(abstaining[0], seed)
        start = decoded(first, "start", place / f"abstaining-start-{seed}")
        yield from by_knowledge(start, taught, ABSTAINING_START, seed)
    if others:
        first = place / name_of(others[0], seed)
        start = decoded(first, "start", place / f"start-{seed}")
        yield from by_knowledge(start, taught, START, seed)
        yield from constant(held_out_topics(start), taught, seed)
        bare = decoded(first, "base", place / f"base-{seed}", players=[one])
        yield from by_knowledge(bare, {one: ()}, BASE, seed)
        everything = {f"players.{one}.adapter": str(home / UNION)}
        out = place / f"union-{seed}"
        knowing = decoded(first, "start", out, players=[one], settings=everything)
        yield from by_knowledge(knowing, {one: ()}, UNION, seed)


def make_members(place: Path, o: Options) -> None:
    """The pool, and its members who abstain where an arm asks for them, where they have not been
    made yet.
    """
    importable(HOME)  # the recipe's judges lie beside it
    home = place / "world"
    wanted: list[tuple[Path, list[str]]] = [(home / UNION, [])]
    if any(arm.startswith(ABSTAINING) for arm in o.arms):
        wanted.append((home / ABSTAINING / LAST, ["--abstaining"]))
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    for made, options in wanted:
        if not made.exists():
            command = [sys.executable, str(MAKER), str(home), *options]
            subprocess.run(command, check=True, env=alone)


EXPERIMENT = Experiment(
    name="disjoint",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2),
    generations=3,
    play=play,
    measure=measure,
    columns=(*COLUMNS, "reputation, members", "reputation, liar"),
    points=(*TELLS.values(), "reputation, members", "reputation, liar"),
    begin=make_members,
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
