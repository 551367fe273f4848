"""A vLLM server as a process of its own: started with what a run needs of it, found again by its
folder, stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from equipoise.errors import ConfigError, ModelError, RunError
from equipoise.models.adapters import resolve

STATE = "sampler.json"
LOG = "sampler.log"
BASE = "base"
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # those that vLLM takes
TAIL = 15  # lines of the log that a message repeats
LOOK = 0.5  # seconds between two looks at whether the server is up, or gone
GRACE = 30.0  # seconds to end by itself


@dataclass(frozen=True)
class ServerOptions:
    """How vLLM is started.

    `adapters` of at most `rank` are kept at once; `rows` are answered side by side; `memory` is the
    share of an accelerator's memory, and on CPUs (`cpu`) the gigabytes of the cache. `more` are
    further arguments of `vllm serve`.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    max_length: int = 2048
    dtype: str = "auto"
    rank: int = 16
    adapters: int = 8
    rows: int = 256
    memory: float = 0.9
    cpu: bool = False
    sleep: bool = False
    more: Sequence[str] = ()

    def command(self) -> list[str]:
        """The arguments of `vllm`.

        Raises ConfigError for a rank that vLLM has not, and for CPUs that are to sleep.
        """
        rank = next((rank for rank in RANKS if rank >= self.rank), None)
        if rank is None:
            raise ConfigError(f"--rank {self.rank}: vLLM takes at most {RANKS[-1]}")
        if self.cpu and self.sleep:
            raise ConfigError("--sleep: vLLM on CPUs does not sleep")
        settings: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
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
            settings["gpu-memory-utilization"] = self.memory
        named = [text for k, v in settings.items() for text in (f"--{k}", str(v))]
        flags = ["--enable-lora", *(["--enable-sleep-mode"] if self.sleep else [])]
        return ["serve", resolve(self.model), *named, *flags, *self.more]

    def environment(self) -> dict[str, str]:
        """What is set for the process, beside what is set already."""
        own = {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_SERVER_DEV_MODE": "1",  # it tells its settings, and may sleep
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        if self.cpu:
            own["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, round(self.memory)))
        return own

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True)
class ServerState:
    """A server that was started: its process, its address, its command."""

    pid: int
    url: str
    model: str
    command: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> ServerState:
        """The state in the server's folder. Raises RunError where there is none."""
        try:
            return cls(**json.loads((folder / STATE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise RunError(
                f"{folder}: no server was started from here ({STATE} is missing)"
            ) from error

    def is_alive(self) -> bool:
        """Whether its process is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return not _is_zombie(self.pid)


def start(options: ServerOptions, python: Path, folder: Path, patience: float) -> ServerState:
    """Start vLLM and wait until it answers; its log is in `folder`.

    Raises RunError where one is running from this folder, ModelError with the end of its log where
    it ends by itself or is not up after `patience` seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / STATE).is_file() and ServerState.read(folder).is_alive():
        raise RunError(f"{folder}: its server is running; stop it first")
    if health(options.url):
        raise RunError(f"{options.url}: a server answers there; choose another --port")
    command = [str(python.parent / "vllm"), *options.command()]
    process = _spawned(command, options.environment(), folder / LOG)
    state = ServerState(process.pid, options.url, options.model, command)
    draft = folder / f".{STATE}"
    draft.write_text(json.dumps(asdict(state), indent=2), encoding="utf-8")
    draft.rename(folder / STATE)
    began = time.monotonic()
    try:
        while not health(options.url):
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
    """End the server that was started from this folder, with all its processes; whether it was
    running. Raises RunError where none was started.
    """
    state = ServerState.read(folder)
    running = state.is_alive()
    if running:
        _end(state, signal.SIGTERM)
        began = time.monotonic()
        while state.is_alive() and time.monotonic() - began < GRACE:
            time.sleep(LOOK)
        if state.is_alive():
            _end(state, signal.SIGKILL)
    (folder / STATE).unlink()
    return running


def status(folder: Path) -> dict[str, Any]:
    """Whether the server runs and answers, its version, and what it serves."""
    state = ServerState.read(folder)
    facts: dict[str, Any] = {
        "url": state.url,
        "model": state.model,
        "pid": state.pid,
        "running": state.is_alive(),
        "answers": health(state.url),
    }
    if facts["answers"]:
        facts["version"] = _get(f"{state.url}/version")["version"]
        cards = _get(f"{state.url}/v1/models")["data"]
        facts["serves"] = [card["id"] for card in cards]
    return facts


def health(url: str) -> bool:
    """Whether a server answers there."""
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


def _spawned(command: Sequence[str], own: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """The process, in a session of its own: it outlives the command that started it."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(own) | dict(os.environ),
            start_new_session=True,
        )


def _end(state: ServerState, number: signal.Signals) -> None:
    """A signal for the server's process group, which is its own."""
    try:
        os.killpg(state.pid, number)
    except ProcessLookupError:
        return


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and only waits for its parent to look."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "Z"


def _tail(folder: Path) -> str:
    lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-TAIL:])
