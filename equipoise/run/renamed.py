"""Settings that have another name since an earlier version, so that runs of that version
can be opened and resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.component import added

KEYS: Mapping[str, str] = {
    "standing": "training_ratings",
    "ratings": "league_ratings",
    "lessons": "training_matches",
}
"""Old key of a run's configuration -> the new one."""


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a run directory with the names of this version.

    Environments say in the table RENAMED of their `wing.py` which import paths of
    theirs have moved.
    """
    paths = added("RENAMED")
    return {KEYS.get(key, key): _moved(value, paths) for key, value in values.items()}


def _moved(value: Any, paths: Mapping[str, str]) -> Any:
    """The value with old import paths replaced, at whatever depth they are."""
    if isinstance(value, Mapping):
        return {key: _moved(inner, paths) for key, inner in value.items()}
    if isinstance(value, list):
        return [_moved(inner, paths) for inner in value]
    return paths.get(value, value) if isinstance(value, str) else value
