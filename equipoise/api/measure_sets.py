"""Measures a run's players, a model or an endpoint on named sets; nothing is trained."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.component import fixed_settings, nearest
from equipoise.errors import ConfigError, RunError, Stopped
from equipoise.judges.base import Judge
from equipoise.ledger.benchmark_results import STAGE
from equipoise.ledger.item_scores import BenchmarkResult
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.runs.monitor import Monitor
from equipoise.runs.named_sets.measure_set import measure_set
from equipoise.runs.named_sets.set_plan import Sets, check_sets
from equipoise.runs.named_sets.sets import Sweep, as_trained, named_sets
from equipoise.runs.open_run import OpenRun
from equipoise.system.addresses import lacks_scheme
from equipoise.types import PlayerId

PROMPTS = {"prompt", "messages", "question", "instruction"}  # columns of rows


def measure(
    run: RunDirectory,
    on: Any,
    players: str | Sequence[str],
    judge: Any,
    settings: recipe_loader.Overrides,
    sweep: Sweep,
    trained: bool,
    monitor: Monitor,
) -> list[BenchmarkResult]:
    """`Run.evaluate` of an open run. Raises Stopped on Ctrl-C: the same call goes on."""
    many = on if isinstance(on, list | tuple) and not are_rows(on) else [on]
    by = judge and recipe_loader.component(Judge, judge, (), "--judge").as_it_is()
    below = as_trained(run) if trained else None
    sets = named_sets(many, by, settings, sweep, below)
    wanted = [players] if isinstance(players, str) else players
    try:
        return measure_sets(run, players_of(run, wanted), sets, monitor)
    except KeyboardInterrupt:
        raise Stopped(
            "stopped; everything recorded so far is kept, and the same command goes on"
        ) from None


def are_rows(on: Any) -> bool:
    """True for a list of rows with prompts, in place of a list of sets."""
    if not isinstance(on, list | tuple) or not on:
        return False
    return all(isinstance(each, Mapping) and PROMPTS.intersection(each) for each in on)


def measure_sets(
    directory: RunDirectory, players: Sequence[PlayerId], sets: Sets, monitor: Monitor
) -> list[BenchmarkResult]:
    """Each player's score on each set, set by set; recorded as it comes.

    Raises ConfigError and DataError, before anything is asked, for sets unfit to read or judge.
    """
    items = check_sets(directory.config.playing, sets, players)
    with OpenRun(directory, monitor) as run:
        results = []
        for name, named_set in sets.items():
            for player in players:
                results += measure_set(run, name, named_set, items[name], player)
        return results


# -- who is measured


def players_of(run: RunDirectory, wanted: Sequence[str]) -> list[PlayerId]:
    """Players by `NAME`, `NAME@GENERATION` or `NAME@all`; none or "": learners' starts and newest.

    Where nobody learns, everybody. Raises RunError for a player that the run does not have.
    """
    ages = known_ages(run)
    chosen: list[PlayerId] = []
    for text in wanted or ("",):
        name, _, generation = text.partition("@")
        if text and name not in ages:
            raise RunError(f"{run.folder}: no player '{name}'; {nearest(name, list(ages))}")
        for each in (name,) if text else run.config.measured:
            ends = [PlayerId(each, age) for age in sorted({0, ages[each][-1]})]
            chosen += named_generations(run, each, generation, ages[each]) if text else ends
    return list(dict.fromkeys(chosen))


def named_generations(
    run: RunDirectory, name: str, generation: str, ages: Sequence[int]
) -> list[PlayerId]:
    """The generations that a target names."""
    if not generation:
        return [PlayerId(name, ages[-1])]
    if generation == "all":
        return [PlayerId(name, age) for age in ages]
    if not generation.isdecimal() or int(generation) not in ages:
        there = ", ".join(map(str, ages))
        raise RunError(f"{run.folder}: no generation '{generation}' of {name}; there are {there}")
    return [PlayerId(name, int(generation))]


def known_ages(run: RunDirectory) -> dict[str, list[int]]:
    """Name -> the generations that can play: as given, and those whose weights are there."""
    folder = run.folder / "players"
    ages = {}
    for name in run.config.players:
        born = [path.name for path in (folder / name).glob("[0-9]*") if path.is_dir()]
        ages[name] = [0, *sorted(int(age) for age in born if age.isdigit() and int(age))]
    return ages


# -- a run for a model of its own

NAME = "model"  # what a bare model is called in the run that is made for it


def run_for_model(model: str, out: str | Path | None, overrides: recipe_loader.Overrides) -> Path:
    """The folder of a run without learners, for a model or an endpoint's address.

    A run of the same settings is used again, one in which nothing was measured is replaced. Args:
    model: folder, hub id, packaged name or address; out: None: below runs/evaluate. Raises
    ConfigError for a model that cannot be used, RunError where the folder holds another one.
    """
    config = recipe_loader.load(model_settings(model, overrides))
    folder = Path("runs", "evaluate", config.name) if out is None else Path(out)
    if is_run(folder):
        with RunDirectory.read(folder) as run:
            own = fixed_settings(run.config.model_dump(mode="json"))
            empty = is_unused(run)
        if own == fixed_settings(config.model_dump(mode="json")):
            return folder
        if not empty:
            raise RunError(f"{folder}: holds a run of other settings; choose another --out")
    with new_run(config, folder, overwrite=is_run(folder)):
        return folder


def is_unused(run: RunDirectory) -> bool:
    """True if nothing was measured in it."""
    ledger = run.ledger
    return not (ledger.has_begun() or ledger.counts()["logprobs"] or ledger.stages(STAGE))


def discard_unused(folder: Path) -> None:
    """Remove the folder of a run in which nothing was measured; `runs/evaluate`, where empty."""
    with RunDirectory.read(folder) as run:
        if not is_unused(run):
            return
    shutil.rmtree(folder)
    for above in (Path("runs", "evaluate").absolute(), Path("runs").absolute()):
        if folder.absolute().is_relative_to(above) and not any(above.iterdir()):
            above.rmdir()


def model_settings(model: str, overrides: recipe_loader.Overrides) -> dict[str, Any]:
    """The configuration of the run that is made for a model. Raises ConfigError."""
    is_address = model.startswith(("http://", "https://"))
    player: dict[str, Any] = {"kind": "local", "model": model}
    if lacks_scheme(model):
        raise ConfigError(f"{model}: a server's address begins with http://, as http://{model}")
    if is_address:
        player = {"kind": "endpoint", "base_url": model}
    recipe_loader.override(player, overrides)
    if "model" not in player:
        raise ConfigError(
            f"{model}: an endpoint needs the model's name there: -s player.model=NAME"
        )
    return {
        "name": Path(str(player["model"])).name,
        "generations": 0,
        "players": {NAME: player},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": "answers",
        "judge": "exact",
        "evaluate": "sets",
        "commit_every": 64,  # a batch of a local player, of which a crash can cost four
    }
