"""Where raw results come from: whether a commit of this history, unchanged, and a benchmark that is
there made them.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from benchmarks.table_rows import RESULTS, ROOT

# Raw result, or a pattern of several -> why it stays though its origin is at fault.
AGAIN = ROOT / "benchmarks" / "to_be_made_again.yaml"


def commits() -> list[str]:
    """All commits up to the one that is checked out; none where the history is not here whole."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    whole = git("rev-parse", "--is-shallow-repository", "--show-prefix") == "false"
    return git("rev-list", "HEAD").split() if whole else []


def faults(results: Any, history: list[str]) -> list[str]:
    """What is wrong with where a raw result comes from, and with those that were joined to it.

    A fault: a commit that is missing from the history, or whose files had been changed; a command
    whose module or file is not here; neither of them.
    """
    found: dict[str, None] = {}
    told = list(origins(results))
    if not told:
        found["names no commit"] = None
    for origin in told:
        commit, _, changed = str(origin["commit"]).partition("-")
        if changed:
            found[f"{commit} was changed"] = None
        if not commit or not any(known.startswith(commit) for known in history):
            found[f"{commit or 'a commit'} is not in the history"] = None
        command = str(origin.get("command", "")).removeprefix("python ").removeprefix("-m ")
        program = command.partition(" ")[0]
        if not program or not ((ROOT / program).is_file() or _is_here(program)):
            found[f"{program or 'its command'} is not here"] = None
    return list(found)


def origins(results: Any) -> Iterator[Mapping[str, Any]]:
    """Everything in a raw result that names a commit, at whatever depth."""
    if isinstance(results, dict):
        if "commit" in results:
            yield results
        results = list(results.values())
    for inner in results if isinstance(results, list) else ():
        yield from origins(inner)


def checked(folder: Path = RESULTS, again: Path = AGAIN) -> tuple[dict[str, str], dict[str, str]]:
    """(results that are refused, listed ones that are to be made again), each with what is wrong.

    Raises ValueError where the history is not here whole.
    """
    history = commits()
    if not history:
        raise ValueError(f"{ROOT}: git's whole history is needed to know the results' commits")
    listed = yaml.safe_load(again.read_text()) or {}
    refused: dict[str, str] = {}
    kept: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        if found := faults(json.loads(path.read_text()), history):
            known = any(fnmatch(path.stem, pattern) for pattern in listed)
            (kept if known else refused)[path.stem] = "; ".join(found)
    return refused, kept


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
