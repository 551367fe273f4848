"""Workers on a Ray cluster: the one that `--ray-address` names, or one on this machine.

Every node needs the same packages and sees the run's folder and the models under the same paths.
"""

import time
from typing import Any, Literal

from pydantic import Field, model_validator

from equipoise.errors import ConfigError, EquipoiseError, first_line
from equipoise.runs.executors.base import Executor
from equipoise.runs.executors.worker_pool import NoRoomError, WorkerLostError, WorkerPool
from equipoise.system.addresses import Machine, of_the_machine
from equipoise.system.subprocesses import library_starts

LOOK = 2.0  # seconds that a unit stays with a worker that has no place yet
PATIENCE = 600.0  # seconds without a place, three times over, that end the run


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
            try:
                with library_starts():
                    ray.init(address=address, log_to_driver=False)
            except Exception as error:  # Ray has no class for it
                raise _unreachable(address, error) from error
        self._check_room(ray)
        return WorkerPool(lambda i: _RayWorker(ray, self.cpus, self.gpus), self.workers)

    def _check_room(self, ray: Any) -> None:
        there = ray.cluster_resources()
        for name, each in (("CPU", self.cpus), ("GPU", self.gpus)):
            needed = each * self.workers
            if there.get(name, 0) < needed:
                raise ConfigError(
                    f"executor: {self.workers} workers need {needed:g} {name}s, and "
                    f"the Ray cluster has {there.get(name, 0):g}; lower "
                    f"executor.workers or executor.{name.lower()}s"
                )


def _unreachable(address: str | None, error: Exception) -> EquipoiseError:
    if address is None:
        return EquipoiseError(f"executor: Ray did not start on this machine: {first_line(error)}")
    return ConfigError(f"--ray-address: no Ray cluster answers at '{address}' ({error})")


def _ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ConfigError(
            "executor: 'ray' is not installed; pip install 'equipoise[ray]'"
        ) from error
    return ray


class _RayWorker:
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
        except self._ray.exceptions.RayActorError as error:
            self._actor = None
            raise WorkerLostError(f"a Ray actor ended: {error}") from error

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

    def close(self) -> None:
        """End the actor."""
        if self._actor is not None:
            self._ray.kill(self._actor)
