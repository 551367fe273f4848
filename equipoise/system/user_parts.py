"""A user's own parts, which a configuration names by import path: imported where a run is played,
and nowhere else.

Where a run is only read, `only_reading` puts a stand-in for each. It has the part's settings and
what was recorded of the part when the run was played (the names in the room's `READ`); asked to do
anything, it raises RunError.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict

from equipoise.errors import RunError

OWN_PACKAGE = "equipoise."


@dataclass
class Reading:
    """Facts of users' parts by `fingerprint`; whether files that settings name may be read."""

    recorded: Mapping[str, Mapping[str, Any]]
    files: bool = False


_reading: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def only_reading(
    recorded: Mapping[str, Mapping[str, Any]] | None = None, *, files: bool = False
) -> Iterator[None]:
    """Within this context no user's part is imported; stand-ins take their places.

    `files`: settings may be read from files that they name, as those of one's own recipe may.
    """
    token = _reading.set(Reading(recorded or {}, files))
    try:
        yield
    finally:
        _reading.reset(token)


def may_read_files() -> bool:
    """False while somebody's resolved configuration is read, which needs no file beside it."""
    reading = _reading.get()
    return reading is None or reading.files


def is_only_read() -> bool:
    """True while configurations are made to be read, not to be played."""
    return _reading.get() is not None


def is_users(path: str) -> bool:
    """True if an import path leads out of this package."""
    return not path.startswith(OWN_PACKAGE)


def stays_unimported(path: str) -> bool:
    """True for a user's part while configurations are only read."""
    return is_only_read() and is_users(path)


def search_current_folder() -> None:
    """Find modules in the current folder too, after everything that is installed."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


class NotImported:
    """In place of a user's function."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Raises RunError."""
        raise not_run(self._path)


def not_run(path: str) -> RunError:
    """The error where something is asked of a part that was not imported."""
    return RunError(
        f"this needs '{path}', a part of the run's own, and nothing of a run's own is "
        "executed to read it; where you trust it, add --trust (in Python: trust=True)"
    )


def stand_in(room: type[Any], path: str) -> type[Any]:
    """A class of a room in place of the one at the import path."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise not_run(path)

    namespace: dict[str, Any] = {
        name: property(refuse) if isinstance(getattr(room, name), property) else refuse
        for name in room.__abstractmethods__
    }
    # A part may have defaults for what its room requires.
    required = [name for name, f in room.model_fields.items() if f.is_required()]
    namespace |= dict.fromkeys(required)
    values = {"STANDS_FOR": path}
    return _subclass(room, f"{room.__name__}StandIn", namespace, values, required)


def with_records(part: type[Any], settings: Mapping[str, Any]) -> type[Any]:
    """A stand-in with what was recorded of the part that has these settings."""
    reading = _reading.get()
    recorded = reading.recorded.get(fingerprint(settings), {}) if reading else {}
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in recorded.items()
    }
    return _subclass(part, part.__name__, {}, values) if values else part


def _subclass(
    part: type[Any],
    name: str,
    namespace: dict[str, Any],
    values: Mapping[str, Any],
    optional: Iterable[str] = (),
) -> type[Any]:
    """A subclass that takes any settings and has these values as they are."""
    constants = dict.fromkeys(values, ClassVar[Any])
    metaclass: Any = type(part)
    return metaclass(
        name,
        (part,),
        {
            "__module__": __name__,
            "__doc__": f"In place of {part.__name__}.",
            "model_config": ConfigDict(extra="allow"),
            **namespace,
            **values,
            "__annotations__": {**dict.fromkeys(optional, Any), **constants},
        },
    )


def fingerprint(settings: Mapping[str, Any]) -> str:
    """One text for the same settings."""
    return json.dumps(settings, sort_keys=True, default=str)
