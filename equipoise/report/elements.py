"""What measurements are shown as: headline numbers, changes, and curves over generations or
optimizer steps.

A number that is not known is NaN or None, never 0. Where `unit` is "%" the values are shares in [0,
1].
"""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.payoffs.intervals import Interval


@dataclass(frozen=True, slots=True)
class Headline:
    """One number that matters, ready to read: `held-out score`, `86.1 % (83.0 to
    88.9)`, `from 52.3 % at the start`.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One measure before and after; `unit` "%" for shares; None or NaN where it was not
    measured.
    """

    name: str
    before: Interval | None
    after: Interval | None
    unit: str = "%"
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Curve:
    """A measure over generations.

    `low` and `high` are empty where there is no interval; NaN leaves a gap.
    """

    name: str
    unit: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curves:
    """The same measure of several players, a curve each."""

    name: str
    unit: str
    curves: tuple[Curve, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A measure over optimizer steps; `boundaries` are the steps at which a generation's training
    began, in order.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    boundaries: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How many matches were `read` of the `total` that a run holds."""

    read: int = 0
    total: int = 0

    @property
    def is_partial(self) -> bool:
        """Whether some matches were not read."""
        return self.read < self.total

    def note(self) -> str:
        """What to say beside numbers of the sample; empty where it is the whole run."""
        if not self.is_partial:
            return ""
        return f" From a random sample of {self.read:,} of the run's {self.total:,} matches."
