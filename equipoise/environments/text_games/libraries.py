"""The libraries that bring the games, imported when a game of theirs is first needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from equipoise.errors import ConfigError

EXTRA = "pip install 'equipoise[games]'"


@cache
def pyspiel() -> Any:
    """OpenSpiel's own module. Raises ConfigError where it is not installed."""
    return _imported("pyspiel", "open_spiel")


@cache
def textarena() -> Any:
    """TextArena. Raises ConfigError where it is not installed."""
    return _imported("textarena", "textarena")


def _imported(module: str, kind: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"game: '{kind}' needs a package that is not installed: {EXTRA} ({error})"
        ) from error
