"""A run under way, from its records, read again when it has changed: place, pace, time left."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from equipoise.blocks.html import render
from equipoise.evaluation.measures import Measures
from equipoise.ledger.ledger import MEETING, FinishedStage
from equipoise.models.resources import Spending
from equipoise.report.page import page
from equipoise.runs.directory import LEDGER, RunDirectory, is_running
from equipoise.types import Match

CHANGING = ("config.yaml", LEDGER, f"{LEDGER}-wal", "metrics.jsonl", "people/votes.jsonl")
WINDOW = 60.0  # seconds over which a pace is taken
CARDS = 60  # matches in the browser of a report that is made while the run goes on
SAMPLE = 1000  # matches that are read for it
REST = 10.0  # how many times as long as a report took to make, the next one waits

State = tuple[tuple[int, int], ...]


class Watched:
    """A run that is watched: no lock of a writer is taken, and nothing in its folder is written."""

    def __init__(self, folder: Path, trust: bool = False) -> None:
        """Raises RunError where there is no run."""
        self.folder = folder
        self._trust = trust
        self._live: tuple[State, LiveRun] | None = None
        self._html: tuple[State, str] | None = None
        self._rest_until = 0.0
        self._counts: deque[tuple[float, dict[str, int]]] = deque()
        self.live()

    def live(self) -> LiveRun:
        """The run as it is now."""
        state = self._state()
        if self._live is None or self._live[0] != state:
            with RunDirectory.read(self.folder, self._trust) as run, run.ledger.moment():
                self._live = state, live(run)
        self._counts.append((time.monotonic(), dict(self._live[1].records)))
        while len(self._counts) > 2 and self._age(1) > WINDOW:
            self._counts.popleft()
        return self._live[1]

    def is_running(self) -> bool:
        """True if a process plays the run."""
        return is_running(self.folder)

    def pace(self) -> dict[str, float]:
        """Records a second over the last minute of watching, of those that grew."""
        if len(self._counts) < 2:
            return {}
        (start, before), (end, now) = self._counts[0], self._counts[-1]
        seconds = max(end - start, 1e-9)
        rates = {name: (n - before.get(name, 0)) / seconds for name, n in now.items()}
        return {name: value for name, value in rates.items() if value > 0}

    def report(self) -> str:
        """The report as HTML, made anew if the run changed and that takes little of the time."""
        state = self._state()
        if self._html is not None and (
            self._html[0] == state or time.monotonic() < self._rest_until
        ):
            return self._html[1]
        started = time.monotonic()
        with RunDirectory.read(self.folder, self._trust) as run, run.ledger.moment():
            html = render(page(run, CARDS, SAMPLE))
        self._html = state, html
        now = time.monotonic()
        self._rest_until = now + REST * (now - started)
        return html

    def _age(self, place: int) -> float:
        return time.monotonic() - self._counts[place][0]

    def _state(self) -> State:
        """A value that changes whenever something of the run is recorded."""
        stats = []
        for name in CHANGING:
            try:
                stat = (self.folder / name).stat()
            except FileNotFoundError:
                stats.append((0, 0))
            else:
                stats.append((stat.st_mtime_ns, stat.st_size))
        return tuple(stats)


SHOWN = ("prompts", "matches", "judgements", "pairs", "episodes", "replies")
TAIL = 10_000  # bytes of metrics.jsonl that are read
LAST = 4  # matches that are shown


@dataclass(frozen=True)
class LiveRun:
    """The state of a run under way.

    `stage` and `generation` were finished last; `under_way` is the key of a stage that has logged
    metrics since, or "". `seconds_left` is None before the first whole generation. `curves`: name
    -> (generation, value). `spent`: account -> calls, tokens, money.
    """

    name: str
    stage: str
    under_way: str
    generation: int | None
    generations: int
    finished: bool
    records: Mapping[str, int]
    seconds: float
    seconds_left: float | None
    curves: Mapping[str, Sequence[tuple[int, float]]]
    spent: Mapping[str, Spending]
    matches: Sequence[Match]


def live(run: RunDirectory) -> LiveRun:
    """The run as it is now; nothing is written, and no lock is taken."""
    stages = run.ledger.stages()
    generations = run.config.generations
    last = stages[-1] if stages else None
    measured = [stage for stage in stages if stage.stage == "measure"]
    counts = run.ledger.counts()
    finished = f"{generations}/measure" in {stage.key for stage in stages}
    left = 0.0 if finished else _seconds_left(stages, generations)
    return LiveRun(
        name=run.config.name,
        stage="" if last is None else last.stage,
        under_way=_under_way(run.folder, {stage.key for stage in stages}),
        generation=max((stage.generation for stage in stages), default=None),
        generations=generations,
        finished=finished,
        records={name: counts[name] for name in SHOWN if counts[name]},
        seconds=sum(stage.seconds for stage in stages),
        seconds_left=left,
        curves=_curves(measured),
        spent=run.ledger.accounts(),
        matches=list(_last_matches(run)),
    )


def _seconds_left(stages: Sequence[FinishedStage], generations: int) -> float | None:
    """Seconds at the mean pace of the whole generations, less what the one under way has taken.

    A generation is whole when one after it has begun; the last measurement belongs to it.
    """
    seconds: dict[int, float] = {}
    for stage in stages:
        seconds[stage.generation] = seconds.get(stage.generation, 0.0) + stage.seconds
    if not seconds:
        return None
    current = max(seconds)
    whole = [value for generation, value in seconds.items() if generation < current]
    if not whole:
        return None
    pace = sum(whole) / len(whole)
    return max(0.0, pace * (generations - current) - min(seconds[current], pace))


def _under_way(folder: Path, done: Collection[str]) -> str:
    """The stage of the last line of metrics, if it is not finished."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        lines = file.read().split(b"\n")[:-1]  # the last may still be written
    try:
        stage = str(msgspec.json.decode(lines[-1])["stage"]) if lines else ""
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""
    return "" if stage in done else stage


def _curves(measured: Sequence[FinishedStage]) -> dict[str, list[tuple[int, float]]]:
    curves: dict[str, list[tuple[int, float]]] = {}
    for stage in measured:
        for name, value in Measures.read(stage.facts).watched().items():
            curves.setdefault(name, []).append((stage.generation, value))
    return curves


def _last_matches(run: RunDirectory) -> Iterator[Match]:
    """The newest matches that were played, newest first."""
    query = "SELECT record FROM matches WHERE split != 'people' ORDER BY rowid DESC LIMIT ?"
    matches = run.ledger.records(Match, query, (10 * LAST,))
    played = [match for match in matches if match.game != MEETING]
    yield from played[:LAST]
