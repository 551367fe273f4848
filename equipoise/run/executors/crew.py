"""Workers and what they are given: one unit at a time, again where a worker was lost."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from equipoise.errors import EquipoiseError
from equipoise.run.executors.units import RESULTS, Done, Order, Unit

ASIDE = 0.5  # seconds in which a worker without a place leaves its unit to others
TRIES = 3  # a unit whose worker is lost so often is given up


class WorkerLostError(Exception):
    """The worker ended before it answered."""


class NoRoomError(Exception):
    """The worker waits for a place to start at; others may do what it was given."""


class Worker(Protocol):
    """One who does units, started at its first one."""

    def do(self, order: bytes) -> bytes:
        """The encoded result.

        Raises WorkerLostError where the worker ended, and the next call starts another;
        NoRoomError where it has not started yet.
        """
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass
class _Job:
    order: bytes
    result: Future[bytes]
    lost: int = field(default=0)


class Crew:
    """Several workers; each takes the next unit when it has done one."""

    def __init__(self, make: Callable[[int], Worker], count: int) -> None:
        """`make(i)` is the i-th of `count` workers."""
        self.count = count
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._epoch = 0
        self._closed = threading.Event()
        self._workers = [make(i) for i in range(count)]
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, unit: Unit) -> Future[bytes]:
        """Have a unit done; its result, encoded, when it is there."""
        path = [entry or os.getcwd() for entry in sys.path]
        job = _Job(msgspec.msgpack.encode(Order(unit, self._epoch, path)), Future())
        self._jobs.put(job)
        return job.result

    def results(self, units: Sequence[Unit]) -> Iterable[Any]:
        """The results of these units, in order."""
        futures = [self.submit(unit) for unit in units]
        for unit, future in zip(units, futures, strict=True):
            yield result_of(unit, future)

    def release(self) -> None:
        """From now on nothing that is open is needed."""
        self._epoch += 1

    def close(self) -> None:
        """End the workers; what they were doing is lost."""
        self._closed.set()
        for _ in self._threads:
            self._jobs.put(None)
        for worker in self._workers:
            worker.close()
        for thread in self._threads:
            thread.join()

    def _serve(self, worker: Worker) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                result = worker.do(job.order)
            except NoRoomError:
                self._jobs.put(job)
                self._closed.wait(ASIDE)  # or it would take it again at once
            except WorkerLostError as error:
                self._again(job, error)
            except BaseException as error:  # noqa: BLE001  (raised where it is awaited)
                job.result.set_exception(error)
            else:
                job.result.set_result(result)

    def _again(self, job: _Job, error: WorkerLostError) -> None:
        job.lost += 1
        if self._closed.is_set() or job.lost >= TRIES:
            text = f"a unit of work was given up: {job.lost} workers ended over it"
            job.result.set_exception(EquipoiseError(f"{text} ({error})"))
        else:
            self._jobs.put(job)


def result_of(unit: Unit, future: Future[bytes]) -> Any:
    """The result of a submitted unit; raises what its worker raised."""
    done = msgspec.msgpack.decode(future.result(), type=Done)
    return done.value(RESULTS[type(unit)])
