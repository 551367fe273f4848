"""Workers on a Ray cluster: the one that `--ray-address` names, or one on this machine.

Every node needs the same packages and sees the run's folder and the models under the same paths.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from pydantic import Field, model_validator

from equipoise.errors import ConfigError, EquipoiseError, first_line
from equipoise.runs.executors.base import Executor
from equipoise.runs.executors.ray_probe import check_answers
from equipoise.runs.executors.worker_pool import NoRoomError, WorkerLostError, WorkerPool
from equipoise.system.addresses import Machine, of_the_machine
from equipoise.system.subprocesses import library_starts

LOOK = 2.0  # seconds that a unit stays with a worker that has no place yet
PATIENCE = 600.0  # seconds without a place, three times over, that end the run
LATE = 60.0  # seconds in which the nodes of a cluster with an address may still join it
# Ray's errors of a worker that is gone: with its process, with its node, or with what it had made,
# which stays on its node where it is larger than Ray sends along (100 KiB).
LOSSES = (
    "RayActorError",
    "ObjectLostError",
    "NodeDiedError",
    "WorkerCrashedError",
    "OutOfMemoryError",
)


class RayCluster(Executor):
    """Ray actors, which keep models open between units."""

    kind: Literal["ray"] = "ray"
    workers: int = Field(2, ge=1, description="actors over all nodes")
    gpus: float = Field(0, ge=0, description="GPUs of a worker, for its placement")
    cpus: float = Field(1, ge=0, description="CPUs of a worker, for its placement")

    @model_validator(mode="before")
    @classmethod
    def _without_address(cls, given: Any) -> Any:
        return of_the_machine(given, {"address": "ray_address"})

    def open(self) -> WorkerPool:
        """Actors, which start with their first unit.

        Raises ConfigError where Ray is not installed, no cluster answers, or the cluster will never
        have room for them; EquipoiseError where none can be started.
        """
        ray = _ray()
        if not ray.is_initialized():
            address = Machine.here().ray_address
            named = address or os.environ.get("RAY_ADDRESS")
            if named:
                check_answers(named)
            try:
                with library_starts():
                    ray.init(address=address, log_to_driver=False)
            except Exception as error:  # Ray has no class for it
                raise unreachable(address, error) from error
        silence(ray)
        self._check_room(ray)
        return WorkerPool(lambda i: RayWorker(ray, self.cpus, self.gpus), self.workers)

    def _check_room(self, ray: Any) -> None:
        """Raise ConfigError where the cluster has no room, also once late nodes have joined it."""
        patience = LATE if Machine.here().ray_address else 0.0
        end = time.monotonic() + patience
        while True:
            try:
                self._check_resources(ray.cluster_resources(), patience)
            except ConfigError:
                if time.monotonic() >= end:
                    raise
                time.sleep(LOOK)
            else:
                return

    def _check_resources(self, there: Mapping[str, float], patience: float) -> None:
        for name, each in (("CPU", self.cpus), ("GPU", self.gpus)):
            needed = each * self.workers
            if there.get(name, 0) < needed:
                after = f" after {patience:g} s" if patience else ""
                raise ConfigError(
                    f"executor: {self.workers} workers need {needed:g} {name}s, and "
                    f"the Ray cluster has {there.get(name, 0):g}{after}; lower "
                    f"executor.workers or executor.{name.lower()}s"
                )


def unreachable(address: str | None, error: Exception) -> EquipoiseError:
    if address is None:
        return EquipoiseError(f"executor: Ray did not start on this machine: {first_line(error)}")
    return ConfigError(f"--ray-address: no Ray cluster answers at '{address}' ({error})")


def silence(ray: Any) -> None:
    """Keep Ray from printing twenty lines of a lost node's log among ours; a run says it in one."""
    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False


def _ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ConfigError(
            "executor: 'ray' is not installed; pip install 'equipoise[ray]'"
        ) from error
    return ray


class RayWorker:
    """One actor; another is started, wherever there is room, where it ended."""

    def __init__(self, ray: Any, cpus: float, gpus: float) -> None:
        from equipoise.runs.executors.units import UnitRunner

        self._ray = ray
        self._make = ray.remote(num_cpus=cpus, num_gpus=gpus)(UnitRunner)
        self._actor: Any = None
        self._started: Any = None
        self._since = 0.0

    def do(self, order: bytes) -> bytes:
        """Hand the order over, and wait for the result."""
        try:
            self._wait_for_room()
            return self._ray.get(self._actor.do.remote(order))
        except lost_errors(self._ray) as error:
            self._give_up()
            raise WorkerLostError(f"a Ray actor ended: {first_line(error)}") from error

    def _wait_for_room(self) -> None:
        """Wait for the actor to start; NoRoomError for now, WorkerLostError after `PATIENCE`."""
        if self._actor is None:
            self._actor = self._make.remote()
            self._started = self._actor.is_started.remote()
            self._since = time.monotonic()
        if not self._ray.wait([self._started], timeout=LOOK)[0]:
            if time.monotonic() - self._since > PATIENCE:
                self._since = time.monotonic()
                raise WorkerLostError(f"the cluster had no room for {PATIENCE:g} s")
            raise NoRoomError
        self._ray.get(self._started)

    def _give_up(self) -> None:
        """Let the actor go; where only its result is gone, it lives and holds its place."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor)
        self._actor = None

    def close(self) -> None:
        """End the actor."""
        if self._actor is not None:
            self._ray.kill(self._actor)


def lost_errors(ray: Any) -> tuple[type[Exception], ...]:
    """The classes of Ray's errors that mean that a worker is gone."""
    return tuple(getattr(ray.exceptions, name) for name in LOSSES)
