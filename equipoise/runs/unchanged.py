"""Whether a run's configuration is still what its records were made with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equipoise.component import FREE, essence
from equipoise.errors import ConfigError
from equipoise.runs import recipes
from equipoise.runs.ledger import Ledger
from equipoise.system.user_parts import only_reading

SETTINGS = "settings"  # under which the ledger keeps what config.yaml said at the start


def check_unchanged(path: Path, settings: Mapping[str, Any], ledger: Ledger) -> None:
    """Raises ConfigError, which names what changed, where the settings in the file `path` were
    edited since the run began: its records would be of two configurations.
    """
    recorded = json.loads(ledger.meta(SETTINGS))
    if essence(recorded) == essence(settings):
        return
    with only_reading():
        before = recipes.build(recorded, "the ledger").model_dump(mode="json")
        now = recipes.build(settings, str(path)).model_dump(mode="json")
    if changes := list(_changes(essence(before), essence(now))):
        raise ConfigError(
            f"{path}: was edited since the run began, so its records would be of two "
            f"configurations: {'; '.join(changes)}. Put these back, or start a new run; "
            f"only {', '.join(sorted(FREE))} may change"
        )


def _changes(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """What differs between two plain values, by key: `judge.model: 'a', was 'b'`."""
    if before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{key}.{name}".lstrip(".")
            yield from _changes(before.get(name), now.get(name), inner)
    else:
        yield f"{key}: {_short(now)}, was {_short(before)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else f"{text[:79]}…"
