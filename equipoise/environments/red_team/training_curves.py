"""Rewards and KL divergences over the training generations, and whose turn it was."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean

from equipoise.evaluation.records import StageRecord
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
    turns = {
        stage.generation: tuple(stage.facts["learn"]) for stage in stages if stage.stage == "turn"
    }
    phases_so_far: list[Phase] = []
    for generation in sorted(turns):
        learners = turns[generation]
        if phases_so_far and phases_so_far[-1].learners == learners:
            phases_so_far[-1] = replace(phases_so_far[-1], last=generation)
        else:
            phases_so_far.append(Phase(learners, generation, generation))
    return phases_so_far


def training_curves(stages: Sequence[StageRecord], phases: Sequence[Phase]) -> list[Curves]:
    """Rewards, their parts and KL divergences of the generations that recorded them."""
    groups = []
    for title, lines in _lines(stages).items():
        if not lines:
            continue
        parts = _parts(lines, phases)
        # Where every phase is a single point, gaps between them would leave no line.
        gaps = any(len(of_phase) > 1 for of_phase in parts)
        curves = tuple(_curve(name, line, parts, gaps) for name, line in lines.items())
        note = NOTES[title]
        size = max(len(part) for of_phase in parts for part in of_phase)
        if size > 1:
            note += f"; each point is the mean of up to {size} generations"
        unit = "nats" if title == KL else ""
        groups.append(Curves(title, unit, curves, note))
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


def _parts(lines: Lines, phases: Sequence[Phase]) -> list[list[range]]:
    """The generations of each phase in equal parts, POINTS of them or a few more."""
    spans = [(phase.first, phase.last) for phase in phases]
    if not spans:
        generations = [t for line in lines.values() for t in line]
        spans = [(min(generations), max(generations))]
    total = sum(last - first + 1 for first, last in spans)
    size = math.ceil(total / POINTS)
    parts = []
    for first, last in spans:
        starts = range(first, last + 1, size)
        parts.append([range(t, min(t + size, last + 1)) for t in starts])
    return parts


def _curve(
    name: str, line: Mapping[int, float], parts: Sequence[Sequence[range]], gaps: bool
) -> Curve:
    """The means over the parts; NaN, or no point without `gaps`, where there is none."""
    x, y = [], []
    for part in chain.from_iterable(parts):
        values = [line[t] for t in part if t in line]
        if values:
            x.append(fmean(part))
            y.append(fmean(values))
        elif gaps:
            x.append(fmean(part))
            y.append(math.nan)
    return Curve(name, "", tuple(x), tuple(y))
