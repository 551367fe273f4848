"""`equipoise serve`: a run's players, or a model, behind an OpenAI-compatible address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.serving_options import (
    Adapter,
    ExtensionChoice,
    Model,
    PlayerSettings,
    ServedRun,
    Upstream,
    UpstreamKey,
    UpstreamModel,
    option_texts,
    with_extensions,
)
from equipoise.system.command_options import Json, Trust, show

if TYPE_CHECKING:
    from equipoise.serve.catalogue import Catalogue

Host = Annotated[str, typer.Option(help="the address to listen on")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free")]
TokenEnv = Annotated[
    str,
    typer.Option(metavar="NAME", help="the variable that holds the token which clients must send"),
]
NoToken = Annotated[bool, typer.Option("--no-token", help="ask for no token; on this machine only")]
BodyBytes = Annotated[int, typer.Option(min=1, help="most bytes of a request")]
Concurrency = Annotated[int, typer.Option(min=1, help="answers generated at once")]
Queue = Annotated[int, typer.Option(min=0, help="requests that may wait")]
Connections = Annotated[int, typer.Option(min=1, help="clients connected at once")]
Seconds = Annotated[float, typer.Option(min=0.001, help="seconds that a request may take")]
MaxTokens = Annotated[int, typer.Option(min=1, help="most tokens of an answer")]
Grace = Annotated[
    int, typer.Option(min=0, help="seconds to finish answers under way when the server is stopped")
]


@with_extensions(conversation=False)
def serve(
    choices: Mapping[str, ExtensionChoice],
    folder: ServedRun = None,
    model: Model = "",
    adapter: Adapter = "",
    upstream: Upstream = "",
    upstream_model: UpstreamModel = "",
    upstream_key_env: UpstreamKey = "",
    set: PlayerSettings = [],  # noqa: B006
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_env: TokenEnv = "",
    no_token: NoToken = False,
    body_bytes: BodyBytes = 1_000_000,
    concurrency: Concurrency = 64,
    queue: Queue = 256,
    connections: Connections = 512,
    seconds: Seconds = 300.0,
    max_tokens: MaxTokens = 4096,
    grace: Grace = 30,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Serve players or a model to any OpenAI client.

    Serves trained players, a mixture of them, or one model, until Ctrl-C or SIGTERM.
    """
    from equipoise.cli.trusting import agreed
    from equipoise.serve import server
    from equipoise.serve.extension import extensions
    from equipoise.serve.gate import Limits
    from equipoise.serve.source import Source

    token = server.choose_token(token_env, no_token, host)
    source = Source(
        folder,
        model,
        adapter,
        upstream,
        upstream_model,
        upstream_key_env,
        set,
        trust=folder is not None and agreed(folder, trust),
    )
    catalogue = source.catalogue(extensions(option_texts(choices), source.game()))
    limits = Limits.model_validate(
        {
            "body_bytes": body_bytes,
            "concurrency": concurrency,
            "queue": queue,
            "connections": connections,
            "seconds": seconds,
            "max_tokens": max_tokens,
        }
    )
    listening = server.listen(host, port)
    catalogue.warm()
    for note in catalogue.notes:
        typer.echo(f"note: {note}", err=True)
    _announce(catalogue, server.url(host, listening), token, token_env, json)
    server.serve(catalogue, limits, token, listening, grace)


def _announce(
    catalogue: Catalogue, url: str, token: str | None, token_env: str, json: bool
) -> None:
    """Where the server is; a token from a variable is not printed."""
    printed_token = None if token_env else token
    if json:
        show({"url": url, "models": catalogue.names, "token": printed_token})
        return
    access = f"token {token}" if token else "no token"
    if token_env:
        access = f"token from ${token_env}"
    typer.echo(f"serving {', '.join(catalogue.names)} at {url} ({access})")
