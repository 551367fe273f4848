"""The command `equipoise`: one file per verb.

A verb imports what it needs when it runs, so that `--help` is fast and loads no torch.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from equipoise import __version__
from equipoise.component import added, imported
from equipoise.errors import DiskFull, EquipoiseError, Stopped, UserError
from equipoise.models.quiet import ignore_known_warnings

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
    "check",
    "report",
    "evaluate",
    "best_response",
    "import_scores",
    "plan",
    "recipes",
    "rate",
    "judge",
    "export",
    "merge",
    "new_model",
    "sft",
    "traces",
    "serve",
    "chat",
    "vote",
    "play",
    "watch",
    "sampler",
    "doctor",
)
DISK_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
FORBIDDEN = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
)


class VerbGroup(TyperGroup):
    """Verbs, of which some have two words: `export attacks` stands beside `export`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that the arguments begin with, and the rest of them."""
        two_words = " ".join(args[:2])
        if two_words in self.commands:
            args = [two_words, *args[2:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """What the verb returns. Raises Stopped on Ctrl-C and SIGTERM."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's
            raise
        except KeyboardInterrupt:
            raise Stopped("stopped") from None


def app() -> typer.Typer:
    """The command with all its verbs, those of environments included."""
    command = typer.Typer(
        cls=VerbGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    command.callback()(equipoise)
    for verb in VERBS:
        module = import_module(f"equipoise.cli.{verb}")
        command.command(verb.replace("_", "-"))(vars(module)[verb])
    for verb, path in added("COMMANDS").items():
        command.command(verb)(imported(path))
    return command


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


def equipoise(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="print the version and exit"
        ),
    ] = False,
) -> None:
    """Align language models by letting them play games: run a recipe, then read its report."""


def main() -> None:
    """Run the command.

    An error of ours is one message on standard error and its exit code, without a traceback.
    """
    # Threads that wait should leave the cores to others.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    ignore_known_warnings()
    try:
        app()()
    except EquipoiseError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        extra = _extra_with(error.name)
        if extra is None:
            raise
        _fail(
            f"this needs the package '{error.name}'; pip install 'equipoise[{extra}]'",
            UserError.exit_code,
        )
    except KeyboardInterrupt:
        _fail("stopped", Stopped.exit_code)
    except OSError as error:
        place = error.filename or "disk"
        if error.errno in DISK_FULL:
            _fail(f"{place}: cannot write ({error.strerror}); free some space", DiskFull.exit_code)
        if error.errno in FORBIDDEN and error.filename:
            _fail(f"{place}: cannot be read or written ({error.strerror})", UserError.exit_code)
        raise


def _extra_with(package: str | None) -> str | None:
    """The extra of ours that brings a package."""
    for extra, packages in EXTRAS.items():
        if package in packages:
            return extra
    return None


def _fail(message: str, code: int) -> None:
    typer.echo(f"error: {message}", err=True)
    sys.exit(code)
