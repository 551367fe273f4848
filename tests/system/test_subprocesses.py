"""Every process starts in one way: nothing of the current folder runs in it before what is
installed, and no key reaches it. What belongs to the machine comes from whoever starts a run.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from pydantic import ValidationError
from small_runs import FINITE, SMALL, settings

import equipoise
from equipoise.errors import ConfigError
from equipoise.evaluation.harnesses.lm_eval_harness import LmEval
from equipoise.judges.math_equality import Checker
from equipoise.learners.launch import Launch
from equipoise.learners.process_group import ProcessGroup
from equipoise.players.endpoint_settings import EndpointSettings
from equipoise.runs.executors.processes import Processes
from equipoise.runs.executors.ray_cluster import RayCluster
from equipoise.runs.executors.units import Done, ReleaseAll
from equipoise.runs.executors.worker_pool import WorkerPool
from equipoise.system import command_options
from equipoise.system.addresses import VARIABLES, Machine, machine
from equipoise.system.subprocesses import (
    PIPE,
    child_environment,
    library_starts,
    python_command,
    start_process,
)

PACKAGE = Path(equipoise.__file__).parent
STARTS = {"subprocess", "multiprocessing", "pty", "webbrowser"}  # modules that start processes
OF_OS = ("exec", "spawn", "posix_spawn", "fork", "system", "popen", "startfile")
MAY_START = re.compile(
    r"subprocess|multiprocessing|\bpty\b|webbrowser|ProcessPool|os as|from os |"
    rf"os\.({'|'.join(OF_OS)})"
)
NAMES = ("msgspec", "numpy", "torch", "accelerate", "yaml", "runpy", "lm_eval")
NAMES += ("sitecustomize", "usercustomize")
HOSTILE = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
raise ImportError("of the current folder")
"""


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A current folder with modules under the names of installed ones."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(folder)
    # A last colon means the current folder, as in PYTHONPATH=$MINE:$UNSET.
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")]), ""]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return folder


def is_done(pool: WorkerPool) -> bool:
    """Whether a worker has started, imported what it needs, and done a unit."""
    answer = msgspec.msgpack.decode(pool.submit(ReleaseAll()).result(), type=Done)
    return not answer.error


def starting(text: str) -> list[str]:
    """What in a file's text may start a process."""
    found = []
    for node in ast.walk(ast.parse(text)) if MAY_START.search(text) else ():
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.partition(".")[0] in STARTS]
            found += [a.name for a in node.names if a.name == "os" and a.asname]
        elif isinstance(node, ast.ImportFrom):
            names = [a.name for a in node.names]
            if (node.module or "").partition(".")[0] in STARTS:
                found.append(str(node.module))
            if node.module == "os":
                found += [name for name in names if name.startswith(OF_OS)]
            found += [n for n in names if n == "ProcessPoolExecutor" or "create_subprocess" in n]
        elif isinstance(node, ast.Attribute):
            of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            name = node.attr
            if (of_os and name.startswith(OF_OS)) or name in (
                "ProcessPoolExecutor",
                "subprocess_exec",
                "subprocess_shell",
                "create_subprocess_exec",
                "create_subprocess_shell",
            ):
                found.append(name)
        elif isinstance(node, ast.Constant) and node.value in STARTS:  # for import_module
            found.append(str(node.value))
    return found


def test_no_other_file_starts_a_process():
    by = {
        str(path.relative_to(PACKAGE)): found
        for path in sorted(PACKAGE.rglob("*.py"))
        if (found := starting(path.read_text()))
    }
    assert by == {"system/subprocesses.py": ["subprocess"]}


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess",
        "from multiprocessing.pool import Pool",
        "import os; os.execvp('a', [])",
        "from os import system",
        "import os as o",
        "import asyncio; asyncio.create_subprocess_exec('a')",
        "import_module('subprocess')",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_another_start_would_be_found(text):
    assert starting(text)


# -- the import path


@pytest.mark.long
def test_what_a_process_or_its_own_child_imports_is_what_is_installed(hostile):
    """Also where a library starts `python -c` itself, as vLLM and multiprocessing do."""
    inner = "import msgspec, yaml; print(msgspec.__file__, yaml.__file__)"
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    for command in ([sys.executable, "-c", inner], [sys.executable, "-c", text]):
        printed, _ = start_process(command, stdout=PIPE, text=True).communicate()
        assert printed.count("site-packages") == 2
    assert not (hostile / "executed").exists()


@pytest.mark.long
def test_workers_launcher_ranks_and_helpers_run_nothing_of_the_current_folder(hostile, tmp_path):
    pool = Processes(processes=1).open()
    try:
        assert is_done(pool)
    finally:
        pool.close()
    with Checker(5) as checker:
        assert checker.equal("1/2", "0.5") is True
    with pytest.raises(ConfigError, match="not installed"):
        LmEval.model_validate({"tasks": ["a"], "python": sys.executable}).prepare()
    launch = Launch.model_validate({"num_processes": 2})
    with ProcessGroup(launch, tmp_path / "group") as group:
        group.close()  # an order that all ranks read, once they have imported everything
        assert group._process.returncode == 0
    assert not (hostile / "executed").exists()


@pytest.mark.slow
def test_rays_actors_run_nothing_of_the_current_folder(hostile):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pool = RayCluster.model_validate({"workers": 1}).open()
    try:
        assert is_done(pool)
    finally:
        pool.close()
        ray.shutdown()
    assert not (hostile / "executed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("start", ["script", "module"])
def test_a_run_of_many_processes_runs_nothing_of_the_current_folder(hostile, start):
    script = Path(sys.executable).with_name("equipoise")
    if start == "script" and not script.exists():
        pytest.skip("the package is not installed here")
    given = settings(executor="{processes: 1}", learner__launch="{num_processes: 2}")
    done = subprocess.run(
        [
            *([script] if start == "script" else [sys.executable, "-P", "-m", "equipoise"]),
            *("run", "quickstart", *SMALL, *given, "--out", "run"),
        ],
        env={**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"].rstrip(os.pathsep)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (hostile / "executed").exists()


@pytest.mark.long
def test_a_module_of_ours_is_found_from_anywhere_and_knows_its_arguments(tmp_path, monkeypatch):
    """Where no path names the package, too; its own children do not look around either."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command = python_command("equipoise.judges.math_equality", "not a number")
    process = start_process(command, stdout=PIPE, stderr=PIPE, text=True)
    assert "could not convert string to float: 'not a number'" in process.communicate()[1]


# -- the environment


def test_a_process_gets_no_key_no_launchers_variables_and_no_current_folder(monkeypatch):
    monkeypatch.setenv("SOME_SERVICE", "secret")
    monkeypatch.setenv("HF_TOKEN", "a login")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "/mine", ""]))
    monkeypatch.setenv("EQUIPOISE_PROXY", "http://proxy:3128")
    assert child_environment()["SOME_SERVICE"] == "secret"  # it is not known to be a key
    for name in ("SOME_SERVICE", "HF_TOKEN", "PATH"):
        key_is(name)
    given = child_environment()
    assert not {"SOME_SERVICE", "RANK", "LOCAL_RANK", "ACCELERATE_USE_FSDP"} & given.keys()
    assert given["PATH"] == os.environ["PATH"]
    assert given["HF_TOKEN"] == "a login"
    assert given["PYTHONPATH"] == "/mine"
    assert given["PYTHONSAFEPATH"] == "1"
    assert given["CUDA_VISIBLE_DEVICES"] == "1"
    assert given["EQUIPOISE_PROXY"] == "http://proxy:3128"
    bare = child_environment(bare=True)
    assert bare.keys() >= {"PATH", "PYTHONPATH", "PYTHONSAFEPATH"}
    assert not {"HF_TOKEN", "EQUIPOISE_PROXY", "SOME_SERVICE"} & bare.keys()


def key_is(name: str) -> None:
    """A configuration names the variable as a key's."""
    from equipoise.players.base import Player

    server = {"kind": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    Player.build({**server, "api_key_env": name})


def test_what_a_library_starts_gets_the_same_and_no_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "1")
    (tmp_path / "torch.py").touch()
    before = dict(os.environ)
    with library_starts():
        assert not list(Path.cwd().iterdir())
        assert dict(os.environ) == child_environment()
        assert "RANK" not in os.environ
    assert dict(os.environ) == before
    assert Path.cwd() == tmp_path


# -- what belongs to the machine


def test_the_machine_is_said_by_options_variables_and_arguments(command, monkeypatch):
    seen: list[Machine] = []
    monkeypatch.setattr("equipoise.api.functions.run", lambda *_, **__: seen.append(Machine.here()))
    monkeypatch.setattr("equipoise.cli.run.print_run", lambda *_: None)
    monkeypatch.setenv("EQUIPOISE_RAY_ADDRESS", "auto")
    prefix = "srun --overlap --comment='two words'"
    assert command("run", "quickstart", "--launch-prefix", prefix, "--proxy", "environment")
    assert seen == [Machine(("srun", "--overlap", "--comment=two words"), "auto", None, True)]
    assert Machine.here() == Machine(ray_address="auto")  # the options end with the command
    with machine(proxy="http://proxy:3128"):
        assert Machine.here() == Machine(ray_address="auto", proxy="http://proxy:3128")
        assert child_environment()["EQUIPOISE_PROXY"] == "http://proxy:3128"
    options = command_options.machine_options.__annotations__
    assert VARIABLES.keys() == options.keys() - {"return"}
    assert {name: get_args(options[name])[1].envvar for name in VARIABLES} == VARIABLES


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--launch-prefix", "'a", "--launch-prefix or EQUIPOISE_LAUNCH_PREFIX: No closing"),
        ("--proxy", "localhost:3128", "--proxy or EQUIPOISE_PROXY: must begin with http"),
        ("--proxy", "http://me:secret@proxy:3128", "must hold no password"),
    ],
)
def test_a_faulty_option_is_one_message(command, option, value, message):
    done = command("run", "quickstart", option, value)
    assert done.code == 2
    assert message in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("kind", "given", "key", "option"),
    [
        (Launch, {"num_processes": 2}, {"prefix": ["touch", "executed"]}, "launch-prefix"),
        (RayCluster, {}, {"address": "ray://elsewhere:1"}, "ray-address"),
        (EndpointSettings, {}, {"proxy": "http://elsewhere"}, "proxy"),
        (EndpointSettings, {}, {"trust_env": True}, "proxy"),
    ],
)
def test_a_configuration_that_names_the_machine_says_where_it_goes(kind, given, key, option):
    variable = f"EQUIPOISE_{option.upper().replace('-', '_')}"
    with pytest.raises(ValidationError, match=rf"'{next(iter(key))}' .*--{option}.*{variable}"):
        kind.model_validate({**given, **key})


def test_an_older_configuration_that_says_nothing_of_the_machine_is_read():
    old = Launch.model_validate({"num_processes": 2, "prefix": []})
    assert old == Launch.model_validate({"num_processes": 2})
    assert RayCluster.model_validate({"address": None}) == RayCluster.model_validate({})


@pytest.mark.long
def test_a_strangers_run_that_names_a_cluster_is_read_and_not_played(command, tmp_path):
    """A run of an older version, or of somebody who hopes that it is one."""
    run = tmp_path / "run"
    assert command("run", *FINITE, "--out", run).code == 0
    config = run / "config.yaml"
    named = "executor:\n  kind: ray\n  address: ray://elsewhere:1\n"
    config.write_text(config.read_text().replace("executor:\n  kind: local\n", named))
    assert "ray://elsewhere" in config.read_text()
    assert command("status", run).code == 0
    done = command("resume", run, "--trust")
    assert done.code == 2
    assert "'address' is the machine's" in done.err
