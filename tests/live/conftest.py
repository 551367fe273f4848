"""vLLM servers for the live tests, in the environment that EQUIPOISE_VLLM names."""

import os
import socket
from collections.abc import Callable

import pytest

from equipoise.models.device import choose_device
from equipoise.sampling.engines import launcher
from equipoise.sampling.engines.launcher import VARIABLE, find_environment

PATIENCE = 900.0


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """serving(model, **SamplerSettings) -> start, which starts the server where it does not run, and
    returns its address; `start.folder` is where its log lies.
    """
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} names no environment with vLLM; `make live` makes one")
    python = find_environment(None)
    folders = []

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
            "patience": PATIENCE,
        }
        chosen = launcher.SamplerSettings.model_validate(given | settings)
        url = chosen.url(port)
        folder = tmp_path_factory.mktemp("sampler")
        folders.append(folder)

        def start() -> str:
            if not launcher.health(url):
                launcher.start(model, port, chosen, python, folder)
            return url

        start.folder = folder
        return start

    yield serving
    for folder in folders:
        if (folder / launcher.STATE).is_file():
            launcher.stop(folder)
