"""Where a run's time went: the seconds of its finished stages, each counted once.

A stage inside another one (the play and the judging inside a measurement) is a part of it. Earlier
versions counted such a stage's seconds in the outer one's, too, and did not say which stage it was
inside; they are recognised by their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from equipoise.runs.ledger import FinishedStage

OUTER = ("measure", "select")


@dataclass
class StageTime:
    """The seconds of all stages of one name: those of `parts`, the stages inside it, and its
    own.
    """

    stage: str
    own: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Everything in it."""
        return self.own + sum(self.parts.values())

    def add_part(self, stage: str, seconds: float) -> None:
        """A stage that ended inside it."""
        self.parts[stage] = self.parts.get(stage, 0.0) + seconds


def stage_times(stages: Iterable[FinishedStage]) -> dict[str, StageTime]:
    """The times of a run's finished stages, given in order of finishing, by name."""
    times: dict[str, StageTime] = {}

    def time_of(name: str) -> StageTime:
        return times.setdefault(name, StageTime(name))

    waiting: list[FinishedStage] = []  # an earlier version's, whose outer stage comes
    for stage in stages:
        if stage.within is not None:
            time_of(stage.within).add_part(stage.stage, stage.seconds)
        elif _was_inside(stage):
            waiting.append(stage)
        elif stage.stage in OUTER:
            _close(time_of(stage.stage), stage, waiting)
            waiting = []
        else:
            time_of(stage.stage).own += stage.seconds
    for stage in waiting:
        time_of(OUTER[0]).add_part(stage.stage, stage.seconds)
    return {name: time for name, time in times.items() if time.seconds}


def total_seconds(times: Mapping[str, StageTime]) -> float:
    """The seconds of all stages."""
    return sum(time.seconds for time in times.values())


def _was_inside(stage: FinishedStage) -> bool:
    """Whether an earlier version recorded it, inside a measurement: its key is not that of a
    generation's training.
    """
    training = (f"{stage.generation}/play", f"{stage.generation}/judge/")
    return stage.stage in ("play", "judge") and not stage.key.startswith(training)


def _close(time: StageTime, outer: FinishedStage, waiting: Iterable[FinishedStage]) -> None:
    """The outer stage, whose seconds hold those that waited for it."""
    inside = 0.0
    for stage in waiting:
        time.add_part(stage.stage, stage.seconds)
        inside += stage.seconds
    time.own += max(0.0, outer.seconds - inside)
