"""Records of the packaged recipes, two generations each at the settings of their tests: made by one
version of the package, compared with those of another.

    python -m tools.recipe_records make FOLDER [RECIPE ...] [--rows FOLDER]
    python -m tools.recipe_records compare FOLDER OTHER [--verbose]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROWS = Path(tempfile.gettempdir()) / "equipoise-recipe-rows"
TABLES = {  # of the ledger -> its compared columns
    "prompts": "id, split, generation, record",
    "matches": "id, generation, split, prompt, record",
    "judgements": "id, match, judge, generation, split, record",
    "pairs": "id, generation, learner, record",
    "episodes": "id, generation, learner, record",
    "logprobs": "player, encoding, text, total, tokens",
    "players": "name, generation, parent, learner, facts",
    "stages": "key, generation, stage, facts",
}
NOT_COMPARED = ("seconds", "path", "took", "memory")  # parts of keys that depend on the machine
SERVED = "mnpo_served"  # needs a server
SHOWN = 600  # characters of a row that differs


def make(folder: Path, names: Sequence[str], rows_folder: Path = ROWS) -> list[str]:
    """Run recipes below `folder`, but those that are already there; the names of those that failed.

    `names`: none for all; `rows_folder` holds the files of prompts, whose paths should be the same
    for both versions.
    """
    sys.path[:0] = [str(ROOT / "tests" / part) for part in ("", "helpers", "scenarios")]
    import test_recipes

    def write_rows(values: Iterable[Any]) -> str:
        text = "".join(json.dumps(row) + "\n" for row in values)
        path = rows_folder / f"{hashlib.sha256(text.encode()).hexdigest()[:8]}.jsonl"
        path.write_text(text)
        return str(path)

    folder.mkdir(parents=True, exist_ok=True)
    rows_folder.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "helpers")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    failed = []
    for name in names or sorted(set(test_recipes.recipe_loader.recipe_descriptions()) - {SERVED}):
        run = (folder / name).resolve()
        if (run / "report.html").exists():
            continue
        settings = [*test_recipes.arguments(name, write_rows), "-s", "generations=2"]
        if name.startswith("instructions"):
            settings += ["-s", "prompts.reuse=true"]
        command = [sys.executable, "-m", "equipoise", "run", name, *settings]
        done = subprocess.run(
            [*command, "--out", str(run), "--overwrite"],
            capture_output=True,
            text=True,
            env=environment,
        )
        print(name, done.stderr[-300:] if done.returncode else "done", flush=True)
        if done.returncode:
            failed.append(name)
    return failed


def compare(first: Path, second: Path, verbose: bool = False) -> list[str]:
    """Print, by recipe, the tables that differ; the names of the recipes that do."""
    differing = []
    for run in sorted(path.parent for path in first.glob("*/ledger.sqlite")):
        other = second / run.name
        if not (other / "ledger.sqlite").exists():
            print(f"{run.name}: missing")
            differing.append(run.name)
            continue
        counts, differences = [], []
        for table in TABLES:
            rows, others = read_rows(run, table), read_rows(other, table)
            counts.append(f"{table} {len(rows)}")
            unlike = [pair for pair in zip(rows, others, strict=False) if pair[0] != pair[1]]
            if rows != others:
                number = len(unlike) + abs(len(rows) - len(others))
                differences.append(f"{table}: {number} of {len(rows)}")
            if verbose and unlike:
                print(f"  < {unlike[0][0]}"[:SHOWN], f"  > {unlike[0][1]}"[:SHOWN], sep="\n")
        print(f"{run.name}: {'; '.join(differences) or 'equal'} ({', '.join(counts)})")
        if differences:
            differing.append(run.name)
    return differing


def read_rows(run: Path, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table of a run's ledger, without what depends on the machine."""
    with closing(sqlite3.connect(f"file:{run}/ledger.sqlite?mode=ro", uri=True)) as database:
        query = f"SELECT {TABLES[table]} FROM {table} ORDER BY rowid"
        rows = database.execute(query).fetchall()
    return [tuple(map(_comparable, row)) for row in rows]


def _comparable(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.dumps(_prune(json.loads(value)), sort_keys=True)
    return value


def _prune(value: Any) -> Any:
    """A JSON value without the keys that depend on the machine."""
    if isinstance(value, list):
        return [_prune(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _prune(item)
        for key, item in value.items()
        if not any(part in key for part in NOT_COMPARED)
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 1 where a recipe failed or records differ."""
    parser = argparse.ArgumentParser(prog="python -m tools.recipe_records", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make", help="run recipes")
    making.add_argument("folder", type=Path, help="the runs' folder")
    making.add_argument("recipes", nargs="*", help="by default all")
    making.add_argument("--rows", type=Path, default=ROWS, help="folder of the prompts' files")
    comparing = verbs.add_parser("compare", help="compare the records of two folders of runs")
    comparing.add_argument("folder", type=Path)
    comparing.add_argument("other", type=Path)
    comparing.add_argument("--verbose", action="store_true", help="show the first rows that differ")
    options = parser.parse_args(arguments)
    if options.verb == "make":
        return bool(make(options.folder, options.recipes, options.rows))
    return bool(compare(options.folder, options.other, options.verbose))


if __name__ == "__main__":
    sys.exit(main())
