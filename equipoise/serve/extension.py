"""What an environment adds to serving: an engine in front of the model's own, as a client wishes.

An environment's `wing.py` lists its extensions under `SERVING`, by the field of a request that
carries the wish: field -> the other settings of an `ExtensionOffer`. The option `--FIELD` of
`serve` and `chat` sets what holds where a client wishes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equipoise.component import imported
from equipoise.system.wings import added

if TYPE_CHECKING:
    from equipoise.games.base import Game
    from equipoise.serve.engine import Engine


class Extension(ABC):
    """Puts an engine in front of another."""

    @abstractmethod
    def wrap(self, engine: Engine, wish: Any = None, *, report: bool = False) -> Engine:
        """The engine that answers in place of `engine`, perhaps `engine` itself.

        Args: wish: what the client asks for, by a name or by the field's value; None where it asks
        for nothing. report: its last piece's field `equipoise` holds what the client does not see.
        Raises Refused for a wish that cannot be.
        """

    @abstractmethod
    def describe(self, wish: Any = None) -> str:
        """The short name of what `wrap` does for this wish. Raises Refused as it does."""


@dataclass(frozen=True)
class ExtensionOffer:
    """How an extension appears to clients and on the command line.

    `extension` is the import path of what makes it, `field` a request's field, `option` the help of
    the option `--FIELD`, `default` what holds without it. `wish` and `report` name options and
    commands of a conversation (`--WISH` and `/WISH`, `--REPORT` and `/REPORT`); `report` is also
    the key of a request's object `equipoise` that asks for what is hidden.
    """

    field: str
    extension: str
    option: str
    wish: str
    wish_help: str
    report: str
    report_help: str
    default: str = ""


@dataclass(frozen=True)
class Wish:
    """What a client asks of an extension: the field's value (None: nothing), and whether what is
    hidden is wanted too.
    """

    value: Any = None
    report: bool = False


def offered() -> dict[str, ExtensionOffer]:
    """Request field -> the extension behind it."""
    return {
        field: ExtensionOffer(field, **settings) for field, settings in added("SERVING").items()
    }


def extension(field: str, option: str, game: Game | None) -> Extension:
    """The extension for this field of requests.

    Args: option: the text of the command's option `--FIELD`, "" where it is not given. game: of the
    run that is served, None for a model alone. Raises ConfigError for an option that cannot be
    read, DataError for a template that cannot be used.
    """
    made = imported(offered()[field].extension)(option, game)
    assert isinstance(made, Extension), made
    return made


def extensions(options: Mapping[str, str], game: Game | None) -> dict[str, Extension]:
    """Every extension, by field; `options` are the texts of their options, as for `extension`."""
    return {field: extension(field, options.get(field, ""), game) for field in offered()}
