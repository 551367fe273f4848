"""Settings of the processes that train together, and the command that starts them."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from equipoise.component import Settings, nearest
from equipoise.errors import ConfigError
from equipoise.system.addresses import Machine, of_the_machine
from equipoise.system.effects import effect_in
from equipoise.system.subprocesses import python_command
from equipoise.system.user_parts import may_read_files
from equipoise.system.yaml_text import parse_yaml

LAUNCH = "launch"
"""The part of a scratch folder that processes share with the one that started them."""


class Launch(Settings):
    """Settings of the processes that train together."""

    config: Annotated[dict[str, Any] | None, effect_in("accelerate")] = Field(
        None,
        description="accelerate's configuration: ddp, fsdp2, deepspeed_zero3, a YAML "
        "file, or what is in one",
    )
    num_processes: int | None = Field(
        None,
        ge=1,
        description="processes over all machines, in place of the configuration's own number",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_prefix(cls, given: Any) -> Any:
        return of_the_machine(given, {"prefix": "launch_prefix"})

    @field_validator("config", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        packaged = {
            file.name.removesuffix(".yaml"): file
            for file in (files("equipoise.learners") / "accelerate").iterdir()
        }
        file = packaged.get(value, Path(value).expanduser())
        if value not in packaged and not may_read_files():
            raise PydanticCustomError(
                "no_file", "'{name}': a run's own configuration names no file", {"name": value}
            )
        if not file.is_file():
            hint = nearest(value, list(packaged))
            raise PydanticCustomError(
                "no_file", "no such file: '{name}'; {hint}", {"name": value, "hint": hint}
            )
        try:
            return parse_yaml(file.read_text(encoding="utf-8"), value)
        except ConfigError as error:
            raise PydanticCustomError("yaml", "{error}", {"error": str(error)}) from error

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if self.config is None and self.num_processes is None:
            raise PydanticCustomError("launch", "needs a config (ddp, fsdp2, …) or num_processes")
        if not isinstance(self.processes, int) or self.processes < 1:
            raise PydanticCustomError(
                "launch", "the configuration has no num_processes; give launch.num_processes"
            )
        return self

    @property
    def processes(self) -> int:
        """The number of processes, over all machines."""
        config = self.config or {}
        return self.num_processes or config.get("num_processes", 0)

    @property
    def divides_weights(self) -> bool:
        """True if each process holds a share of the weights, and not all of them."""
        return self.accelerate().get("distributed_type") in ("FSDP", "DEEPSPEED")

    @property
    def on_accelerators(self) -> bool:
        """True if each process is to have an accelerator."""
        return self.accelerate().get("distributed_type") in ("MULTI_GPU", "FSDP", "DEEPSPEED")

    def accelerate(self) -> dict[str, Any]:
        """accelerate's configuration; ddp where none is named."""
        config = self.config
        if config is None:
            config = Launch.model_validate({"config": "ddp"}).config
        return {**(config or {}), "num_processes": self.processes}

    def command(self, folder: Path) -> list[str]:
        """The command that starts a machine's processes for the batches in `folder`."""
        launcher = python_command("accelerate.commands.launch")
        launcher += ["--config_file", str(folder / "accelerate.yaml"), "--no_python"]
        if not self.accelerate().get("main_process_port"):
            launcher += ["--main_process_port", "0"]  # 0: one that is free
        worker = python_command("equipoise.learners.training_worker", folder)
        return [*Machine.here().launch_prefix, *launcher, *worker]


def world_size() -> int:
    """The number of processes that train together, by the environment of this one."""
    return int(os.environ.get("WORLD_SIZE", "1"))
