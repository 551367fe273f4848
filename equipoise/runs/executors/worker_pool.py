"""Workers, given one unit at a time, again where one was lost; released when unneeded."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from equipoise.errors import EquipoiseError
from equipoise.runs.executors.units import RESULTS, Done, Order, ReleaseAll, Unit

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

        Raises WorkerLostError if the worker ended (the next call starts another), NoRoomError if
        not started.
        """
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass
class _Job:
    """`opens`: the epoch of what its worker has open afterwards; None: nothing."""

    order: bytes
    result: Future[bytes]
    opens: int | None
    lost: int = field(default=0)


class WorkerPool:
    """Several workers; each takes the next unit when it has done one."""

    def __init__(self, make: Callable[[int], Worker], count: int) -> None:
        """`make(i)` is the i-th of `count` workers."""
        self.count = count
        self.on_loss: Callable[[str], None] | None = None
        """Takes a line, in a worker's thread, where a worker was lost and another does its unit."""
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()  # jobs, epoch, or that it is closed
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
        job = self._job(unit, self._epoch)
        self._put(job)
        return job.result

    def results(self, units: Sequence[Unit]) -> Iterable[Any]:
        """The results of these units, in order."""
        futures = [self.submit(unit) for unit in units]
        for unit, future in zip(units, futures, strict=True):
            yield result_of(unit, future)

    def release(self) -> None:
        """Declare what is open unneeded: idle workers free the memory of their devices."""
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End the workers; what they were doing, or were to do, is given up."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        for worker in self._workers:
            worker.close()
        for thread in self._threads:
            thread.join()
        for job in self._jobs:
            job.result.set_exception(EquipoiseError("the workers were ended"))

    def _job(self, unit: Unit, opens: int | None) -> _Job:
        path = [entry or os.getcwd() for entry in sys.path]
        order = Order(unit, self._epoch, path)
        return _Job(msgspec.msgpack.encode(order), Future(), opens)

    def _put(self, job: _Job) -> None:
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def _next(self, opened: int | None) -> _Job | None:
        """The next job for a worker that has something of this epoch open; None: no more."""
        with self._changed:
            while not self._closed.is_set():
                if self._jobs:
                    return self._jobs.popleft()
                if opened is not None and opened != self._epoch:
                    return self._job(ReleaseAll(), None)
                self._changed.wait()
        return None

    def _serve(self, worker: Worker) -> None:
        opened: int | None = None
        while (job := self._next(opened)) is not None:
            opened = None
            try:
                result = worker.do(job.order)
            except NoRoomError:
                self._put(job)
                self._closed.wait(ASIDE)  # or it would take it again at once
            except WorkerLostError as error:
                if job.opens is not None:  # else it has let go of all
                    self._again(job, error)
            except BaseException as error:  # noqa: BLE001  (raised where it is awaited)
                job.result.set_exception(error)
            else:
                opened = job.opens
                job.result.set_result(result)

    def _again(self, job: _Job, error: WorkerLostError) -> None:
        job.lost += 1
        if self._closed.is_set() or job.lost >= TRIES:
            text = f"a unit of work was given up: {job.lost} workers ended over it"
            job.result.set_exception(EquipoiseError(f"{text} ({error})"))
        else:
            if self.on_loss is not None:
                self.on_loss(f"{error}; another does its unit")
            self._put(job)


def result_of(unit: Unit, future: Future[bytes]) -> Any:
    """The result of a submitted unit; raises what its worker raised."""
    done = msgspec.msgpack.decode(future.result(), type=Done)
    return done.value(RESULTS[type(unit)])
