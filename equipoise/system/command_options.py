"""Options that verbs of the command share, those of environments among them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from equipoise.errors import clean
from equipoise.system.packaged_recipes import recipe_descriptions


def override(what: str) -> Any:
    """The option `-s KEY=VALUE`, which may be repeated; `what` says what it changes."""
    return typer.Option("-s", "--set", metavar="KEY=VALUE", help=f"override {what}")


def settings_option(kind: Any) -> Any:
    """The option `-s KEY=VALUE` of a verb, described by the fields of the class `kind`."""
    lines = ["a setting; may be given again"]
    for name, field in kind.model_fields.items():
        default = f" (default {field.default})" if field.default else ""
        lines.append(f"{name}: {field.description}{default}")
    return typer.Option("-s", "--set", metavar="KEY=VALUE", help="\n\n".join(lines))


def recipe_names(incomplete: str) -> list[tuple[str, str]]:
    """(name, description) of the packaged recipes that a shell may complete to."""
    return [
        (name, description)
        for name, description in recipe_descriptions().items()
        if name.startswith(incomplete)
    ]


Recipe = Annotated[
    str,
    typer.Argument(
        help="a packaged recipe's name (see `equipoise recipes`) or a YAML file",
        autocompletion=recipe_names,
    ),
]
Served = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="a run's directory; or a model's folder, GGUF file, hub id or packaged name",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run directory")]
Set = Annotated[list[str], override("a setting of the recipe: loss=dpo")]
Push = Annotated[
    str,
    typer.Option(
        metavar="ORG/NAME",
        help="upload the result to this repository of the Hugging Face hub, under its "
        "own login (`hf auth login`); a new one is private",
        show_default=False,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="allow a run that somebody else started to execute code, send texts and read files "
        "that its settings name",
    ),
]
Host = Annotated[
    str, typer.Option(help="the address to listen on; 0.0.0.0 lets other machines connect")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="the port; 0 takes any free one")]
TokenEnv = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="the environment variable with the token that clients must send",
        show_default="a fresh token",
    ),
]
NoToken = Annotated[
    bool, typer.Option("--no-token", help="ask for no token; only for clients on this machine")
]


@dataclass(frozen=True)
class Access:
    """Where a verb that serves is to be found, and who may ask."""

    host: Host = "127.0.0.1"
    port: Port = 0
    token_env: TokenEnv = ""
    no_token: NoToken = False


def serves(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb the options of `Access` in place of its argument `access`."""

    def with_options(verb: Callable[..., None]) -> Callable[..., None]:
        names = [field.name for field in fields(Access)]
        hints = get_type_hints(Access, include_extras=True)
        parameters: list[Parameter] = []
        for parameter in signature(verb, eval_str=True).parameters.values():
            if parameter.name != "access":
                parameters.append(parameter)
                continue
            for field in fields(Access):
                default = port if field.name == "port" else field.default
                kind = Parameter.POSITIONAL_OR_KEYWORD
                parameters.append(
                    Parameter(field.name, kind, default=default, annotation=hints[field.name])
                )

        @wraps(verb)
        def call(**options: Any) -> None:
            access = Access(**{name: options.pop(name) for name in names})
            verb(access=access, **options)

        call.__signature__ = Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        del call.__wrapped__
        return call

    return with_options


Json = Annotated[bool, typer.Option("--json", help="print JSON, and nothing else")]


def _set_machine(context: typer.Context, option: typer.CallbackParam, value: str) -> None:
    from equipoise.system.addresses import machine

    if value:
        context.with_resource(machine(**{str(option.name): value}))


def _machine_option(variable: str, metavar: str, what: str) -> Any:
    return typer.Option(
        metavar=metavar,
        help=what,
        envvar=variable,
        callback=_set_machine,
        expose_value=False,
        rich_help_panel="This machine",
    )


def machine_options(
    launch_prefix: Annotated[
        str,
        _machine_option(
            "EQUIPOISE_LAUNCH_PREFIX",
            "COMMAND",
            "a command that starts the training of learner.launch once on each machine: "
            "'srun --nodes=2 --ntasks-per-node=1'",
        ),
    ] = "",
    ray_address: Annotated[
        str,
        _machine_option(
            "EQUIPOISE_RAY_ADDRESS",
            "ADDRESS",
            "the address of a Ray cluster for `executor: ray`, or auto; without it a cluster is "
            "started on this machine",
        ),
    ] = "",
    proxy: Annotated[
        str,
        _machine_option(
            "EQUIPOISE_PROXY",
            "URL",
            "the proxy for requests to endpoints (it can read keys that are sent to http://); "
            "environment: use HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE",
        ),
    ] = "",
) -> None:
    """Options of every verb that plays: what belongs to the machine and to no configuration."""


def announce_page(address: str, token_env: str, json: bool) -> None:
    """Print a page's address; a token from a variable is not printed."""
    shown = address.partition("#")[0] if token_env else address
    if json:
        show({"url": shown})
        return
    note = f" (and the token in ${token_env})" if token_env else ""
    say(f"open {shown}{note}\nCtrl-C ends it; nothing is lost")


def show(facts: Any) -> None:
    """Print facts as JSON."""
    say(json_text(facts, indent=2))


def json_text(facts: Any, indent: int | None = None) -> str:
    """Facts as JSON that reads the same again, without characters that a terminal obeys."""
    text = json.dumps(facts, indent=indent, ensure_ascii=False, default=str)
    return "".join(c if c == "\n" or clean(c) == c else f"\\u{ord(c):04x}" for c in text)


def say(text: object, err: bool = False, nl: bool = True) -> None:
    """Print a text, which may be a server's or a model's, on standard output or error.

    All that the command prints goes through here, or through `report.terminal.console`.
    """
    typer.echo(clean(str(text)), err=err, nl=nl)
