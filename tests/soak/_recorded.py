"""All that a run recorded and wrote, to be compared with another run's."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from equipoise.ledger.ledger import REQUEST

TABLES = {
    "prompts": "id, split, generation, record",
    "matches": "id, generation, split, record",
    "judgements": "id, match, judge, split, record",
    "pairs": "id, generation, learner, record",
    "episodes": "id, learner, record",
    "logprobs": "player, encoding, text, total, tokens",
    "replies": "key, account, tokens",
    "players": "name, generation, parent, learner",
    "metrics": "stage, line, record",
    "stages": "key, generation, stage, facts",
    "benchmark_scores": "stage, item, sample, record",  # made with the first of them
}
WEIGHTS = ("policy.json", "model.safetensors", "adapter_model.safetensors", "state.pt")
TIMED = ("second", "runtime", "memory")  # in the names of what no two runs have alike


def differences(calm: Path, killed: Path) -> list[str]:
    """What differs between two runs, one line each."""
    found = []
    first, second = _records(calm), _records(killed)
    for table in first | second:
        rows, others = first.get(table, []), second.get(table, [])
        if rows != others:
            missing = len(set(rows) - set(others))
            added = len(set(others) - set(rows))
            found.append(f"table {table}: {missing} rows missing or other, {added} new")
    for what, read in (("weights", _weights), ("metrics.jsonl", _lines)):
        if read(calm) != read(killed):
            found.append(f"{what}: differ")
    drafts = {path.name for path in (killed / "players").rglob(".*")} - {".state"}
    return found + [f"draft left behind: {name}" for name in sorted(drafts)]


def count(run: Path, table: str) -> int:
    """How many rows a table has."""
    with closing(sqlite3.connect(run / "ledger.sqlite")) as db:
        return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def _records(run: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(run / "ledger.sqlite")) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name for (name,) in names}
        return {
            table: sorted(
                json.dumps([_untimed(value) for value in row])
                for row in db.execute(f"SELECT {columns} FROM {table}")
                if not (table == "replies" and row[0].startswith(REQUEST))  # nothing came of it
            )
            for table, columns in TABLES.items()
            if table in tables
        }


def _untimed(value: Any) -> Any:
    """A column without what depends on the machine's speed; JSON as its values."""
    if isinstance(value, str) and value.startswith("{"):
        return _without_times(json.loads(value))
    return value


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_times(inner)
            for name, inner in value.items()
            if not any(word in name for word in TIMED)
        }
    return [_without_times(inner) for inner in value] if isinstance(value, list) else value


def _weights(run: Path) -> dict[str, bytes]:
    paths = (run / "players").rglob("*")
    return {str(p.relative_to(run)): _content(p) for p in paths if p.name in WEIGHTS}


def _content(path: Path) -> bytes:
    """The file; of a state of training its values, for equal ones are pickled as other bytes where
    the same object stands in it twice.
    """
    if path.name != "state.pt":
        return path.read_bytes()
    import torch

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            numbers = value.reshape(-1).view(torch.uint8).numpy().tobytes()
            return str(value.dtype), list(value.shape), numbers
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        return [plain(each) for each in value] if isinstance(value, list | tuple) else value

    return repr(plain(torch.load(path, weights_only=True))).encode()


def _lines(run: Path) -> list[Any]:
    return list(_parsed(run / "metrics.jsonl"))


def _parsed(path: Path) -> Iterator[Any]:
    lines = path.read_text().splitlines() if path.exists() else []  # a run that never began
    for line in lines:
        yield _without_times(json.loads(line))
