"""Monitors that watch a run: a terminal (`report.terminal.Display`), or nobody."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from equipoise.evaluation.measures import Measures
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
