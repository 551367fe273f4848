"""Shared by all readers of other programs' scores: the record, and JSON with one clear message."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from equipoise.errors import DataError, first_line
from equipoise.evaluation.measures import Estimate
from equipoise.evaluation.named_sets.item_scores import (
    BenchmarkResult,
    ItemScores,
    estimate,
    metrics_of,
)
from equipoise.payoffs.intervals import from_standard_error
from equipoise.types import record_id

T = TypeVar("T")


class Scores(NamedTuple):
    """A result that another program measured, with what each item scored where its files say so;
    the player is filled in when it is recorded.
    """

    result: BenchmarkResult
    items: Sequence[ItemScores] = ()


def read_text(path: Path) -> str:
    """The text of a file. Raises DataError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise DataError(f"{path}: cannot be read: {reason}") from error


def read_json(path: Path, kind: type[T], what: str) -> T:
    """The JSON of a file as a record of type `kind`.

    Raises DataError, which calls it no `what` and names the field that is wrong.
    """
    return decode(read_text(path), kind, what, str(path))


def read_lines(path: Path, kind: type[T], what: str) -> list[T]:
    """One record of type `kind` a line of JSON. Raises DataError that names the line."""
    lines = enumerate(read_text(path).splitlines(), 1)
    rows = [decode(line, kind, what, f"{path}:{number}") for number, line in lines if line]
    if not rows:
        raise DataError(f"{path}: is empty; {what} was expected")
    return rows


def decode(text: str, kind: type[T], what: str, place: str) -> T:
    """A record of type `kind` from JSON, in which a harness may write NaN.

    Raises DataError that names the place.
    """
    try:
        return msgspec.convert(json.loads(text), kind)
    except (ValueError, msgspec.ValidationError) as error:
        raise DataError(f"{place}: is not {what}: {first_line(error)}") from error
    except RecursionError as error:
        raise DataError(f"{place}: is not {what}: it is nested too deeply") from error


def estimate_of(mean: Any, se: Any, n: int) -> Estimate:
    """A reported mean with the interval that its standard error gives; unknown where the value is
    no finite number. A mean in [0, 1] with room for its error is a share.
    """
    value, error = number(mean), number(se)
    if value is None:
        return Estimate(None, None, None, n)
    # No share of n values between 0 and 1 can have a larger standard error.
    most = math.sqrt(max(value * (1 - value), 0.0) / max(n - 1, 1)) + 1e-9
    share = 0 <= value <= 1 and (error is None or error <= most)
    return Estimate.of(from_standard_error(value, error, n, share=share))


def number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def metric_means(items: Sequence[ItemScores]) -> dict[str, Estimate]:
    """Every metric's mean over items, each with its interval; items are the clusters."""
    return {metric: estimate(items, metric) for metric in metrics_of(items)}


def misfits(ends: Iterable[str | None]) -> str:
    """A note on samples that ended at the model's context, of all their ends; "" where none did.

    EvalScope and Inspect take a server's refusal of a prompt that does not fit for the answer, and
    score its text.
    """
    every = list(ends)
    n = every.count("model_length")
    if not n:
        return ""
    return (
        f"{n} of {len(every)} prompts left no room in the model's context; the harness "
        "scored the server's refusal as the answer"
    )


def comparable(*parts: Any) -> str:
    """A key that is equal where two results are comparable item by item."""
    return record_id("scores", *parts)[:12]
