"""Workers that a signal stopped (SIGSTOP): nobody waits for them for ever."""

import os
import signal
import threading
import time
from concurrent.futures import Future

import msgspec
import pytest

from equipoise.runs.executors import processes
from equipoise.runs.executors.processes import _Process, is_stopped
from equipoise.runs.executors.units import Done, Order, ReleaseAll
from equipoise.runs.executors.worker_pool import WorkerLostError, WorkerPool
from equipoise.system.subprocesses import child_environment

pytestmark = pytest.mark.long
ORDER = msgspec.msgpack.encode(Order(ReleaseAll(), 0, []))


@pytest.fixture
def worker(monkeypatch):
    """A worker that has answered once, looked at more often than others."""
    monkeypatch.setattr(processes, "LOOK", 0.05)
    worker = _Process(child_environment())
    assert msgspec.msgpack.decode(worker.do(ORDER), type=Done).error == ""
    yield worker
    worker.close()


def stop(process) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    while not is_stopped(process.pid):
        time.sleep(0.005)


def test_a_stopped_worker_is_given_up_and_another_starts(worker):
    first = worker._process
    stop(first)
    with pytest.raises(WorkerLostError, match=f"worker process {first.pid} ended"):
        worker.do(ORDER)
    assert msgspec.msgpack.decode(worker.do(ORDER), type=Done).error == ""
    assert worker._process.pid != first.pid


def test_one_that_is_stopped_for_a_moment_goes_on(worker, monkeypatch):
    monkeypatch.setattr(processes, "STOPPED", 10_000)
    process = worker._process
    stop(process)
    threading.Timer(0.3, os.kill, (process.pid, signal.SIGCONT)).start()
    assert msgspec.msgpack.decode(worker.do(ORDER), type=Done).error == ""
    assert worker._process is process
    assert not is_stopped(process.pid)


def test_a_pool_has_the_unit_of_a_stopped_worker_done_again(worker):
    pool = WorkerPool(lambda i: worker, 1)
    try:
        stop(worker._process)
        done = pool.submit(ReleaseAll())
        assert isinstance(done, Future)
        assert msgspec.msgpack.decode(done.result(timeout=120), type=Done).error == ""
    finally:
        pool.close()
