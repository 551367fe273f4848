"""vLLM servers for the live tests, in the environment that EQUIPOISE_VLLM names."""

import os
import socket
import time
from collections.abc import Callable

import httpx
import pytest

from equipoise.models.device import choose_device
from equipoise.sampling.engines.vllm_command import (
    VARIABLE,
    SamplerSettings,
    end_group,
    find_environment,
    start_vllm,
)

PATIENCE = 900.0


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """serving(model, **SamplerSettings) -> start, which starts the server where it does not run, and
    returns its address; `start.process` is its process.
    """
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} names no environment with vLLM; `make live` makes one")
    python = find_environment(None)
    started = []

    def serving(model: str, **settings) -> Callable[[], str]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        on_cpu = choose_device("auto").type == "cpu"
        given = {
            "max_length": 256,
            "dtype": "float32",
            "rank": 8,
            "rows": 16,
            "cpu": on_cpu,
            "memory": 1.0 if on_cpu else 0.5,
            "vllm": ("--enforce-eager",),
        }
        chosen = SamplerSettings.model_validate(given | settings)
        url = chosen.url(port)
        log = tmp_path_factory.mktemp("sampler") / "log"

        def start() -> str:
            if answers(url):
                return url
            with log.open("wb") as out:
                start.process = start_vllm(model, port, chosen, python, stdout=out, stderr=out)
            started.append(start.process)
            end = time.monotonic() + PATIENCE
            while not answers(url):
                text = log.read_text(errors="replace")[-2000:]
                assert start.process.poll() is None, f"vLLM ended:\n{text}"
                assert time.monotonic() < end, f"vLLM is not up:\n{text}"
                time.sleep(0.5)
            return url

        return start

    yield serving
    for process in started:
        end_group(process)


def answers(url: str) -> bool:
    """True if a server answers there."""
    try:
        return httpx.get(f"{url}/health", timeout=2.0, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
