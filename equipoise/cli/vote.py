"""`equipoise vote RUN`: people compare the players' answers, on a page."""

from typing import Annotated, Literal

import typer

from equipoise.system.command_options import (
    Host,
    Json,
    NoToken,
    Port,
    RunFolder,
    TokenEnv,
    Trust,
    announce_page,
)


def vote(
    folder: RunFolder,
    part: Annotated[
        Literal["held_out", "train", "test"] | None,
        typer.Option(
            help="whose answers are shown",
            show_default="the first part with two answers to choose from",
        ),
    ] = None,
    overlap: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="share of questions that somebody else has decided already"
        ),
    ] = 0.1,
    host: Host = "127.0.0.1",
    port: Port = 8010,
    token_env: TokenEnv = "",
    no_token: NoToken = False,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Let people vote on answers of a run's players.

    A page shows two answers to a prompt, blind and in random order. Votes are kept as judgements by
    `human`; `equipoise rate RUN --judge human` ranks the players by them.
    """
    from equipoise.serve import vote_page
    from equipoise.serve.server import choose_token

    vote_page.vote(
        folder,
        part=part or "",
        overlap=overlap,
        host=host,
        port=port,
        token=choose_token(token_env, no_token, host),
        trust=trust,
        announce=lambda address: announce_page(address, token_env, json),
    )
