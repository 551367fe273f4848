"""`equipoise serve`: a run's players, or a model, behind an OpenAI-compatible address."""

from __future__ import annotations

import json as _json
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import (
    Adapter,
    Json,
    Model,
    Served,
    Set,
    Steered,
    Upstream,
    UpstreamKey,
    UpstreamModel,
    show,
)

if TYPE_CHECKING:
    import uvicorn

    from equipoise.environments.assistance.serving.settings import Steering
    from equipoise.players.base import Player
    from equipoise.serve.catalogue import Catalogue
    from equipoise.serve.gate import Limits


def serve(
    folder: Served = None,
    model: Model = "",
    adapter: Adapter = "",
    upstream: Upstream = "",
    upstream_model: UpstreamModel = "",
    upstream_key_env: UpstreamKey = "",
    set: Set = [],  # noqa: B006
    steering: Steered = "",
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="0: any that is free")
    ] = 8000,
    token_env: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="the variable that holds the token to ask for"
        ),
    ] = "",
    no_token: Annotated[
        bool, typer.Option("--no-token", help="ask for no token; on this machine only")
    ] = False,
    body_bytes: Annotated[
        int, typer.Option(min=1, help="most bytes of a request")
    ] = 1_000_000,
    concurrency: Annotated[
        int, typer.Option(min=1, help="answers that are made at once")
    ] = 64,
    queue: Annotated[
        int, typer.Option(min=0, help="requests that wait for a place")
    ] = 256,
    seconds: Annotated[
        float, typer.Option(min=0.001, help="seconds that a request may take")
    ] = 300.0,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="most tokens of an answer")
    ] = 4096,
    grace: Annotated[
        int,
        typer.Option(
            min=0, help="seconds for what is under way when the server is stopped"
        ),
    ] = 30,
    json: Json = False,
) -> None:
    """Serve a trained player, a mixture of players, or a model to any OpenAI client,
    until Ctrl-C or SIGTERM.
    """
    from equipoise.environments.assistance.serving.engine import steerer
    from equipoise.serve.gate import Limits

    token = _token(token_env, no_token, host)
    catalogue = catalogue_of(
        folder, model, adapter, upstream, upstream_model, upstream_key_env, set
    )
    catalogue.steer = steerer(steering_of(steering, folder))
    limits = Limits.model_validate(
        {
            "body_bytes": body_bytes,
            "concurrency": concurrency,
            "queue": queue,
            "seconds": seconds,
        }
        | {"max_tokens": max_tokens}
    )
    listening = _listening(host, port)
    catalogue.warm()
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{listening.getsockname()[1]}/v1"
    for note in catalogue.notes:
        typer.echo(f"note: {note}", err=True)
    server = _server(catalogue, limits, token, grace)
    try:
        _announce(catalogue, url, token, token_env, json)
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn has finished what was under way, and passes on the signal that stopped it
        return


def _announce(
    catalogue: Catalogue, url: str, token: str | None, token_env: str, json: bool
) -> None:
    if json:
        show(
            {
                "url": url,
                "models": catalogue.names,
                "token": None if token_env else token,
            }
        )
    else:
        said = (
            f"token from ${token_env}"
            if token_env
            else f"token {token}"
            if token
            else "no token"
        )
        typer.echo(f"serving {', '.join(catalogue.names)} at {url} ({said})")


def _server(
    catalogue: Catalogue, limits: Limits, token: str | None, grace: int
) -> uvicorn.Server:
    import uvicorn

    from equipoise.serve.app import create

    return uvicorn.Server(
        uvicorn.Config(
            create(catalogue, limits, token),
            http="h11",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=grace,
        )
    )


def steering_of(text: str, folder: Path | None) -> Steering:
    """How models are steered where a client says nothing, as the option --steering
    gives it.

    Without it, a run of the assistant's game asks as its game does and hides the
    blocks; else nothing is steered.
    """
    from equipoise.environments.assistance.game import Assistance
    from equipoise.environments.assistance.serving.settings import Steering, chosen
    from equipoise.run.directory import Run

    base = Steering.model_validate({"mode": "off"})
    if folder is not None:
        with Run.read(folder) as run:
            game = run.config.game
        if isinstance(game, Assistance) and game.blocks:
            base = Steering.model_validate({"mode": "strip", "text": game.text})
    return chosen(text, base) if text else base


def catalogue_of(
    folder: Path | None,
    model: str,
    adapter: str,
    url: str,
    name: str,
    key_env: str,
    changes: list[str],
) -> Catalogue:
    """What the options of a verb name, to be served. Raises ConfigError where they do
    not fit together.
    """
    from equipoise.errors import ConfigError
    from equipoise.players.base import Player
    from equipoise.players.endpoint import Endpoint
    from equipoise.players.local import Local
    from equipoise.run import config
    from equipoise.serve.catalogue import Catalogue

    def player(settings: dict[str, Any], source: str) -> Player:
        return config.part(Player, _json.dumps(settings), changes, source)

    if sum((folder is not None, bool(model), bool(url))) != 1:
        raise ConfigError(
            "name what to serve: a run directory, --model MODEL, or --upstream URL --upstream-model NAME"
        )
    if bool(url) != bool(name):
        raise ConfigError("--upstream and --upstream-model go together")
    if adapter and not model:
        raise ConfigError("--adapter: goes with --model")
    if key_env and not url:
        raise ConfigError("--upstream-key-env: goes with --upstream")
    if folder is not None:
        return Catalogue.of_run(
            folder,
            lambda given: player(given.settings(), str(folder)) if changes else given,
        )
    if url:
        alone = player(
            {
                "kind": "endpoint",
                "base_url": url,
                "model": name,
                "api_key_env": key_env or None,
            },
            "--upstream",
        )
        named = name
    else:
        alone = player(
            {"kind": "local", "model": model, "adapter": adapter or None}, "--model"
        )
        named = Path(model).resolve().name if Path(model).is_dir() else model
    assert isinstance(alone, Local | Endpoint)
    return Catalogue.of_player(named, alone)


def _token(variable: str, none: bool, host: str) -> str | None:
    from equipoise.errors import ConfigError
    from equipoise.serve.app import is_loopback

    if variable and none:
        raise ConfigError("--token-env and --no-token exclude each other")
    if none:
        if not is_loopback(host):
            raise ConfigError(
                f"--no-token: {host} can be reached from other machines; use a token there"
            )
        return None
    if variable and not os.environ.get(variable, "").strip():
        raise ConfigError(f"--token-env {variable}: this variable is not set")
    return os.environ[variable].strip() if variable else secrets.token_urlsafe(24)


def _listening(host: str, port: int) -> socket.socket:
    from equipoise.errors import ConfigError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error}; choose another --host or --port"
        ) from error
