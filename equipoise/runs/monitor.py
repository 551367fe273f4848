"""Monitors that watch a run: a terminal (`report.terminal.Display`), or nobody."""

from __future__ import annotations

from typing import Any, Protocol


class Monitor(Protocol):
    """Follows a run's progress."""

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """A stage of a generation begins; `total` is how many steps it has."""
        ...

    def advance(self, n: int = 1) -> None:
        """`n` more steps are done."""
        ...

    def numbers(self, **named: Any) -> None:
        """The numbers that matter have changed."""
        ...


class Silent(Monitor):
    """Shows nothing."""

    def stage(self, name: str, total: int | None = None, generation: int | None = None) -> None:
        """Ignored."""

    def advance(self, n: int = 1) -> None:
        """Ignored."""

    def numbers(self, **named: Any) -> None:
        """Ignored."""
