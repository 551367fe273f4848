"""The one way to start a process: with a safe import path and a clean environment.

A process of ours imports nothing from the current folder before what is installed: Python gets
`-P`, and PYTHONSAFEPATH=1 makes it hold for whatever the process starts in its turn. A user's own
parts are still found, since the path of who gives the work is searched last.

The environment is that of this process, less

* the variables of another job's launcher (`FOREIGN`), which would be mistaken for its own;
* the keys of servers: every variable that a configuration read here names in `api_key_env`, for
  only this process asks them. The hub's login and what `BARE` needs stay;
* the empty entries of PYTHONPATH, which mean the current folder. Its others are the user's own.

What reads a stranger's text (math-verify) gets `BARE` alone, and so no secret of any kind.

This file is also the program that `python_command` starts. As such it runs without its package, so
it imports the standard library only.
"""

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

PIPE, DEVNULL, STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT
Process = subprocess.Popen
StillRunning = subprocess.TimeoutExpired
SAFE_PATH = "PYTHONSAFEPATH"
FOREIGN = ("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "GROUP_", "ROLE_", "LOCAL_")
FOREIGN_NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
BARE_NAMES = {"PATH", "HOME", "LANG", "LANGUAGE", "TMPDIR", "TEMP", "TMP", "TZ", "VIRTUAL_ENV"}
BARE = ("LC_", "LD_", "DYLD_", "PYTHON", "OMP_", "SYMPY_", "SYSTEM")
LOGINS = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}  # by which workers load models

_keys: set[str] = set()  # names of variables that hold keys of servers


def withhold(variable: str) -> None:
    """Leave a variable that holds a server's key out of the environments of processes."""
    _keys.add(variable)


def child_environment(*, bare: bool = False) -> dict[str, str]:
    """The environment for a process, by the rule of this module; `bare`: no more than `BARE`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if _is_bare(name)
        or not (bare or _is_foreign(name) or (name in _keys and name not in LOGINS))
    }
    if entries := kept.pop("PYTHONPATH", ""):
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, entries.split(os.pathsep)))
    return kept | {SAFE_PATH: "1"}


def _is_bare(name: str) -> bool:
    return name in BARE_NAMES or name.startswith(BARE)


def _is_foreign(name: str) -> bool:
    return name.startswith(FOREIGN) or name in FOREIGN_NAMES


def python_command(module: str, *arguments: object) -> list[str]:
    """The command that runs a module of ours, or an installed one, in a Python like this one."""
    return [sys.executable, "-P", os.path.abspath(__file__), module, *map(str, arguments)]


def start_process(
    command: Sequence[str], environment: Mapping[str, str] | None = None, **streams: Any
) -> Process[Any]:
    """Start a process in a group of its own, which Ctrl-C does not reach; it is not waited for.

    Args: environment: from `child_environment`, the default; streams: `stdin`, `stdout`, `stderr`
    and `text`, as `subprocess.Popen` takes them. Raises OSError where it cannot be started.
    """
    given = child_environment() if environment is None else environment
    own = {**given, SAFE_PATH: "1"}
    return subprocess.Popen(command, env=own, start_new_session=True, **streams)


def run_process(
    command: Sequence[str | Path], *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end, which Ctrl-C reaches too; `capture`: keep what it prints, as text.

    Raises OSError where it cannot be started.
    """
    return subprocess.run(
        command, env=child_environment(), capture_output=capture, text=True, check=False
    )


@contextmanager
def library_starts() -> Iterator[None]:
    """While a library starts processes itself, give it the clean environment.

    The current folder is an empty one, since some put it first on the import path (Ray does).
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="equipoise-") as empty, chdir(empty):
        _replace_environment(child_environment())
        try:
            yield
        finally:
            _replace_environment(before)


def _replace_environment(wanted: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def main(module: str, arguments: Sequence[str]) -> None:
    """Run a module as `python -m` would, without the current folder on the import path."""
    os.environ[SAFE_PATH] = "1"  # a launcher on another machine may not have handed it on
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:  # where the package is not installed
        sys.path.append(root)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
