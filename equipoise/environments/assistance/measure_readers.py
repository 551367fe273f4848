"""Numbers of a measurement as intervals, and curves of them over the generations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from equipoise.environments.assistance.record import AssistanceRecord
from equipoise.evaluation.measures import Estimate, History, Measurement
from equipoise.payoffs.intervals import Interval
from equipoise.report.section import Curve, number

Measured: TypeAlias = Sequence[Measurement[AssistanceRecord]]  # oldest first
Reader: TypeAlias = Callable[[AssistanceRecord], Interval | None]


def ends(history: History[AssistanceRecord]) -> Measured:
    """The first and the last measurement, once where they are one; none before there is one."""
    measured = history.measurements
    return measured if len(measured) < 2 else (measured[0], measured[-1])


def known(estimate: Estimate | None) -> Interval | None:
    """The estimate; None where nothing was measured."""
    return estimate.interval if estimate is not None and estimate.n else None


def exact(value: float | None, n: int = 0) -> Interval | None:
    """A number without an interval, of `n` values; None where it is not known."""
    return None if value is None else Interval(value, math.nan, math.nan, n)


def interval_text(interval: Interval, unit: str) -> str:
    """The number to read, with its interval where it has one."""
    if math.isnan(interval.low):
        return number(interval.mean, unit)
    return interval.text(unit)


def curve(name: str, unit: str, measured: Measured, read: Reader, note: str = "") -> Curve:
    """What `read` gives of each generation that has it; the curve may have no point."""
    points = [
        (float(measurement.generation), interval)
        for measurement in measured
        if (interval := read(measurement.measures)) is not None
    ]
    intervals = [interval for _, interval in points]
    low = tuple(interval.low for interval in intervals)
    high = tuple(interval.high for interval in intervals)
    has_band = any(map(math.isfinite, low))
    return Curve(
        name,
        unit,
        tuple(t for t, _ in points),
        tuple(interval.mean for interval in intervals),
        low if has_band else (),
        high if has_band else (),
        note,
    )


def drawn(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Those curves that have a point."""
    return tuple(curve for curve in curves if curve.x)
