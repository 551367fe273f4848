"""Harnesses: other programs that measure a model by tasks of their own; readers of scores."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, field_validator

from equipoise.component import Component, nearest
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.harnesses.score_files import Scores
from equipoise.system.effects import passed_on


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

    tasks: Annotated[tuple[str, ...], passed_on("the harness")] = Field(
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

    @abstractmethod
    def measure(self, model: HarnessModel, replies: Path) -> Measured:
        """Measure a model.

        `replies` is how the names of files begin in which it may keep what the model replied, so
        that a measurement that is done again asks nothing twice. Raises DataError where data cannot
        be had, EquipoiseError where the harness fails.
        """


READERS = {
    "lm_eval": "equipoise.evaluation.harnesses.lm_eval_harness:read",
    "evalscope": "equipoise.evaluation.harnesses.evalscope_report:read",
    "inspect": "equipoise.evaluation.harnesses.inspect_log:read",
    "alpaca_eval": "equipoise.evaluation.harnesses.official_judges:alpaca_eval",
    "arena_hard": "equipoise.evaluation.harnesses.official_judges:arena_hard",
    "mt_bench": "equipoise.evaluation.harnesses.official_judges:mt_bench",
}
"""The program that wrote a file of scores -> its reader: (path, model) -> its scores."""


def read_scores(path: Path, source: str, model: str = "") -> list[Scores]:
    """The scores in a file that `source` wrote; `model` names the one meant where a file holds
    several.

    Raises ConfigError for an unknown source, DataError for a file that is no such.
    """
    if source not in READERS:
        raise ConfigError(f"--from {source}: {nearest(source, list(READERS))}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    module, _, name = READERS[source].partition(":")
    return getattr(import_module(module), name)(path, model)
