"""The command `equipoise`: thin doors, a file a verb, imported when it is called.

So `--help` is fast and loads no torch. Games add verbs by `COMMANDS` of their `plugin.py`.
"""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from traceback import extract_tb, format_exception
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from equipoise import __version__
from equipoise.cli.help_page import WIDTH, PlainGroup, VerbCommand
from equipoise.errors import (
    DISK_FULL,
    DiskFull,
    EquipoiseError,
    Stopped,
    UserError,
    first_line,
    out_of_memory,
    shorten,
)
from equipoise.models.progress import ignore_known_warnings, no_foreign_bars
from equipoise.system.command_options import machine_options, say
from equipoise.system.packaged_recipes import recipe_descriptions
from equipoise.system.plugins import plugin_table

TRAINING = ("torch", "transformers", "accelerate", "peft", "datasets", "tokenizers", "safetensors")
EXTRAS = {  # extra -> the packages that it brings and that a part may find missing
    "train": TRAINING,
    "endpoints": ("openai",),
    "serve": ("starlette", "uvicorn"),
}
GROUPS = {  # group of `--help` -> verb -> the first line of its help
    "Train": {
        "init": "Write your first recipe: it tries your data, judge and model first.",
        "rows": "Show rows of data as a model will see them, and what is left out.",
        "recipes": "List the packaged recipes, or show how one of them differs from its paper.",
        "plan": "Say what a run would do, and estimate its memory, time and cost.",
        "run": "Run a recipe: play matches, train the learners, write a report.",
        "resume": "Continue a run that was stopped, or make it longer.",
        "sft": "Fine-tune a model on answers.",
        "warm-start": "Teach a model what a game needs before it begins.",
        "guard": "Teach a classifier which requests are harmful, and say what it is worth.",
    },
    "Measure": {
        "status": "Show how far a run is and what it has measured.",
        "report": "Write the run's report, one HTML file that works offline.",
        "evaluate": "Measure players on named sets or by a harness, and record the scores.",
        "compare": "Compare runs and models prompt by prompt: differences, ranking, a page.",
        "best-response": "Train an exploiter against a frozen player, to bound its exploitability.",
        "rate": "Rate a run's players again from its records, by another method or judge.",
        "judge": "Let another judge score the recorded matches of a run.",
        "attack-judge": "Attack a judge before anything is trained on it.",
    },
    "Share": {
        "export": "Export every record of a run to Parquet.",
        "merge": "Merge a generation that is an adapter into its base model.",
        "import-scores": "Add scores that another program measured to a run.",
        "import-matches": "Make a run from matches that other programs played and judged.",
    },
    "Serve": {
        "serve": "Serve players or a model to any OpenAI client.",
        "chat": "Talk with a player or a model.",
        "vote": "Let people vote on answers of a run's players.",
        "play": "Play a game against a run's players yourself.",
        "sampler": "Start vLLM with the flags that a run's sampler needs.",
    },
    "Repair": {
        "doctor": "Check what this machine has, and that the parts work on it.",
        "check": "Check a run's folder for damage, and say what can be repaired.",
    },
}
VERBS = {verb: text for verbs in GROUPS.values() for verb, text in verbs.items()}
# Verb -> the options of `machine_options` that it has. Verbs that train start workers and a
# learner's processes; all of these ask endpoints.
TRAINS = ("launch_prefix", "ray_address", "proxy")
ASKS = ("proxy",)
MACHINE = {
    "init": ASKS,
    "run": TRAINS,
    "resume": TRAINS,
    "evaluate": ASKS,
    "compare": ASKS,
    "judge": ASKS,
    "best-response": TRAINS,
    "play": ASKS,
}
FILES = {
    "doctor": "check",
    "init": "recipes",
    "resume": "run",
    "report": "status",
    "import-scores": "evaluate",
    "judge": "rate",
    "best-response": "run",
    "sft": "model_verbs",
    "warm-start": "model_verbs",
    "guard": "model_verbs",
    "merge": "model_verbs",
    "vote": "play",
}  # verbs in another's file
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # typer's own, or click's in older versions
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


class GameGroup(PlainGroup):
    """The verbs of one game, imported when they are called or listed."""

    def __init__(self, game: str, paths: dict[str, str]) -> None:
        """`paths` are verb -> "module:function"."""
        text = f"Commands for {game} runs: {', '.join(paths)}."
        super().__init__(name=game, help=text, rich_help_panel="Games", rich_markup_mode=None)
        self.no_args_is_help = True
        self.paths = paths
        self.commands = dict.fromkeys(paths, TyperCommand(game))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb, imported; None where there is none of this name."""
        if cmd_name not in self.paths:
            return None
        module, _, function = self.paths[cmd_name].partition(":")
        return command_of(cmd_name, getattr(import_module(module), function), ASKS)


class VerbGroup(PlainGroup):
    """All verbs; a verb is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for group, verbs in GROUPS.items():
            for verb, text in verbs.items():
                self.add_command(TyperCommand(verb, help=text, rich_help_panel=group))
        self.games = {
            game: GameGroup(game, paths) for game, paths in plugin_table("COMMANDS").items()
        }
        self.commands.update(self.games)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """(the verb's name, the verb, the rest of the arguments)."""
        for name, game in self.games.items():
            if args[0] in game.paths:
                ctx.fail(f"No such command '{args[0]}'. Did you mean '{name} {args[0]}'?")
        meant = "" if args[0] in self.commands else verb_in(args[0])
        if meant:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        name, command, rest = super().resolve_command(ctx, args)
        if name in VERBS:
            home = f"equipoise.cli.{FILES.get(name, name).replace('-', '_')}"
            verb = vars(import_module(home))[name.replace("-", "_")]
            command = command_of(name, verb, MACHINE.get(name, ()))
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; a fault of the command line says what to write instead."""
        try:
            return super().invoke(ctx)
        except typer.Abort as stop:  # Ctrl-C at a question, which typer tells as an error
            raise KeyboardInterrupt from stop
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's
            raise
        except USAGE_ERROR as error:
            explain_error(error, sys.argv[1:])
            raise


def verb_in(name: str) -> str:
    """A hint for a name that is no verb; "" where nothing is known."""
    if name.endswith((".yaml", ".yml")) or name in recipe_descriptions():
        return f"run {name}"
    if name.startswith("-"):
        return ""
    from equipoise.runs.suggestions import verb_called

    return verb_called(name)


def explain_error(error: Any, given: list[str]) -> None:
    """Add to a fault of a command line what to write for a setting that was given otherwise."""
    if error.ctx is None or all(option.name != "set" for option in error.ctx.command.params):
        return
    name = getattr(error, "option_name", "")
    if not name and not error.message.startswith("Got unexpected extra argument"):
        return
    hint = "A setting is given as -s KEY=VALUE"
    if error.ctx.info_name in ("run", "plan"):
        from equipoise.runs.recipe_loader import suggest_option

        hint = suggest_option(name, given) or hint
    elif not name:
        from equipoise.runs.suggestions import suggest_arguments

        hint = suggest_arguments(given) or hint
    error.message = f"{error.message.rstrip('.')}. {hint}."
    error.possibilities = None


def command_of(name: str, verb: Callable[..., None], machine: Sequence[str] = ()) -> Any:
    """The command that typer makes of a function, with these options of the machine."""
    command = plain_command(name, verb)
    if machine:
        options = plain_command(name, machine_options).params
        command.params += [option for option in options if option.name in machine]
    return command


def plain_command(name: str, verb: Callable[..., None]) -> Any:
    """The command that typer makes of a function."""
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=VerbCommand)(verb)
    return typer.main.get_command(single)


def app() -> typer.Typer:
    """The command with all its verbs, those of games included."""
    command = typer.Typer(
        cls=VerbGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    )
    command.callback()(equipoise)
    return command


def print_version(wanted: bool) -> None:
    """Print the version, and end."""
    if wanted:
        say(f"equipoise {__version__}")
        raise typer.Exit


def equipoise(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="print the version and exit"
        ),
    ] = False,
) -> None:
    """Align language models by letting them play games: run a recipe, then read its report."""


def main() -> None:
    """Run the command; an error of ours is one message on standard error and its exit code."""
    # Threads that wait should leave the cores to others.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    ignore_known_warnings()
    no_foreign_bars()
    sys.excepthook = show_traceback
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # of bytes in another encoding
    try:
        app()()
    except EquipoiseError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        extra = extra_with(error.name)
        if extra is None:
            raise
        _fail(
            f"this needs the package '{error.name}'; pip install 'equipoise[{extra}]'",
            UserError.exit_code,
        )
    except KeyboardInterrupt:
        _fail("stopped", Stopped.exit_code)
    except SystemExit as end:
        if end.code == Stopped.exit_code:  # what typer makes of Ctrl-C, without a word
            _fail("stopped", Stopped.exit_code)
        raise
    except (MemoryError, ImportError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        _fail_of_memory(error)
    except OSError as error:
        if out_of_memory(error):  # a library that could not be mapped
            _fail_of_memory(error)
        place = shorten(str(error.filename or unnamed_place(error)))
        if error.errno in DISK_FULL:
            if not error.filename:
                drop_unwritten_output()
            _fail(f"{place}: cannot write ({error.strerror}); free some space", DiskFull.exit_code)
        if error.errno in DENIED and error.filename:
            _fail(f"{place}: cannot be read or written ({error.strerror})", UserError.exit_code)
        raise


def _fail_of_memory(error: BaseException) -> NoReturn:
    _fail(
        f"not enough memory ({first_line(error)}); close other programs, raise the limit "
        "(ulimit -v), or take a smaller model or batch: `equipoise plan` says what a recipe needs",
        EquipoiseError.exit_code,
    )


def drop_unwritten_output() -> None:
    """Point standard output at nothing, so that Python does not try to write its rest at the end,
    which would fail again and change the exit code.
    """
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def unnamed_place(error: OSError) -> str:
    """The place of a failed write whose error names none."""
    functions = {frame.name for frame in extract_tb(error.__traceback__)}
    prints = {"echo", "_write_buffer", "print", "flush"}  # of typer, click and rich
    return "standard output" if functions & prints else "a file"


def extra_with(package: str | None) -> str | None:
    """The extra of this package that brings a module, "" for none."""
    for extra, packages in EXTRAS.items():
        if package in packages:
            return extra
    return None


def show_traceback(kind: type[BaseException], error: BaseException, _: Any) -> None:
    """Tell whether tracebacks are wanted."""
    say("".join(format_exception(error)).rstrip(), err=True)


def _fail(message: str, code: int) -> NoReturn:
    # What strangers wrote into it does not reach the terminal as commands.
    message = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in message)
    say(f"error: {message}", err=True)
    sys.exit(code)
