"""A pool of tiny clerks by SPARTA, and the value of its parts.

Six members on the built-in world, four specialists, a veteran and a novice, duel, judge one another
and learn. Each ablation removes one part; `alone` removes the pool: every member learns from its
own answers, graded by itself. The measure (right answers to held-out questions, by the world's
rules) is never trained on.

Beside every arm stands what could refute it: its members decoded greedily, before and after, and
the model that they all are adapters on, without an adapter. Arms are compared like with like, best
with best and mean with mean, paired over the seeds.

Static scores differ from the plain ones from the third generation on.

    python -m benchmarks.pool [--seeds 0 1 2 3 4] [--arms sparta alone …] [--jobs 2]
        [--scale 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.controls import decoded
from benchmarks.experiment import Experiment, Options, name_of, of_rows, of_run, played
from benchmarks.running import recorded
from benchmarks.verdicts import GREEDY, Item
from equipoise.ratings.base import Ratings
from equipoise.ratings.reputation import Reputation, player_weights
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

MEMBERS = ("sums", "asker", "guard", "helper", "veteran", "novice")
PROMPTS = {"count": 1200, "per_generation": 400, "held_out": 200, "test": 200}
ARMS: dict[str, list[str]] = {
    "sparta": [],
    "equal weights": ["judge.weights=equal", "training_ratings.judge_weights=equal"],
    "random matching": ["schedule.alpha=1"],
    "static scores": ["training_ratings.scores=static"],
    "world judges": ["judge=clerk", "training_ratings=bradley_terry"],
    "alone": [
        "schedule=self_play",
        "training_matches=own",
        "judge.who=self",
        "training_ratings=bradley_terry",
    ],
}
# One member without its adapter, by itself: the base that all members share.
BASE = {
    **{f"players.{name}": None for name in MEMBERS[1:]},
    "schedule": "self_play",
    "judge": "clerk",
    "training_ratings": "bradley_terry",
}
ONCE = {"evaluate.samples": 1}  # greedy answers to a question are all alike
MEAN = "mean"  # of the members' shares of right answers


def sizes(scale: float, generations: int) -> list[str]:
    """The settings that every run has; `scale` is that of its prompts."""
    counts = {name: max(8, round(count * scale)) for name, count in PROMPTS.items()}
    counts["count"] = max(counts["count"], generations * counts["per_generation"])
    prompts = [f"prompts.{name}={count}" for name, count in counts.items()]
    return [f"generations={generations}", "evaluate.samples=2", *prompts]


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed, where it has not been played yet."""
    for arm in o.arms:
        settings = [*sizes(o.scale, o.generations), *ARMS[arm]]
        played("sparta_clerks", place / name_of(arm, seed), seed, settings)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed: the pool's answers, sampled and greedy, and the figures of whole runs.
    The start is the same for every arm.
    """
    begun = place / f"start-{seed}-pool"
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        yield from of_run(folder, arm, seed, {0: f"{MEAN} before", -1: f"{MEAN} after"}, MEMBERS)
        rows = figures(outcome(folder))
        for which, when, out in (
            ("start", "before", begun),
            ("end", "after", place / f"end-{folder.name}"),
        ):
            greedy = decoded(folder, which, out, settings=ONCE)
            yield from of_run(greedy, arm, seed, {0: f"{MEAN} {when}"}, MEMBERS, GREEDY)
            told = outcome(greedy)
            rows[f"best {when}{GREEDY}"] = told["test"][told["chosen"]]
        yield from of_rows({arm: rows}, seed)
        yield from base_items(folder, place / f"base-{seed}", arm, seed)


def outcome(folder: Path) -> dict[str, Any]:
    """Every member's held-out score by generation, the test, the reputations, the share of pairs
    whose winner the reputations change.
    """
    with RunDirectory.read(folder) as run:
        measured = [facts["scores"] for facts in recorded(run, "measure")]
        rated = [facts["ratings"] for facts in recorded(run, "rate")]
        (selected,) = recorded(run, "select")
        judged = [stage for stage in run.ledger.stages("judge") if "/judge/" in stage.key]
        ends = [{rating["name"]: rating["value"] for rating in ratings} for ratings in rated]
        rates = run.config.training_ratings
        factors, changed = handicapped(rates, ends), []
        if isinstance(rates, Reputation):
            # As in the run, a generation's judges weigh by the reputations before it.
            before = [rates.initial_ratings(list(run.config.players)), *ends[:-1]]
            changed = [winners_changed(run, t, weights) for t, weights in enumerate(before)]
    return {
        "scores": [
            {PlayerId.parse(name).name: score["mean"] for name, score in scores.items()}
            for scores in measured
        ],
        "ratings": ends,
        "test": {name: score["mean"] for name, score in selected["test"].items()},
        "chosen": selected["chosen"],
        "start": selected["start"],
        "unjudged": max((stage.facts["unjudged_share"] for stage in judged), default=0.0),
        "winners changed": float(np.mean(changed)) if changed else 0.0,
        "handicapped": factors,
        "reputation spread": float(np.std([r["value"] for r in rated[-1]])) if rated else 0.0,
    }


def winners_changed(run: RunDirectory, generation: int, weights: Mapping[str, float]) -> float:
    """The share of a generation's duels whose better answer is another one when the judges' grades
    are weighted by these reputations than when they are weighted alike; a tie on either side counts.
    """
    matches = list(run.ledger.matches("train", generation))
    judgements = run.ledger.judgements_of(match.id for match in matches)
    changed = []
    for match in matches:
        sides: dict[str, list[tuple[float, float]]] = {seat: [] for seat in match.seats}
        for vote in judgements[match.id].votes:
            if vote.value is not None and vote.seat in sides:
                weight = weights.get(PlayerId.parse(vote.by).name, 0.0)
                sides[vote.seat].append((vote.value, weight))
        if len(sides) == 2 and all(sides.values()):
            grade_K2, other_K2 = map(np.array, sides.values())
            alike = np.sign(grade_K2[:, 0].mean() - other_K2[:, 0].mean())
            means = [
                (side_K2.prod(1)).sum() / side_K2[:, 1].sum() for side_K2 in (grade_K2, other_K2)
            ]
            changed.append(alike != np.sign(means[0] - means[1]))
    return float(np.mean(changed)) if changed else 0.0


def base_items(folder: Path, out: Path, arm: str, seed: int) -> Iterator[Item]:
    """What the base without any adapter answers of the same questions, greedily."""
    bare = decoded(folder, "base", out, players=MEMBERS[:1], settings=ONCE | BASE)
    return of_run(bare, arm, seed, {0: "base"}, MEMBERS, GREEDY)


def figures(told: Mapping[str, Any]) -> dict[str, float]:
    """An arm's figures of whole runs in a seed."""
    names = ("unjudged", "winners changed", "reputation spread", "handicapped")
    rows = {
        "best before": told["test"][told["start"]],
        "best after": told["test"][told["chosen"]],
        **{name: float(told[name]) for name in names},
    }
    if correlations := _spearman(told):
        rows |= {"first spearman": correlations[0], "spearman": float(np.mean(correlations))}
    return rows


def handicapped(rated: Ratings, ends: Sequence[Mapping[str, float]]) -> float:
    """The share of members whose own scores counted for less, over generations that ended with these
    reputations.
    """
    if not isinstance(rated, Reputation) or not ends:
        return 0.0
    factors = [player_weights(rated.scores, t, ends[:t], rated.until) for t in range(len(ends))]
    return float(np.mean([sum(f < 1 for f in own.values()) for own in factors])) / len(ends[0])


def _spearman(told: Mapping[str, Any]) -> list[float]:
    """Rank correlations of reputations and scores, generation by generation.

    A generation's reputations follow from its own answers, so they are compared with its scores
    before it learned.
    """
    correlations = []
    for ratings, scores in zip(told["ratings"], told["scores"], strict=False):
        if len(ratings) > 2:
            result: Any = spearmanr(list(ratings.values()), [scores[name] for name in ratings])
            correlations.append(float(result.statistic))
    return correlations


EXPERIMENT = Experiment(
    name="pool",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2, 3, 4),
    generations=3,
    play=play,
    measure=measure,
    columns=(
        *("mean before", "mean after", "best after", "mean before, greedy", "mean after, greedy"),
        *("best after, greedy", "winners changed"),
    ),
    add=lambda parser: parser.add_argument("--scale", type=float, default=1.0, help="of prompts"),
    decides=("scale",),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
