"""The options that `serve` and `chat` share: what is served, and what environments add to
serving.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.serve.extension import ExtensionOffer, offered
from equipoise.system.command_options import override

ServedRun = Annotated[Path | None, typer.Argument(metavar="[RUN]", help="a run directory")]
Model = Annotated[
    str, typer.Option(help="a model instead of a run: a folder, a hub id, or builtin")
]
Adapter = Annotated[str, typer.Option(help="with --model: the folder of a LoRA adapter")]
Upstream = Annotated[
    str, typer.Option(metavar="URL", help="another server's address, without /chat/completions")
]
UpstreamModel = Annotated[
    str, typer.Option(metavar="NAME", help="with --upstream: the model's name there")
]
PlayerSettings = Annotated[list[str], override("a setting of the players: top_p=0.9")]
UpstreamKey = Annotated[
    str, typer.Option(metavar="NAME", help="with --upstream: the variable that holds the key")
]


@dataclass(frozen=True)
class ExtensionChoice:
    """What the command line says of an extension: the text of its option, and in a conversation the
    first wish and whether what is hidden is shown.
    """

    option: str = ""
    wish: str = ""
    report: bool = False


def with_extensions(conversation: bool) -> Callable[[Callable], Callable]:
    """A verb whose argument `choices` (field -> `ExtensionChoice`) is filled from the options that
    environments add to serving.
    """

    def decorate(verb: Callable) -> Callable:
        @wraps(verb)
        def filled(**values: Any) -> None:
            choices = {
                field: _choice(offer, values, conversation) for field, offer in offered().items()
            }
            verb(**values, choices=choices)

        signature = inspect.signature(verb, eval_str=True)
        own = [p for p in signature.parameters.values() if p.name != "choices"]
        added = [
            parameter
            for offer in offered().values()
            for parameter in _parameters(offer, conversation)
        ]
        parameters = [*own, *added]
        vars(filled)["__signature__"] = signature.replace(parameters=parameters)
        filled.__annotations__ = {p.name: p.annotation for p in parameters}
        return filled

    return decorate


def _choice(offer: ExtensionOffer, values: dict[str, Any], conversation: bool) -> ExtensionChoice:
    """Take an extension's values out of the verb's."""
    option = values.pop(offer.field)
    if not conversation:
        return ExtensionChoice(option)
    return ExtensionChoice(option, values.pop(offer.wish), values.pop(offer.report))


def _parameters(offer: ExtensionOffer, conversation: bool) -> list[inspect.Parameter]:
    """The options of an extension, as typer reads them from a function's signature."""
    option = Annotated[str, typer.Option(help=offer.option, show_default=offer.default or False)]
    wish = Annotated[str, typer.Option(metavar="NAME", help=offer.wish_help)]
    report = Annotated[bool, typer.Option(f"--{offer.report}", help=offer.report_help)]
    parameters = [_parameter(offer.field, "", option)]
    if conversation:
        parameters.append(_parameter(offer.wish, "", wish))
        parameters.append(_parameter(offer.report, False, report))
    return parameters


def _parameter(name: str, default: str | bool, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def option_texts(choices: Mapping[str, ExtensionChoice]) -> dict[str, str]:
    """field -> the text of its option."""
    return {field: choice.option for field, choice in choices.items()}
