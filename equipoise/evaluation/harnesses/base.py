"""Harnesses: other programs that measure a model by tasks of their own; readers of scores."""

import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import msgspec
from pydantic import Field, field_validator

from equipoise.component import Component, nearest
from equipoise.errors import ConfigError, DataError, first_line
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores, estimate, metrics_of
from equipoise.payoffs.intervals import from_standard_error
from equipoise.system.effects import effect_in
from equipoise.system.plugins import neighbours
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
        return path.read_text(encoding="utf-8-sig")
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
    lines = [line.strip() for line in read_text(path).split("\n")]  # no other mark ends one
    rows = [decode(line, kind, what, f"{path}:{n}") for n, line in enumerate(lines, 1) if line]
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


def comparable(*parts: Any) -> str:
    """A key that is equal where two results are comparable item by item."""
    return record_id("scores", *parts)[:12]


@dataclass(frozen=True)
class HarnessModel:
    """A generation as transformers and PEFT load it.

    `model` is a folder or hub id, `adapter` a PEFT adapter on it; `tokenizer` is given where it
    does not lie with the model. `dtype` is that of the weights, `products` the one of matrix
    products where it differs.
    """

    model: str
    adapter: str | None = None
    tokenizer: str | None = None
    dtype: str = "auto"
    products: str | None = None
    device: str = "cpu"
    attention: str = "auto"
    template_options: Mapping[str, Any] = field(default_factory=dict)


class Prepared(NamedTuple):
    """A harness that is there and knows its tasks: its name with its version, and all that
    determines what it will measure of a model.
    """

    source: str
    essentials: Mapping[str, Any]


class Measured(NamedTuple):
    """Scores by a harness, and its own results as it writes them."""

    scores: Sequence[Scores]
    document: Mapping[str, Any]


class Harness(Component):
    """A harness that can load a model by itself."""

    KINDS: ClassVar = {"lm_eval": "equipoise.evaluation.harnesses.lm_eval_harness:LmEval"}

    tasks: Annotated[tuple[str, ...], effect_in("the harness")] = Field(
        min_length=1, description="the names of its tasks, groups or patterns"
    )
    limit: float | None = Field(
        None, gt=0, description="documents of each task; below 1 their share; null: all"
    )

    @field_validator("tasks", mode="before")
    @classmethod
    def _separated(cls, value: Any) -> Any:
        """`a,b` are two tasks."""
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value

    @abstractmethod
    def prepare(self) -> Prepared:
        """Check that the harness is there and has these tasks; no model is loaded.

        Raises ConfigError.
        """

    @cached_property
    def prepared(self) -> Prepared:
        """As `prepare`, which is asked once. Raises ConfigError."""
        return self.prepare()

    @abstractmethod
    def measure(self, model: HarnessModel, replies: Path) -> Measured:
        """Measure a model.

        `replies` is how the names of files begin in which it may keep what the model replied, so
        that a measurement that is done again asks nothing twice. Raises DataError where data cannot
        be had, EquipoiseError where the harness fails.
        """


READERS = {
    "lm_eval": "equipoise.evaluation.harnesses.lm_eval_harness:read",
    "evalscope": "equipoise_neighbours.evalscope_report:read",
    "inspect": "equipoise.evaluation.harnesses.inspect_log:read",
    "alpaca_eval": "equipoise.evaluation.harnesses.official_judges:alpaca_eval",
    "arena_hard": "equipoise.evaluation.harnesses.official_judges:arena_hard",
    "mt_bench": "equipoise.evaluation.harnesses.official_judges:mt_bench",
    "verifiers": "equipoise_neighbours.verifiers_scores:read",
}
"""The program that wrote a file of scores -> its reader: (path, model) -> its scores."""


def read_scores(path: Path, source: str, model: str = "") -> list[Scores]:
    """The scores in a file that `source` wrote; `model` names the one meant where a file holds
    several.

    Raises ConfigError for an unknown source and where its reader is not installed, DataError for a
    file that is no such.
    """
    if source not in READERS:
        raise ConfigError(f"--from {source}: {nearest(source, list(READERS))}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    module, _, name = READERS[source].partition(":")
    home, _, last = module.rpartition(".")
    reader = import_module(module) if home.startswith("equipoise.") else neighbours(last)
    return getattr(reader, name)(path, model)
