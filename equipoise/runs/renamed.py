"""Settings that have another name since an earlier version, so that runs of that version can be
opened and resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.system.wings import added

KEYS: Mapping[str, str] = {
    "standing": "training_ratings",
    "ratings": "league_ratings",
    "lessons": "training_matches",
}
"""Old key of a run's configuration -> the new one."""


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a run directory with the names of this version.

    Environments say in the tables of their `wing.py` which import paths and packaged models
    (RENAMED) and which kinds (RENAMED_KINDS) have new names.
    """
    names, kinds = added("RENAMED"), added("RENAMED_KINDS")
    return {
        KEYS.get(key, key): _with_new_names(value, names, kinds) for key, value in values.items()
    }


def _with_new_names(value: Any, names: Mapping[str, str], kinds: Mapping[str, str]) -> Any:
    """The value with old names replaced, at whatever depth they are."""
    if isinstance(value, Mapping):
        renamed = {key: _with_new_names(inner, names, kinds) for key, inner in value.items()}
        kind = renamed.get("kind")
        if isinstance(kind, str):
            renamed["kind"] = kinds.get(kind, kind)
        return renamed
    if isinstance(value, list):
        return [_with_new_names(inner, names, kinds) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value
