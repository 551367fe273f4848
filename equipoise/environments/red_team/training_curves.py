"""Rewards and KL divergences over the training generations, and whose turn it was."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from equipoise.evaluate.records import StageRecord
from equipoise.report.elements import Curve, Curves

POINTS = 120  # of a curve; more generations are averaged, in equal parts of each phase
REWARD, PARTS, KL = "Reward", "Parts of the reward", "KL divergence from the start"
NOTES = {
    REWARD: "mean over the episodes of a training generation",
    PARTS: "they add up to the reward of their role",
    KL: "per answer, in nats, estimated on the training episodes",
}

# name of a curve -> generation -> value
Lines = dict[str, dict[int, float]]


@dataclass(frozen=True, slots=True)
class Phase:
    """Generations `first` to `last`, in which `learners` learned and nobody else."""

    learners: tuple[str, ...]
    first: int
    last: int


def phases(stages: Sequence[StageRecord]) -> list[Phase]:
    """Whose turn it was, in the order of the generations."""
    turns = sorted(
        (stage.generation, tuple(stage.facts["learn"]))
        for stage in stages
        if stage.stage == "turn"
    )
    found = []
    for learners, group in groupby(turns, key=lambda turn: turn[1]):
        generations = [generation for generation, _ in group]
        found.append(Phase(learners, generations[0], generations[-1]))
    return found


def training_curves(
    stages: Sequence[StageRecord], phases: Sequence[Phase]
) -> list[Curves]:
    """Rewards, their parts and KL divergences of the generations that recorded them."""
    groups: list[Curves] = []
    for title, lines in _lines(stages).items():
        curves, size = _averaged(lines, phases)
        each = f"; each point is the mean of up to {size} generations"
        if curves:
            note = NOTES[title] + (each if size > 1 else "")
            groups.append(Curves(title, "nats" if title == KL else "", curves, note))
    return groups


def _lines(stages: Sequence[StageRecord]) -> dict[str, Lines]:
    """What was recorded, by the title of its figure."""
    groups: dict[str, Lines] = {name: defaultdict(dict) for name in NOTES}
    for stage in stages:
        player, t = stage.key.split("/", 2)[-1], stage.generation
        if stage.stage == "episodes" and stage.facts.get("reward") is not None:
            groups[REWARD][player][t] = stage.facts["reward"]
            for part, mean in stage.facts.get("parts", {}).items():
                name = part.replace(".", ": ").replace("_", " ")
                groups[PARTS][name][t] = mean
        elif stage.stage == "learn" and stage.facts.get("kl") is not None:
            groups[KL][player][t] = stage.facts["kl"]
    return groups


def _averaged(
    lines: Mapping[str, Mapping[int, float]], phases: Sequence[Phase]
) -> tuple[tuple[Curve, ...], int]:
    """A curve for each line, with a gap while others learn.

    Also how many generations a point stands for at most.
    """
    generations = [t for line in lines.values() for t in line]
    if not generations:
        return (), 1
    spans = [(phase.first, phase.last) for phase in phases]
    spans = spans or [(min(generations), max(generations))]
    size = math.ceil(sum(last - first + 1 for first, last in spans) / POINTS)
    parts = [
        range(t, min(t + size, last + 1))
        for first, last in spans
        for t in range(first, last + 1, size)
    ]
    # Where every phase is a single point, gaps between them would leave no line.
    gaps = any(last - first >= size for first, last in spans)
    curves = (_curve(name, line, parts, gaps) for name, line in lines.items())
    return tuple(curves), size


def _curve(
    name: str, line: Mapping[int, float], parts: Sequence[range], gaps: bool
) -> Curve:
    """The means over the parts; NaN, or no point without `gaps`, where there is none."""
    x, y = [], []
    for part in parts:
        values = [line[t] for t in part if t in line]
        if values or gaps:
            x.append(fmean(part))
            y.append(fmean(values) if values else math.nan)
    return Curve(name, "", tuple(x), tuple(y))
