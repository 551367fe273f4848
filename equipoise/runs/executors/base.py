"""Executors, which have units of model work done by workers, in parallel.

A unit is a pure function of records and of weights by path (`units`). Work is cut into units in a
fixed order, whatever the number of workers, so that a unit may be done again elsewhere and every
executor computes the same. Games, endpoints, budgets and the ledger stay with the process that
plays the run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from equipoise.component import Component

if TYPE_CHECKING:
    from equipoise.runs.executors.worker_pool import WorkerPool


class Executor(Component):
    """Computes samples, log-probabilities, model judges' verdicts and trainings."""

    KINDS: ClassVar = {
        "local": "equipoise.runs.executors.base:Local",
        "processes": "equipoise.runs.executors.processes:Processes",
        "ray": "equipoise.runs.executors.ray_cluster:RayCluster",
    }

    @abstractmethod
    def open(self) -> WorkerPool | None:
        """The workers, None for this process. Raises ConfigError where they cannot be had."""


class Local(Executor):
    """Everything in the process that plays the run."""

    kind: Literal["local"] = "local"

    def open(self) -> None:
        """Open no workers."""
        return None


@contextmanager
def workers(executor: Executor) -> Iterator[WorkerPool | None]:
    """The executor's workers, until the context ends; None where it has none."""
    pool = executor.open()
    try:
        yield pool
    finally:
        if pool is not None:
            pool.close()


def short_form(value: Any) -> Any:
    """`{processes: n}` is short for `{kind: processes, processes: n}`."""
    if isinstance(value, Mapping) and set(value) == {"processes"}:
        return {"kind": "processes", **value}
    return value
