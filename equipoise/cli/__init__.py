"""The command `equipoise`: one file per verb. A verb imports what it needs when it
runs; `--help` loads no torch.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from importlib import import_module
from types import FrameType

import typer

from equipoise.component import added, imported
from equipoise.errors import DiskFull, EquipoiseError, UserError

EXTRAS = {  # extra -> the packages that it brings and that a part may find missing
    "train": (
        "torch",
        "transformers",
        "accelerate",
        "peft",
        "datasets",
        "tokenizers",
        "safetensors",
    ),
    "endpoints": ("openai",),
    "serve": ("starlette", "uvicorn"),
}
VERBS = (
    "run",
    "resume",
    "status",
    "report",
    "plan",
    "recipes",
    "rate",
    "judge",
    "export",
    "new_model",
    "sft",
    "traces",
    "serve",
    "chat",
    "doctor",
)


def app() -> typer.Typer:
    """The command with all its verbs."""
    command = typer.Typer(
        help="Align language models by letting them play: run a recipe, then read its report.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for verb in VERBS:
        command.command(verb.replace("_", "-"))(
            vars(import_module(f"equipoise.cli.{verb}"))[verb]
        )
    for verb, path in added("COMMANDS").items():
        command.command(verb)(imported(path))
    return command


def main() -> None:
    """Run the command. An error of ours is one message on standard error and its exit
    code, without a traceback.
    """
    os.environ.setdefault(
        "OMP_WAIT_POLICY", "PASSIVE"
    )  # threads that wait leave the cores to others
    # PEFT asks transformers in a way that transformers will drop; nobody who runs a
    # recipe can act on it.
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing.*", FutureWarning)
    signal.signal(signal.SIGTERM, _interrupt)
    sys.path.insert(0, os.getcwd())  # a user's own parts are named by import path
    try:
        app()()
    except EquipoiseError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        extra = next(
            (extra for extra, packages in EXTRAS.items() if error.name in packages),
            None,
        )
        if extra is None:
            raise
        _fail(
            f"this needs the package '{error.name}'; pip install 'equipoise[{extra}]'",
            UserError.exit_code,
        )
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        _fail(
            f"{error.filename or 'disk'}: cannot write ({error.strerror}); free some space",
            DiskFull.exit_code,
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _fail(message: str, code: int) -> None:
    typer.echo(f"error: {message}", err=True)
    sys.exit(code)
