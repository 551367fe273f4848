"""From a run's metrics to the curves of its optimizer steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from equipoise.report.section import Series, number
from equipoise.runs.directory import RunDirectory

RESTARTED = ("loss", "margin", "accuracy")
CONTINUED = ("policy_loss", "value_loss", "kl", "grad_norm", "reward")

Line = Mapping[str, Any]  # one line of metrics.jsonl


def training_curves(run: RunDirectory) -> Iterator[Series]:
    """Loss and margin over all optimizer steps, generation after generation; of policy gradients
    what they log.
    """
    lines = [line for line in run.metrics() if "/learn/" in line["stage"]]
    for learner in run.config.learning:
        own = [line for line in lines if line["stage"].endswith(f"/learn/{learner}")]
        with_loss = [line for line in own if "loss" in line]
        if with_loss:
            yield from _restarted(learner, with_loss)
        else:
            yield from _continued(learner, own)


def hand_over_rows(run: RunDirectory) -> list[tuple[str, ...]]:
    """A row for each trained player: how far it is from what was trained, or why they were not
    compared, and how much of what was learned it plays.
    """
    compared = (
        (birth.player, birth.facts)
        for birth in run.ledger.players()
        if "played_gap" in birth.facts or "not_compared" in birth.facts
    )
    return [
        (
            str(player),
            facts.get("not_compared") or number(facts["played_gap"], "nats a token"),
            number(facts.get("played_share"), "%"),
        )
        for player, facts in compared
    ]


def _restarted(learner: str, lines: Sequence[Line]) -> Iterator[Series]:
    """Of a learner whose steps begin anew in each generation."""
    stages = list(dict.fromkeys(line["stage"] for line in lines))
    for name in RESTARTED:
        x: list[float] = []
        y: list[float] = []
        boundaries = []
        before = 0.0
        for stage in stages:
            part = [line for line in lines if line["stage"] == stage and name in line]
            boundaries.append(before)
            x += [before + line.get("step", i + 1) for i, line in enumerate(part)]
            y += [line[name] for line in part]
            before = x[-1] if x else before
        if x:
            yield Series(f"{name} of {learner}", tuple(x), tuple(y), tuple(boundaries))


def _continued(learner: str, lines: Sequence[Line]) -> Iterator[Series]:
    """Of a learner that counts its steps through all generations: one curve, for each of them is a
    few steps only.
    """
    for name in CONTINUED:
        part = [line for line in lines if name in line]
        x = tuple(line.get("step", i + 1) for i, line in enumerate(part))
        y = tuple(line[name] for line in part)
        if x:
            yield Series(f"{name.replace('_', ' ')} of {learner}", x, y)
