"""Monitors that watch a run, a terminal (`report.terminal.Display`) or nobody, and the clock of its
stages.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from equipoise.errors import UserError
from equipoise.evaluation.measures import Measures
from equipoise.ledger.ledger import WITHIN, Ledger
from equipoise.models.progress import following
from equipoise.types import PlayerId


class Monitor(Protocol):
    """Follows a run's progress."""

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """A stage of a generation begins; `total` is how many steps it has."""
        ...

    def advance(self, n: int = 1) -> None:
        """`n` more steps are done and recorded."""
        ...

    def part(self, steps: float) -> None:
        """`steps` more, or a part of one, are done, and not recorded yet."""
        ...

    def numbers(self, **named: Any) -> None:
        """The numbers that matter have changed."""
        ...


class Observer:
    """Follows what a run records, such as a tracker; each method does nothing unless overridden."""

    def trained(self, learner: str, key: str, line: Mapping[str, Any]) -> None:
        """A line of metrics of a learner's training in the stage `key`, which is under way."""

    def saved(self, players: Sequence[PlayerId]) -> None:
        """The weights of these players are in their folders."""

    def measured(self, measures: Measures, generation: int) -> None:
        """A generation was measured."""


class Silent(Monitor):
    """Shows nothing."""

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """Ignored."""

    def advance(self, n: int = 1) -> None:
        """Ignored."""

    def part(self, steps: float) -> None:
        """Ignored."""

    def numbers(self, **named: Any) -> None:
        """Ignored."""


@contextmanager
def within(monitor: Monitor, steps: int, rows: int) -> Iterator[None]:
    """Have the monitor follow the models' work on `rows` rows at most, which are `steps` steps."""
    done = 0.0

    def report(more: float) -> None:
        nonlocal done
        more = min(more, rows - done)
        done += more
        monitor.part(steps * more / max(1, rows))

    with following(report):
        yield


@dataclass
class _OpenStage:
    """A stage under way, and the seconds of the stages that ended inside it."""

    name: str
    inside: float = 0.0


class StageClock:
    """Times the stages of one run and records them when they end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: list[_OpenStage] = []  # the stages under way, the outermost first
        self._failure: Exception | None = None  # that is noted already

    @contextmanager
    def __call__(
        self, name: str, key: str, t: int, before: float = 0.0
    ) -> Iterator[dict[str, Any]]:
        """Time a stage and mark it finished under `key`, with the facts put into the dict.

        Stages inside it keep their own seconds; `before`: seconds spent on it already. A failure is
        noted, of the innermost stage.
        """
        outer = self._open[-1] if self._open else None
        stage = _OpenStage(name)
        self._open.append(stage)
        started = time.perf_counter()
        facts: dict[str, Any] = {}
        try:
            yield facts
        except UserError as error:
            if error is not self._failure:
                self._failure = error
                self._ledger.fail(key, name, str(error), facts)
            raise
        finally:
            self._open.pop()
        seconds = time.perf_counter() - started
        if outer is not None:
            outer.inside += seconds
            facts[WITHIN] = outer.name
        self._ledger.finish(key, t, name, facts, before + seconds - stage.inside)
