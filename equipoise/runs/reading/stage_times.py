"""The time that a run took: the seconds of its finished stages, each counted once.

A stage inside another one (the play and the judging inside a measurement) is a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from equipoise.runs.ledger import FinishedStage


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
        """Its own seconds and those of its parts."""
        return self.own + sum(self.parts.values())


def stage_times(stages: Iterable[FinishedStage]) -> dict[str, StageTime]:
    """The times of a run's finished stages, given in order of finishing, by name."""
    times: dict[str, StageTime] = {}
    for stage in stages:
        name = stage.within or stage.stage
        time = times.setdefault(name, StageTime(name))
        if stage.within is None:
            time.own += stage.seconds
        else:
            time.parts[stage.stage] = time.parts.get(stage.stage, 0.0) + stage.seconds
    return {name: time for name, time in times.items() if time.seconds}


def total_seconds(times: Mapping[str, StageTime]) -> float:
    """The seconds of all stages."""
    return sum(time.seconds for time in times.values())
