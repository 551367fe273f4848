"""What a run measured, one row a learner and generation, from its recorded facts alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from equipoise.runs.ledger import Ledger
from equipoise.runs.reading.tables import Row
from equipoise.types import PlayerId

COLUMNS = {"generation": "int", "player": "text", "name": "text"}
INTERVAL = frozenset({"mean", "low", "high", "n"})
OWN = {"scores": "score", "win_rates": "win_rate", "judges": "judge"}
"""Facts that are kept for each player -> the column of one player's own."""


def measured_rows(ledger: Ledger) -> Iterator[Row]:
    """One row for each learner at each measurement: `generation`, `player`, `name`, and every
    number that was measured.

    Facts that are kept for each player give the player's own; one with a 95 % interval has the
    columns NAME, NAME_low, NAME_high and NAME_n (values behind it). Numbers on the whole generation
    stand in the row of each of its learners.
    """
    for _, generation, _, facts, _ in ledger.stages("measure"):
        for name, age in facts.get("ages", {}).items():
            player = str(PlayerId(name, age))
            row: Row = {"generation": generation, "player": player, "name": name}
            own = dict(_numbers(facts, player, own=True))
            of_all = dict(_numbers(facts, player, own=False))
            # What a player has of its own stands above what is said of all.
            yield {**row, **own, **{k: v for k, v in of_all.items() if k not in own}}


def _numbers(
    facts: Mapping[str, Any], player: str, own: bool, path: str = ""
) -> Iterator[tuple[str, float | int]]:
    """(column, number) of everything that is known of the player (`own`), or of all."""
    for key, value in facts.items():
        if key == "ages":
            continue
        if not isinstance(value, Mapping):
            if not own and isinstance(value, int | float):
                yield _joined(path, key), float(value)
            continue
        if player in value:
            if own:
                column = _joined(path, OWN.get(key, key))
                yield from _value(column, value[player])
        elif value.keys() == INTERVAL:
            if not own:
                yield from _value(_joined(path, key), value)
        elif not any("@" in str(inner) for inner in value):
            yield from _numbers(value, player, own, _joined(path, key))


def _value(column: str, value: Any) -> Iterator[tuple[str, float | int]]:
    """A number, or a mean with its interval; what is not known is left out."""
    if isinstance(value, int | float):
        yield column, float(value)
    elif isinstance(value, Mapping) and value.keys() == INTERVAL:
        names = {"mean": column, **{k: f"{column}_{k}" for k in ("low", "high", "n")}}
        for key, name in names.items():
            if value[key] is not None:
                yield name, value[key] if key == "n" else float(value[key])


def _joined(path: str, key: str) -> str:
    return f"{path}_{key}" if path else key
