"""The options that the verbs with a page share, and how they say where it is."""

from __future__ import annotations

from typing import Annotated

import typer

from equipoise.system.command_options import show

Host = Annotated[
    str, typer.Option(help="the address to listen on; 0.0.0.0: every one of this machine")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free")]
TokenEnv = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="the variable that holds the token which visitors must give",
        show_default="a fresh token",
    ),
]
NoToken = Annotated[bool, typer.Option("--no-token", help="ask for no token; on this machine only")]


def opened_at(address: str, token_env: str, json: bool) -> None:
    """Print a page's address; a token from a variable is not printed."""
    shown = address.partition("#")[0] if token_env else address
    if json:
        show({"url": shown})
        return
    note = f" (and the token in ${token_env})" if token_env else ""
    typer.echo(f"open {shown}{note}\nCtrl-C ends it; nothing is lost")
