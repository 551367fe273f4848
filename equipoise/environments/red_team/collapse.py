"""Signs that the adversary has collapsed.

It repeats itself, refuses, strays from the topic or has lost its variety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from equipoise.environments.red_team.game import ADVERSARY
from equipoise.evaluation.records import StageRecord
from equipoise.payoffs.intervals import Interval

RECENT = 10  # of the adversary's last turns, over which repetition is averaged
REPEATED = 0.5  # the share of repeated attacks above which it has collapsed
REFUSED = 0.2  # the share of refusals above which it has
OFF_TOPIC = 0.5  # the share on topic below which it has
LOST = 0.5  # the share of its first diversity below which it has


def collapse_warnings(
    stages: Sequence[StageRecord],
    refused: Interval | None,
    on_topic: Interval | None,
    diversities: Sequence[Interval | None],
) -> Iterator[str]:
    """What a reader should be warned of.

    `refused` and `on_topic` are shares of the newest held-out attacks, `diversities` those of all
    measured generations, oldest first.
    """
    repeated = [
        stage.facts["repeated"].get(ADVERSARY)
        for stage in stages
        if stage.stage == "episodes" and "repeated" in stage.facts
    ]
    recent = [share for share in repeated if share is not None][-RECENT:]
    if recent and fmean(recent) > REPEATED:
        yield (
            f"collapse: {fmean(recent):.0%} of the adversary's training attacks repeat "
            f"another one of their generation (mean of its last {len(recent)}); raise "
            "its diversity terms, its temperature or its KL weight"
        )
    if refused and refused.mean > REFUSED:
        yield (f"collapse: {refused.mean:.0%} of the adversary's held-out attacks are refusals")
    if on_topic and on_topic.mean < OFF_TOPIC:
        yield (
            f"collapse: only {on_topic.mean:.0%} of the adversary's held-out attacks "
            "are on their prompt's topic"
        )
    first, last = (diversities[0], diversities[-1]) if diversities else (None, None)
    if first and last and last.mean < LOST * first.mean:
        yield (
            "collapse: the attacks' diversity (1 − self-BLEU) fell from "
            f"{first.mean:.2f} to {last.mean:.2f}"
        )
