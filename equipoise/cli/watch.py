"""`equipoise watch RUN …`: runs as they go on, on a page."""

import os
from pathlib import Path
from typing import Annotated

import typer

from equipoise.system.command_options import (
    Host,
    Json,
    NoToken,
    Port,
    TokenEnv,
    Trust,
    announce_page,
)


def watch(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN…", help="run directories")],
    host: Host = "127.0.0.1",
    port: Port = 8012,
    token_env: TokenEnv = "",
    no_token: NoToken = False,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Watch runs as they go on.

    A page shows where they are, how fast, what they have measured and spent, their last matches,
    and the report. Runs are only read.
    """
    from equipoise.serve import watch_page
    from equipoise.serve.server import choose_token

    os.nice(10)  # the runs come first
    watch_page.watch(
        folders,
        host=host,
        port=port,
        token=choose_token(token_env, no_token, host),
        trust=trust,
        announce=lambda address: announce_page(address, token_env, json),
    )
