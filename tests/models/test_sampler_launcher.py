"""Starting, finding and stopping an engine's server, with a small server in vLLM's place."""

import os
import re
import signal
import socket
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from equipoise.errors import ConfigError, ModelError, RunError
from equipoise.models.samplers import launcher
from equipoise.models.samplers.launcher import UNFINISHED, VARIABLE, find_environment, main

SERVER = f"""#!{sys.executable}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
PAGES = {{"/health": "", "/version": {{"version": "0"}}, "/v1/models": {{"data": [{{"id": "base"}}]}}}}

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        text = json.dumps(PAGES[self.path]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

if "--fail" in sys.argv:
    sys.exit("no room for the cache")
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.fixture
def environment(tmp_path) -> Path:
    """A folder that looks like vLLM's environment; its `vllm` is a small server."""
    home = tmp_path / "environment" / "bin"
    home.mkdir(parents=True)
    (home / "python").symlink_to(sys.executable)
    (home / "vllm").write_text(SERVER)
    (home / "vllm").chmod(0o755)
    return home.parent


def options(**more) -> launcher.SamplerSettings:
    return launcher.SamplerSettings.model_validate({"patience": 60, **more})


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_server_is_told_all_that_a_run_needs():
    command = options(rank=9, sleep=True, vllm=["--enforce-eager"]).command("builtin", 8000)
    settings = dict(pairwise(command))
    assert command[0] == "serve" and Path(command[1]).is_dir()
    assert settings["--logprobs-mode"] == "processed_logprobs"
    assert settings["--max-lora-rank"] == "16"  # the next that vLLM takes
    assert {"--enable-lora", "--enable-sleep-mode", "--enforce-eager"} <= set(command)
    own = options().variables()
    assert own["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == own["VLLM_NO_USAGE_STATS"] == "1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"rank": 513}, "at most 512"), ({"cpu": True, "sleep": True}, "does not sleep")],
)
def test_what_vllm_cannot_do_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        options(**settings).command("builtin", 8000)


def test_an_environment_is_found_or_asked_for(environment, tmp_path, monkeypatch):
    assert find_environment(environment) == environment / "bin" / "python"
    monkeypatch.setenv(VARIABLE, str(environment))
    assert find_environment(None) == environment / "bin" / "python"
    with pytest.raises(ConfigError, match="--install"):
        find_environment(tmp_path)


def test_an_environment_whose_making_did_not_end_is_not_taken_for_whole(environment):
    (environment / UNFINISHED).touch()
    with pytest.raises(ConfigError, match="did not end; --install goes on"):
        find_environment(environment)
    (environment / UNFINISHED).unlink()
    find_environment(environment)


def test_an_environment_that_cannot_be_made_is_one_message(tmp_path, capsys):
    broken = tmp_path / "python"  # cannot make environments, as where venv is not installed
    broken.write_text("#!/bin/sh\necho reading the options\necho No module named $3 >&2; exit 1\n")
    broken.chmod(0o755)
    for interpreter, why in (
        (tmp_path / "none", r"cannot be started \(No such file"),
        (broken, r"-m venv .*` ended with:\nreading the options\nNo module named venv$"),
    ):
        with pytest.raises(SystemExit) as end:
            main([str(tmp_path / "made"), "vllm", str(interpreter)])
        assert end.value.code == 2
        told = capsys.readouterr().err
        assert re.match(r"error: vLLM's environment was not made", told)
        assert re.search(why, told.rstrip())


def test_nothing_was_started_here(tmp_path):
    with pytest.raises(RunError, match="no server was started from here"):
        launcher.stop(tmp_path)


@pytest.mark.long
def test_a_server_is_started_looked_at_killed_and_stopped(environment, tmp_path):
    python, folder = find_environment(environment), tmp_path / "s"
    start = partial(launcher.start, "builtin", free_port(), options(), python)
    state = start(folder)
    facts = launcher.status(folder)
    assert facts["running"] and facts["answers"] and facts["serves"] == ["base"]
    with pytest.raises(RunError, match="is running"):
        start(folder)
    with pytest.raises(RunError, match="a server answers there"):
        start(tmp_path / "other")
    os.killpg(state.pid, signal.SIGKILL)
    while launcher.health(state.url):
        pass
    start(folder)  # where the last one died
    assert launcher.stop(folder) and not launcher.health(state.url)


@pytest.mark.long
def test_a_server_that_ends_says_why(environment, tmp_path):
    with pytest.raises(ModelError, match="no room for the cache"):
        python = find_environment(environment)
        launcher.start("builtin", free_port(), options(vllm=["--fail"]), python, tmp_path)
    assert not (tmp_path / launcher.STATE).exists()
