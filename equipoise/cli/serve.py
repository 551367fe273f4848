"""`equipoise serve TARGET`: a run's players, or a model, behind an OpenAI-compatible address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from equipoise.serve.settings import ServeSettings, with_extensions
from equipoise.system.command_options import (
    Access,
    Json,
    Served,
    Trust,
    say,
    serves,
    settings_option,
    show,
)

if TYPE_CHECKING:
    from equipoise.serve.catalogue import Catalogue

SETTINGS = with_extensions(ServeSettings)


@serves(port=8000)
def serve(
    target: Served,
    set: Annotated[list[str], settings_option(SETTINGS)] = [],  # noqa: B006
    access: Access = Access(),  # noqa: B008
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Serve players or a model to any OpenAI client.

    Serves trained players, a mixture of them, or one model, until Ctrl-C or SIGTERM.
    """
    from equipoise.api.handle import ask_for_trust
    from equipoise.runs import recipe_loader
    from equipoise.serve import server
    from equipoise.serve.engine import extensions
    from equipoise.serve.settings import catalogue_of, game_of

    settings = recipe_loader.settings(SETTINGS, set)
    token = server.choose_token(access.token_env, access.no_token, access.host)
    trusted = ask_for_trust(target, trust)
    extended = extensions(settings, game_of(target, trusted))
    catalogue = catalogue_of(target, settings.player, extended, trusted)
    listening = server.listen(access.host, access.port)
    catalogue.warm()
    for note in catalogue.notes:
        say(f"note: {note}", err=True)
    announce_addresses(catalogue, server.url(access.host, listening), token, access.token_env, json)
    server.serve(catalogue, settings, token, listening, settings.grace)


def announce_addresses(
    catalogue: Catalogue, url: str, token: str | None, token_env: str, json: bool
) -> None:
    """Print where the server is; a token from a variable is not printed."""
    if json:
        show({"url": url, "models": catalogue.names, "token": None if token_env else token})
        return
    access = f"token {token}" if token else "no token"
    if token_env:
        access = f"token from ${token_env}"
    say(f"serving {', '.join(catalogue.names)} at {url} ({access})")
