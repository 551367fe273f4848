"""The facts of a stage as typed records, and the estimates in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from equipoise.blocks.section import finite_or_none
from equipoise.errors import RunError
from equipoise.payoffs.intervals import Interval

Record = TypeVar("Record", bound=msgspec.Struct)


def read_record(kind: type[Record], facts: Mapping[str, Any], what: str) -> Record:
    """The record of this kind from the JSON of its stage; `what` names it in a message.

    Raises RunError for one that this version cannot read.
    """
    try:
        return msgspec.convert(facts, kind)
    except msgspec.ValidationError as error:
        raise RunError(
            f"{what} cannot be read as {kind.__name__} ({error}); it was recorded by "
            "another version of equipoise or of the evaluation: read the run with that "
            "one"
        ) from None


class Estimate(msgspec.Struct, frozen=True):
    """A mean with its 95 % interval, as it is recorded: None for what is not known."""

    mean: float | None
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, interval: Interval) -> Estimate:
        """The interval for the record."""
        mean, low, high = map(finite_or_none, (interval.mean, interval.low, interval.high))
        return cls(mean, low, high, interval.n)

    @property
    def interval(self) -> Interval:
        """The interval to compute with: NaN for what is not known."""
        values = (self.mean, self.low, self.high)
        mean, low, high = (math.nan if value is None else value for value in values)
        return Interval(mean, low, high, self.n)
