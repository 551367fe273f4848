"""Targets of `evaluate` and `compare`: what a text, a pattern, a folder or a mapping stands for.

runs/a  runs/a@policy@3     a run, or a player of it
runs/                       every run in a folder of runs
'runs/a*'                   everything that a pattern names
Qwen/Qwen3-0.6B  models/x   a model of the hub, in a folder, or a packaged one
http://…/v1#NAME            a model behind an endpoint
{model: x, batch_size: 4}   a player, as `players` of a recipe has it
logs/  results.json@NAME    logs of other programs, or one model of them
NAME=TARGET                 any of them under a name
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from equipoise.api.comparison_result import Comparison
from equipoise.api.handle import Run
from equipoise.api.model_targets import is_address, is_player, parsed, player_of
from equipoise.component import nearest
from equipoise.errors import ConfigError
from equipoise.runs.directory import is_run, named_run

Target: TypeAlias = "str | Path | Run | Comparison | Mapping[str, Any]"
"""A mapping holds a player's settings."""
Given: TypeAlias = "Target | Sequence[Target] | Mapping[str, Target | Sequence[Target]]"
"""A target, several, or targets by name, of which several under a name are replicates."""

NAMED = re.compile(r"(\w[\w.+ -]*)=(.+)", re.DOTALL)  # name=target
PATTERN = re.compile(r"[*?\[]")  # of several folders
WEIGHTS = ("config.json", "adapter_config.json", "*.safetensors", "*.gguf", "*.bin")
JUDGED = "side_by_side_"  # begins the names of folders that keep judgements of comparisons
MOST_LISTED = 12  # runs that a message names
KINDS_OF_TARGETS = (
    "runs, players of runs, folders and hub ids of models, endpoints (http://…/v1#MODEL), "
    "imported matches, and logs of Inspect, lm-eval and AlpacaEval"
)


def named_targets(given: Iterable[Given]) -> Iterator[tuple[str, list[Target]]]:
    """(name or "", its targets) of everything that is given; several under a name are replicates.

    Raises ConfigError for what is no target.
    """
    for target in given:
        if isinstance(target, Mapping) and not is_player(target):
            for name, inner in target.items():
                several = inner if isinstance(inner, list | tuple) else [inner]
                replicates: list[Target] = []
                for each in several:
                    replicates += expanded(each)
                yield str(name), replicates
        elif isinstance(target, list | tuple):
            yield from named_targets(target)
        else:
            name, rest = split_name(target)
            for_one = expanded(rest)
            if name:
                yield name, for_one
            else:
                for each in for_one:
                    yield "", [each]


def split_name(target: object) -> tuple[str, object]:
    """(name, target) of `NAME=TARGET`; "" is no name."""
    if not isinstance(target, str) or Path(target).exists() or target.lstrip().startswith("{"):
        return "", target
    match = NAMED.fullmatch(target)
    if match is None:
        return "", target
    name, rest = match.groups()
    return name.strip(), rest.strip()


def expanded(target: object) -> list[Target]:
    """The targets that a pattern or a folder of runs stands for, or the target itself.

    Raises ConfigError for what is no target, and for a pattern that nothing fits.
    """
    target = parsed(target)
    if isinstance(target, Mapping | Run | Comparison):
        return [target]
    if not isinstance(target, str | Path):
        kind = type(target).__name__
        raise ConfigError(f"a {kind} is no target; those are {KINDS_OF_TARGETS}")
    text = str(target)
    if not text.strip():
        raise ConfigError(f"a target is empty; targets are {KINDS_OF_TARGETS}")
    if is_address(text):
        return [text]
    if Path(text).exists():
        return list(runs_in(Path(text))) or [text]
    path, at, player = text.partition("@")
    if not PATTERN.search(path):
        return [text]
    paths = sorted(glob.glob(path))
    if not paths:
        raise ConfigError(f"{text}: no file or folder has a name like this")
    several: list[Target] = []
    for each in paths:
        inside = list(runs_in(Path(each))) or [each]
        several += [f"{run}{at}{player}" for run in inside]
    return several


def runs_in(folder: Path) -> Iterator[str]:
    """The runs in a folder that is none itself; those that only keep judgements are no targets."""
    if is_run(folder) or not folder.is_dir():
        return
    for inner in sorted(folder.iterdir()):
        if is_run(inner) and not inner.name.startswith(JUDGED):
            yield str(inner)


def is_model(target: Target) -> bool:
    """True for a target that is asked in a run of its own: neither a run nor a log."""
    if isinstance(target, Mapping):
        return True
    if not isinstance(target, str | Path):
        return False
    folder, _ = named_run(str(target))
    return not is_run(folder) and not is_log(str(target))


def is_log(text: str) -> bool:
    """True for a file that is no model, and for a folder without weights."""
    path = Path(text)
    if not is_address(text) and not path.exists():
        path = Path(text.partition("@")[0])
    if path.is_file():
        return path.suffix != ".gguf"
    return path.is_dir() and not any(any(path.glob(pattern)) for pattern in WEIGHTS)


def check_is_there(text: str) -> None:
    """Raises ConfigError for a path where nothing lies; names may be the hub's or packaged ones."""
    path = Path(text.partition("@")[0])
    above = path.parent
    if is_address(text) or path.exists():
        return
    run, colon, _ = text.partition(":")
    if colon and is_run(run):
        raise ConfigError(f"{text}: name a player as {run}@PLAYER or {run}@PLAYER@GENERATION")
    looks_like_a_path = text.startswith((".", "/", "~")) or text.endswith("/")
    beside = list(runs_in(above)) if above != Path() else []
    if not looks_like_a_path and not beside:
        return
    names = [Path(run).name for run in beside][:MOST_LISTED]
    hint = f"; {nearest(path.name, names)}" if names else ""
    raise ConfigError(f"{text}: there is no run, no model and no log here{hint}")


def kinds_of(targets: Sequence[Target]) -> set[str]:
    """The kinds of players among the targets that are models."""
    kinds = set()
    for target in targets:
        if isinstance(target, str | Path | Mapping) and is_model(target):
            kinds.add(str(player_of(target)["kind"]))
    return kinds
