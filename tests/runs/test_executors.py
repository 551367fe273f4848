"""Whoever does the model work, the records and weights are the same; a worker that is lost costs
time and nothing else.
"""

import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from small_runs import is_recorded, wait_for_record

from equipoise.api.play_out import play_out
from equipoise.errors import ConfigError, EquipoiseError, ModelError
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.executors import processes, ray_cluster, ray_probe
from equipoise.runs.executors.base import Executor, Local, short_form, workers
from equipoise.runs.executors.processes import Processes
from equipoise.runs.executors.ray_cluster import RayWorker
from equipoise.runs.executors.units import (
    Act,
    Done,
    Order,
    Part,
    ReleaseAll,
    UnitRunner,
    Weighted,
    cut,
    failure,
)
from equipoise.runs.executors.worker_pool import TRIES, NoRoomError, WorkerLostError, WorkerPool
from equipoise.system.addresses import machine
from equipoise.types import Message, View

MEMBER = {
    "kind": "local",
    "model": "builtin",
    "learns": True,
    "max_length": 256,
    "max_new_tokens": 12,
    "lora": {"r": 2, "alpha": 4},
}
VALUES = {
    "generations": 2,
    "unit_rows": 5,
    "players": {f"player_{n}": MEMBER for n in range(3)},
    "prompts": {"kind": "clerk_questions", "count": 90, "per_generation": 24, "held_out": 6},
    "game": {"kind": "answers", "samples": 2},
    "schedule": "sparta",
    "judge": "clerk",
    "loss": {"kind": "dpo", "reference": "previous"},
    "learner": {"kind": "preference", "batch_size": 8, "learning_rate": 1e-3},
    "evaluate": {
        "kind": "held_out",
        "samples": 1,
        "sets": {
            "asked": {
                "kind": "prompts",
                "prompts": {"kind": "clerk_questions", "count": 1, "test": 12},
                "judge": "clerk",
            }
        },
    },
    "max_unjudged": 1.0,
}
TIMED = {"seconds", "tokens_per_second", "checksum"}  # the last: of rows with times


def played(folder: Path, executor: object) -> Path:
    values = {**VALUES, "executor": executor}
    with new_run(recipe_loader.build(values, "test"), folder) as run:
        play_out(run)
    return folder


def records(folder: Path) -> dict[str, object]:
    """Every row of the ledger without what was timed, and the hash of all weights."""
    tables: dict[str, object] = {}
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in names.fetchall():
            if name == "meta":
                continue
            rows = db.execute(f"SELECT * FROM {name}")
            columns = [column[0] for column in rows.description]
            tables[name] = [
                {c: _untimed(v) for c, v in zip(columns, row, strict=True) if c not in TIMED}
                for row in rows
            ]
    for file in sorted((folder / "players").rglob("*.safetensors")):
        tables[str(file.relative_to(folder))] = hashlib.md5(file.read_bytes()).hexdigest()
    return tables


def _untimed(value: object) -> object:
    if isinstance(value, str) and value.startswith("{"):
        facts = json.loads(value)
        return {key: facts[key] for key in facts if key not in TIMED}
    return value


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return records(played(tmp_path_factory.mktemp("here") / "run", "local"))


@pytest.mark.long
def test_two_processes_record_what_one_does(here, tmp_path):
    assert records(played(tmp_path / "run", {"processes": 2})) == here


@pytest.mark.long
def test_peers_grade_with_workers_as_they_do_here(tmp_path):
    """By the chances of their next token, which the workers read."""
    judge = {"kind": "peers", "text": "rubric_compact"}
    values = {**VALUES, "generations": 1, "judge": judge}
    folders = []
    for executor in ("local", {"processes": 2}):
        config = recipe_loader.build({**values, "executor": executor}, "test")
        folders.append(tmp_path / f"run{len(folders)}")
        with new_run(config, folders[-1]) as run:
            play_out(run)
    here, there = map(records, folders)
    assert there["judgements"] == here["judgements"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recorded", "under_way"),
    [("0/play", "1/play"), ("0/learn/player_0", "0/learn/player_2")],
    ids=["play", "learn"],
)
def test_a_ray_cluster_of_two_nodes_that_loses_one_records_the_same(
    recorded, under_way, here, tmp_path
):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    removed: list[bool] = []

    def remove() -> None:
        while not is_recorded(tmp_path / "run", recorded):
            time.sleep(0.05)
        removed.append(is_recorded(tmp_path / "run", under_way))
        cluster.remove_node(second)

    remover = threading.Thread(target=remove, daemon=True)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        remover.start()
        executor = {"kind": "ray", "workers": 2}
        assert records(played(tmp_path / "run", executor)) == here
        assert removed == [False], "it was removed too late"
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["0/play", "1/learn/player_0"])
def test_a_driver_that_was_killed_goes_on(stage, here, tmp_path):
    """Its workers end with it."""
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({**VALUES, "executor": {"processes": 2}}))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "equipoise"]
    process = subprocess.Popen([*command, "run", str(config), "--out", str(run)])
    wait_for_record(process, run, stage)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run([*command, "resume", str(run)], check=True)
    assert records(run) == here


# -- workers, without models

VIEW = View((Message("user", "Which?"),))
UNIT = Act([Weighted(Part("m:n", {}), None)], [0], [VIEW], [0])


class Scripted:
    """Answers with the number of its orders; is lost at those that are named."""

    def __init__(self, lost: set[int]) -> None:
        self.orders = 0
        self._lost = lost
        self.closed = False

    def do(self, order: bytes) -> bytes:
        self.orders += 1
        if self.orders in self._lost:
            raise WorkerLostError("gone")
        return str(self.orders).encode()

    def close(self) -> None:
        self.closed = True


def test_a_unit_whose_worker_was_lost_is_done_again():
    worker = Scripted({1, 3})
    pool = WorkerPool(lambda i: worker, 1)
    lines = []
    pool.on_loss = lines.append
    assert [pool.submit(UNIT).result() for _ in range(2)] == [b"2", b"4"]
    assert lines == ["gone; another does its unit"] * 2
    pool.close()
    assert worker.closed


@pytest.mark.parametrize("failing", [False, True])
def test_workers_end_with_what_they_are_for(failing):
    class One(Executor):
        kind: str = "one"

        def open(self) -> WorkerPool:
            return WorkerPool(lambda i: worker, 1)

    worker = Scripted(set())
    with suppress(ZeroDivisionError), workers(One()) as pool:
        assert pool is not None
        assert pool.submit(UNIT).result() == b"1"
        assert not worker.closed
        assert 1 / (not failing)
    assert worker.closed
    with workers(Local()) as nobody:
        assert nobody is None


def test_a_worker_without_a_place_leaves_its_unit_to_others():
    class Waiting(Scripted):
        def do(self, order: bytes) -> bytes:
            time.sleep(0.01)
            raise NoRoomError

    workers = [Waiting(set()), Scripted(set())]
    pool = WorkerPool(lambda i: workers[i], 2)
    results = [pool.submit(UNIT) for _ in range(5)]
    assert {future.result() for future in results} == {b"1", b"2", b"3", b"4", b"5"}
    pool.close()


def test_workers_free_their_memory_when_what_they_opened_is_not_needed():
    """Once each, and only those that have something open."""
    seen, done = [], threading.Semaphore(0)

    class Noting(Scripted):
        def do(self, order: bytes) -> bytes:
            seen.append(type(msgspec.msgpack.decode(order, type=Order).unit))
            done.release()
            return b""

    pool = WorkerPool(lambda i: Noting(set()), 2)
    pool.release()  # nothing is open yet
    pool.submit(UNIT).result()
    pool.release()
    pool.release()
    assert done.acquire(timeout=20)
    assert done.acquire(timeout=20)
    pool.submit(UNIT).result()
    pool.close()
    assert seen == [Act, ReleaseAll, Act]


def test_what_was_not_begun_when_the_workers_were_ended_is_given_up():
    began, end = threading.Event(), threading.Event()

    class Slow(Scripted):
        def do(self, order: bytes) -> bytes:
            began.set()
            end.wait()
            raise WorkerLostError("killed")

        def close(self) -> None:
            end.set()

    pool = WorkerPool(lambda i: Slow(set()), 1)
    first, second = pool.submit(UNIT), pool.submit(UNIT)
    began.wait()
    pool.close()
    for future in (first, second):
        with pytest.raises(EquipoiseError, match=r"given up|were ended"):
            future.result(timeout=0)


def test_a_unit_that_ends_every_worker_is_given_up_and_the_next_is_done():
    worker = Scripted(set(range(1, TRIES + 1)))
    pool = WorkerPool(lambda i: worker, 1)
    with pytest.raises(EquipoiseError, match=rf"{TRIES} workers ended over it \(gone\)"):
        pool.submit(UNIT).result()
    assert pool.submit(UNIT).result() == str(TRIES + 1).encode()
    pool.close()


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ModelError("too large"), ModelError, "^too large$"),
        (ValueError("odd"), EquipoiseError, r"(?s)a worker failed:.*ValueError: odd$"),
    ],
)
def test_an_error_comes_back_as_itself_where_it_is_one_of_ours(error, raised, message):
    with pytest.raises(raised, match=message):
        failure(error).value(list)


def test_rows_are_cut_in_order_and_whole():
    rows = list(range(7))
    assert [list(part) for (part,) in cut(3, rows)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert cut(3, []) == [[[]]]


@pytest.mark.parametrize("reads", ["cat", "head -c 1"], ids=["an answer", "a lost one"])
def test_a_process_that_ends_is_lost_and_another_is_started(reads, monkeypatch):
    """A worker that answers what it is sent, or ends before it has."""
    monkeypatch.setattr(
        processes, "python_command", lambda module: ["sh", "-c", f"{reads}; exit 3"]
    )
    worker = processes._Process({})
    if reads == "cat":
        assert worker.do(b"an order") == b"an order" == worker.do(b"an order")
        first = worker._process
        assert first is not None
        assert first.poll() is None
        worker.close()
        assert first.wait(10) == -signal.SIGKILL
    else:
        for _ in range(2):
            with pytest.raises(WorkerLostError, match=r"worker process \d+ ended with exit code"):
                worker.do(b"an order")
            assert worker._process is None


@pytest.mark.long
def test_a_worker_answers_on_a_pipe_of_its_own_until_no_order_comes():
    worker = processes._Process({})
    for _ in range(2):
        done = msgspec.msgpack.decode(worker.do(b"no order"), type=Done)
        with pytest.raises(EquipoiseError, match="a worker failed"):
            done.value(list)
    process = worker._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0


def test_a_number_of_processes_is_short_for_their_executor():
    def read(value):
        return recipe_loader.build({**VALUES, "executor": value}, "test").executor

    assert read({"processes": 3}) == read({"kind": "processes", "processes": 3})
    assert read("local").open() is None
    assert short_form({"workers": 3}) == {"workers": 3}
    longer = {"kind": "ray", "processes": 3}
    assert short_form(longer) is longer
    assert short_form(["processes"]) == ["processes"]


def test_workers_leave_out_what_nobody_can_act_on():
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        UnitRunner()
        warnings.warn("is_gradient_checkpointing is deprecated", FutureWarning, stacklevel=1)
        warnings.warn("something else", FutureWarning, stacklevel=1)
    assert [str(each.message) for each in noticed] == ["something else"]


def test_an_unknown_executor_and_an_absent_cluster_are_named(monkeypatch):
    with pytest.raises(ConfigError, match=r"executor.*processes"):
        recipe_loader.build({**VALUES, "executor": "process"}, "test")
    monkeypatch.setitem(sys.modules, "ray", None)
    config = recipe_loader.build({**VALUES, "executor": "ray"}, "test")
    with pytest.raises(ConfigError, match=r"pip install 'equipoise\[ray\]'"):
        config.executor.open()


class FakeRay:
    """Ray with one actor, whose node takes a result with it, or goes before there is one."""

    class RayError(Exception):
        pass

    class RayActorError(RayError):
        pass

    class ObjectLostError(RayError):
        pass

    class ReconstructionError(ObjectLostError):
        pass

    class UnserializableError(RayError):
        pass

    def __init__(self, raised):
        self.raised, self.killed = [raised], 0
        others = dict.fromkeys(("NodeDiedError", "WorkerCrashedError", "OutOfMemoryError"))
        kinds = {name: type(name, (self.RayError,), {}) for name in others}
        self.exceptions = SimpleNamespace(
            RayError=self.RayError,
            RayActorError=self.RayActorError,
            ObjectLostError=self.ObjectLostError,
            **kinds,
        )

    def remote(self, **given):
        method = SimpleNamespace(remote=lambda *order: order)
        actor = SimpleNamespace(do=method, is_started=method)
        return lambda kind: SimpleNamespace(remote=lambda: actor)

    def wait(self, started, timeout):
        return started, []

    def get(self, order):
        if order and self.raised:
            raise self.raised.pop()
        return order[0] if order else None

    def kill(self, actor):
        self.killed += 1


def test_a_node_that_takes_its_result_with_it_is_a_lost_worker():
    """An actor's death is one error of Ray, the loss of a large result another."""
    for error in (
        FakeRay.RayActorError("The actor died.\nclass_name: A\nactor_id: f9"),
        FakeRay.ReconstructionError("Failed to retrieve object 16.\n\nTo see where"),
    ):
        ray = FakeRay(error)
        worker = RayWorker(ray, 1, 0)
        with pytest.raises(WorkerLostError) as lost:
            worker.do(b"order")
        assert str(lost.value) == f"a Ray actor ended: {str(error).splitlines()[0]}"
        assert worker.do(b"order") == b"order", "by another actor"
        assert ray.killed == 1, "the first one holds no place"
    other = RayWorker(FakeRay(FakeRay.UnserializableError("no")), 1, 0)
    with pytest.raises(FakeRay.UnserializableError):
        other.do(b"order")


def test_nodes_may_join_a_cluster_late(monkeypatch):
    """With an address, and not for ever."""
    seen = []

    def resources():
        seen.append(1)
        return {"CPU": 2 * len(seen)}

    stand_in = SimpleNamespace(
        is_initialized=lambda: True,
        cluster_resources=resources,
        remote=lambda **given: lambda kind: kind,
    )
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setattr("equipoise.runs.executors.ray_cluster.LOOK", 0.001)
    executor = {"kind": "ray", "workers": 6}
    cluster = recipe_loader.build({**VALUES, "executor": executor}, "test").executor
    with machine(ray_address="auto"):
        cluster.open().close()
        assert len(seen) == 3
        monkeypatch.setattr("equipoise.runs.executors.ray_cluster.LATE", 0.002)
        stand_in.cluster_resources = lambda: {"CPU": 5}
        with pytest.raises(ConfigError, match=r"need 6 CPUs, .* has 5 after 0\.002 s; lower"):
            cluster.open()


def test_a_ray_actor_is_given_its_cpus_and_its_gpus(monkeypatch):
    """Ray cannot be asked what it gave without a cluster: what it was asked for is noted."""
    asked = {}

    def remote(**given):
        asked.update(given)
        return lambda kind: kind

    there = SimpleNamespace(
        is_initialized=lambda: True, cluster_resources=lambda: {"CPU": 3, "GPU": 1}, remote=remote
    )
    monkeypatch.setitem(sys.modules, "ray", there)
    executor = {"kind": "ray", "workers": 1, "cpus": 3, "gpus": 1}
    pool = recipe_loader.build({**VALUES, "executor": executor}, "test").executor.open()
    pool.close()
    assert asked == {"num_cpus": 3, "num_gpus": 1}


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({"CPU": 6, "GPU": 1}, ""),
        ({"CPU": 5, "GPU": 1}, "2 workers need 6 CPUs, and the Ray cluster has 5; .*executor.cpus"),
        ({"CPU": 6, "GPU": 0.5}, "need 1 GPUs, and the Ray cluster has 0.5; .*executor.gpus"),
        ({"CPU": 6}, "need 1 GPUs, and the Ray cluster has 0; lower executor.workers or"),
    ],
)
def test_a_ray_cluster_without_room_is_refused_before_anything_waits(monkeypatch, there, words):
    stand_in = SimpleNamespace(
        is_initialized=lambda: True,
        cluster_resources=lambda: there,
        remote=lambda **given: lambda kind: kind,
    )
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    executor = {"kind": "ray", "workers": 2, "cpus": 3, "gpus": 0.5}
    cluster = recipe_loader.build({**VALUES, "executor": executor}, "test").executor
    if words:
        with pytest.raises(ConfigError, match=words):
            cluster.open()
    else:
        cluster.open().close()


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("", EquipoiseError, "did not start on this machine: The node timed out$"),
        ("auto", ConfigError, r"no Ray cluster answers at 'auto' \(The node"),
    ],
)
def test_a_ray_that_cannot_be_had_is_one_message(monkeypatch, address, kind, message):
    def init(**given):
        raise Exception("The node timed out")  # as Ray itself, of no class of its own

    stand_in = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.setattr(ray_cluster, "check_answers", lambda address: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = recipe_loader.build({**VALUES, "executor": "ray"}, "test")
    with machine(ray_address=address), pytest.raises(EquipoiseError, match=message) as error:
        config.executor.open()
    assert type(error.value) is kind


STAND_IN = """
import sys, time

def init(address, **given):
    print("a line of Ray's own")
    if address == "never":
        time.sleep(600)
    if address == "refused":
        raise Exception("Could not connect\\x1b[31m red\\nand more")
    if address == "aborts":
        import os
        os.abort()

def shutdown():
    pass
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("there", ""),
        ("never", r"nothing in 5 s"),
        ("refused", r"Could not connect\S* red"),
        ("aborts", r"a line of Ray's own"),
    ],
)
def test_a_hostile_ray_address_is_one_message(monkeypatch, tmp_path, address, reason):
    (tmp_path / "ray.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(ray_probe, "ANSWER", 5.0)
    if not reason:
        monkeypatch.setattr(ray_probe, "ANSWER", 60.0)
        ray_probe.check_answers(address)
        return
    with pytest.raises(ConfigError) as error:
        ray_probe.check_answers(address)
    message = str(error.value)
    assert re.search(rf"no Ray cluster answers at '{address}' \({reason}\)", message), message
    assert "\x1b" not in message


def test_ray_is_not_asked_where_no_address_is_named(monkeypatch):
    asked = []
    monkeypatch.setattr(ray_cluster, "check_answers", asked.append)
    begun = SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **given: None,
        cluster_resources=lambda: {"CPU": 9},
        remote=lambda **given: lambda kind: kind,
    )
    monkeypatch.setitem(sys.modules, "ray", begun)
    cluster = recipe_loader.build({**VALUES, "executor": "ray"}, "test").executor
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cluster.open().close()
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    cluster.open().close()
    with machine(ray_address="auto"):
        cluster.open().close()
    assert asked == ["10.0.0.9:6379", "auto"]


@pytest.mark.parametrize(("cores", "each"), [(5, "2"), (1, "1")])
def test_processes_share_the_cores_that_there_are(cores, each, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(processes, "_devices", list)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert Processes(processes=2)._environment(0)["OMP_NUM_THREADS"] == each
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # what is asked for stands
    assert Processes(processes=2)._environment(1)["OMP_NUM_THREADS"] == "7"
    monkeypatch.setattr(processes, "_devices", lambda: ["a", "b"])
    monkeypatch.delenv("OMP_NUM_THREADS")
    given = [Processes(processes=3)._environment(i) for i in range(3)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in given] == ["a", "b", "a"]


def test_workers_find_modules_where_this_process_does(monkeypatch):
    worker = Scripted(set())
    sent = []
    worker.do = lambda order: sent.append(order) or b""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    pool = WorkerPool(lambda i: worker, 1)
    pool.submit(UNIT).result()
    pool.close()
    assert msgspec.msgpack.decode(sent[0], type=Order).path == [os.getcwd(), *sys.path[1:]]
