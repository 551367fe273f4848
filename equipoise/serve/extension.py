"""Extensions of serving by environments: an engine in front of the model's own, as a client wishes.

An environment's `wing.py` lists its extensions under `SERVING`, by the field of a request that
carries the wish: field -> the other settings of an `ExtensionOffer`. `-s FIELD=…` of `serve` and
`chat` sets what holds where a client wishes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equipoise.component import import_object
from equipoise.system.wings import wing_table

if TYPE_CHECKING:
    from equipoise.component import Settings
    from equipoise.games.base import Game
    from equipoise.serve.engine import Engine


class Extension(ABC):
    """Puts an engine in front of another."""

    @abstractmethod
    def wrap(self, engine: Engine, wish: Any = None, *, report: bool = False) -> Engine:
        """The engine that answers in place of `engine`, perhaps `engine` itself.

        `wish`: by a name or the field's value, or None. `report`: the last piece's field
        `equipoise` holds what the client does not see. Raises Refused for a wish that cannot be.
        """

    @abstractmethod
    def describe(self, wish: Any = None) -> str:
        """A short name for the effect of this wish. Raises Refused as `wrap` does."""


@dataclass(frozen=True)
class ExtensionOffer:
    """An extension as it appears to clients and on the command line.

    `extension` is its maker's import path, `field` a request's field and a setting of `serve` and
    `chat`, `option` that setting's help. `wish` and `report` name settings and commands of a
    conversation (`-s WISH=…` and `/WISH`, `-s REPORT=true` and `/REPORT`); `report` is also the key
    of a request's object `equipoise` that asks for what is hidden.
    """

    field: str
    extension: str
    option: str
    wish: str
    wish_help: str
    report: str
    report_help: str


@dataclass(frozen=True)
class Wish:
    """A client's wish of an extension: the field's value or None, and hidden parts or not."""

    value: Any = None
    report: bool = False


def extension_offers() -> dict[str, ExtensionOffer]:
    """Request field -> the extension behind it."""
    return {
        field: ExtensionOffer(field, **settings)
        for field, settings in wing_table("SERVING").items()
    }


def extension(field: str, option: Any, game: Game | None) -> Extension:
    """The extension for this field of requests.

    `option`: the setting FIELD or None; `game`: of the run, None for a model alone. Raises
    ConfigError for an option that cannot be read, DataError for a template that cannot be used.
    """
    made = import_object(extension_offers()[field].extension)(option, game)
    assert isinstance(made, Extension), made
    return made


def extensions(settings: Settings, game: Game | None) -> dict[str, Extension]:
    """Every extension, by field, as the settings of a verb have it (`with_extensions`)."""
    return {field: extension(field, getattr(settings, field), game) for field in extension_offers()}
