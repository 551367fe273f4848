"""Runs as somebody watches them: read when they have changed, and not more often."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

from equipoise.report.html import render
from equipoise.runs.directory import RunDirectory, is_running
from equipoise.runs.ledger_place import LEDGER
from equipoise.runs.reading.live import LiveRun, live
from equipoise.runs.reading.page import page

CHANGING = ("config.yaml", LEDGER, f"{LEDGER}-wal", "metrics.jsonl", "people/votes.jsonl")
WINDOW = 60.0  # seconds over which a pace is taken
CARDS = 60  # matches in the browser of a report that is made while the run goes on
SAMPLE = 1000  # matches that are read for it
REST = 10.0  # how many times as long as a report took to make, the next one waits

State = tuple[tuple[int, int], ...]


class Watched:
    """One run that is watched. It is only read: no lock of a writer is taken, and nothing in its
    folder is written.
    """

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
            with RunDirectory.read(self.folder, self._trust) as run:
                self._live = state, live(run)
        self._counts.append((time.monotonic(), dict(self._live[1].records)))
        while len(self._counts) > 2 and self._age(1) > WINDOW:
            self._counts.popleft()
        return self._live[1]

    def is_running(self) -> bool:
        """Whether a process plays it."""
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
        """The report, as one HTML page; made anew where the run has changed, and where making it
        takes a small part of the time.
        """
        state = self._state()
        if self._html is not None and (
            self._html[0] == state or time.monotonic() < self._rest_until
        ):
            return self._html[1]
        started = time.monotonic()
        with RunDirectory.read(self.folder, self._trust) as run:
            html = render(page(run, CARDS, SAMPLE))
        self._html = state, html
        now = time.monotonic()
        self._rest_until = now + REST * (now - started)
        return html

    def _age(self, place: int) -> float:
        return time.monotonic() - self._counts[place][0]

    def _state(self) -> State:
        """Changes whenever something of the run is recorded."""
        stats = []
        for name in CHANGING:
            try:
                stat = (self.folder / name).stat()
            except FileNotFoundError:
                stats.append((0, 0))
            else:
                stats.append((stat.st_mtime_ns, stat.st_size))
        return tuple(stats)
