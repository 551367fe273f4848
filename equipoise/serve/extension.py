"""What an environment adds to serving: an engine in front of the model's own, as a
client wishes.

An environment's `wing.py` lists its extensions under `SERVING`, by the field of a
request that carries the wish; the option `--FIELD` of `serve` and `chat` sets what
holds where a client wishes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from equipoise.component import added, imported
from equipoise.games.base import Game
from equipoise.serve.engine import Engine


class Extension(ABC):
    """Puts an engine in front of another."""

    @abstractmethod
    def wrap(self, engine: Engine, wish: Any = None, *, report: bool = False) -> Engine:
        """The engine that answers in place of `engine`, perhaps `engine` itself.

        Args: wish: what the client asks for, by a name or by the field's value; None
        where it asks for nothing. report: its last piece's field `equipoise` holds what
        the client does not see. Raises Refused for a wish that cannot be.
        """

    @abstractmethod
    def describe(self, wish: Any = None) -> str:
        """The short name of what `wrap` does for this wish. Raises Refused as it does."""


def offered() -> dict[str, Mapping[str, str]]:
    """Request field -> what the environments' `SERVING` says of it."""
    return added("SERVING")


def extension(field: str, option: str, game: Game | None) -> Extension:
    """The extension for this field of requests.

    Args: option: the text of the command's option `--FIELD`, "" where it is not given.
    game: of the run that is served, None for a model alone. Raises ConfigError for an
    option that cannot be read, DataError for a template that cannot be used.
    """
    made = imported(offered()[field]["extension"])(option, game)
    assert isinstance(made, Extension), made
    return made
