"""A run in a line, and in a small table for notebooks, from its records alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from math import nan
from pathlib import Path

from equipoise.payoffs.intervals import Interval
from equipoise.runs.directory import RunDirectory, is_running
from equipoise.runs.reading.measured_rows import measured_rows
from equipoise.runs.reading.tables import Row

MANY = 3  # learners that a line names


@dataclass(frozen=True)
class Progress:
    """A learner's score, at the start and now."""

    player: str
    start: str
    now: str


@dataclass(frozen=True)
class Summary:
    """What a run is: its name, folder and state, and how its learners' scores went."""

    name: str
    folder: str
    state: str
    generation: int
    generations: int
    learners: tuple[Progress, ...]

    def text(self) -> str:
        """`Run 'quickstart' in runs/x: finished, 2 of 2 generations; policy@2 …`."""
        scores = [
            f"{learner.player} scores {learner.now}, at the start {learner.start}"
            for learner in self.learners[:MANY]
        ]
        if len(self.learners) > MANY:
            scores.append(f"and {len(self.learners) - MANY} more learners")
        return "; ".join([f"Run '{self.name}' in {self.folder}: {self._state()}", *scores])

    def html(self) -> str:
        """The same as a table."""
        head = f"<b>{escape(self.name)}</b> in {escape(self.folder)}: {self._state()}"
        rows = "".join(
            f"<tr><td>{escape(learner.player)}</td><td>{escape(learner.start)}</td>"
            f"<td>{escape(learner.now)}</td></tr>"
            for learner in self.learners
        )
        if not rows:
            return f"<div>{head}</div>"
        titles = "<tr><th></th><th>score at the start</th><th>now</th></tr>"
        return f"<div>{head}<table>{titles}{rows}</table></div>"

    def _state(self) -> str:
        return f"{self.state}, {self.generation} of {self.generations} generations"


def summary(run: RunDirectory) -> Summary:
    """The summary of an open run."""
    measured = list(measured_rows(run.ledger))
    first: dict[str, Row] = {}
    last: dict[str, Row] = {}
    for row in measured:
        if "score" in row:
            first.setdefault(row["name"], row)
            last[row["name"]] = row
    learned = [t for _, t, *_ in run.ledger.stages("learn")]
    generations = int(run.settings["generations"])
    generation = max((row["generation"] for row in measured), default=0)
    learners = (
        Progress(row["player"], _score(first[name]), _score(row)) for name, row in last.items()
    )
    return Summary(
        name=str(run.settings["name"]),
        folder=_shown(run.folder),
        state=_state(run, generation == generations),
        generation=max([generation, *(t + 1 for t in learned)]),
        generations=generations,
        learners=tuple(learners),
    )


def _state(run: RunDirectory, finished: bool) -> str:
    if is_running(run.folder):
        return "running"
    return "finished" if finished else "unfinished"


def _score(row: Row) -> str:
    low, high = row.get("score_low", nan), row.get("score_high", nan)
    interval = Interval(row["score"], low, high, int(row.get("score_n", 0)))
    bounds = (interval.mean, low, high)
    is_share = all(0 <= bound <= 1 for bound in bounds if bound == bound)
    return interval.text("%" if is_share else "")


def _shown(folder: Path) -> str:
    """The folder from here, where it lies below."""
    here = Path(os.getcwd())
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)
