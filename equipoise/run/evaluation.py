"""Measures a run's players, a model or an endpoint on named sets; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.component import Component, essence, nearest
from equipoise.errors import ConfigError, RunError
from equipoise.evaluate.benchmarks.base import Benchmark
from equipoise.evaluate.benchmarks.records import BenchmarkResult
from equipoise.judges.base import Judge
from equipoise.players.population import Population
from equipoise.run import recipes
from equipoise.run.benchmark_checks import Sets, check_sets
from equipoise.run.benchmark_measurement import BenchmarkMeasurement
from equipoise.run.contexts import Contexts
from equipoise.run.directory import RunDirectory
from equipoise.run.memory import Memory
from equipoise.run.monitor import Monitor
from equipoise.run.recorder import Recorder
from equipoise.run.roster import Roster
from equipoise.types import PlayerId


def measure_sets(
    run: RunDirectory,
    players: Sequence[PlayerId],
    sets: Sets,
    monitor: Monitor,
) -> list[BenchmarkResult]:
    """What each player scores on each set, set by set; recorded as it comes.

    Raises ConfigError and DataError, before anything is asked, for sets that cannot be
    read or judged.
    """
    items = check_sets(run.config, sets)
    config, ledger = run.config, run.ledger
    population = Population(config.playing, run.folder / "players", ledger)
    roster = Roster(config, ledger)
    memory = Memory(config, ledger)
    measurement = BenchmarkMeasurement(
        run,
        population,
        Recorder(config, ledger, population, monitor),
        Contexts(config, ledger, roster, population, memory),
        monitor,
    )
    try:
        return [
            measurement.measure(name, benchmark, items[name], player)
            for name, benchmark in sets.items()
            for player in players
        ]
    finally:
        population.release()


# -- who is measured


def players_of(run: RunDirectory, wanted: Sequence[str]) -> list[PlayerId]:
    """The players that `NAME`, `NAME@GENERATION` or `NAME@all` mean; none named: the
    start and the newest generation of everyone who learns, else everybody.

    Raises RunError for a player or generation that the run does not have.
    """
    ages = _ages(run)
    if not wanted:
        learning = run.config.measured
        return [
            PlayerId(name, age)
            for name in learning
            for age in sorted({0, ages[name][-1]})
        ]
    chosen: dict[PlayerId, None] = {}
    for text in wanted:
        name, _, generation = text.partition("@")
        if name not in ages:
            hint = nearest(name, list(ages))
            raise RunError(f"{run.folder}: no player '{name}'; {hint}")
        chosen |= dict.fromkeys(_generations(run, name, generation, ages[name]))
    return list(chosen)


def _generations(
    run: RunDirectory, name: str, generation: str, ages: Sequence[int]
) -> list[PlayerId]:
    if not generation:
        return [PlayerId(name, ages[-1])]
    if generation == "all":
        return [PlayerId(name, age) for age in ages]
    if not generation.isdigit() or int(generation) not in ages:
        there = ", ".join(map(str, ages))
        raise RunError(
            f"{run.folder}: no generation '{generation}' of {name}; there are {there}"
        )
    return [PlayerId(name, int(generation))]


def _ages(run: RunDirectory) -> dict[str, list[int]]:
    """Name -> the generations that can play: as given, and those whose weights are there."""
    folder = run.folder / "players"
    ages = {}
    for name in run.config.players:
        born = [path.name for path in (folder / name).glob("[0-9]*") if path.is_dir()]
        ages[name] = [
            0,
            *sorted(int(age) for age in born if age.isdigit() and int(age)),
        ]
    return ages


# -- a run for a model of its own

NAME = "model"  # what a bare model is called in the run that is made for it


def is_run(target: str | Path) -> bool:
    """Whether it is the folder of a run."""
    return (Path(target) / "ledger.sqlite").is_file()


def run_for_model(
    model: str, out: str | Path | None, overrides: recipes.Overrides
) -> Path:
    """The folder of a run in which nobody learns, for a model's folder, hub id or
    packaged name, or for an endpoint's address; an earlier one of the same settings is
    used again.

    Args: out: the folder, None: below runs/evaluate; overrides: settings of the player.
    Raises ConfigError for a model that cannot be used, RunError where the folder holds
    another one.
    """
    config = recipes.load(model_settings(model, overrides))
    folder = Path("runs", "evaluate", config.name) if out is None else Path(out)
    if is_run(folder):
        with RunDirectory.read(folder) as run:
            if essence(run.config.model_dump(mode="json")) != essence(
                config.model_dump(mode="json")
            ):
                raise RunError(
                    f"{folder}: holds a run of other settings; choose another --out"
                )
        return folder
    with RunDirectory.create(config, folder):
        return folder


def model_settings(model: str, overrides: recipes.Overrides) -> dict[str, Any]:
    """The configuration of the run that is made for a model. Raises ConfigError."""
    is_address = model.startswith(("http://", "https://"))
    player: dict[str, Any] = {"kind": "local", "model": model}
    if is_address:
        player = {"kind": "endpoint", "base_url": model}
    recipes.override(player, overrides)
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
    }


# -- which sets


def named_sets(
    on: Sequence[Any], judge: Judge | None, overrides: recipes.Overrides
) -> dict[str, Benchmark]:
    """Name -> set for what `--on` gives: a kind's name, a file of prompts, a YAML file
    of a set or of several by name, YAML text, a mapping, a component; `NAME=` before
    one names it.

    Args: judge: of every set that names none; overrides: of every set. Raises
    ConfigError.
    """
    sets: dict[str, Benchmark] = {}
    for given in on:
        for name, values in _settings_of(given):
            if judge is not None:
                values.setdefault("judge", recipes.plain(judge))
            benchmark = recipes.component(Benchmark, values, overrides, f"--on {name}")
            if name in sets:
                raise ConfigError(
                    f"--on: two sets are called '{name}'; name one with NAME={name}"
                )
            sets[name] = benchmark
    return sets


def _settings_of(given: Any) -> list[tuple[str, dict[str, Any]]]:
    """(name, settings) of the sets that one argument means."""
    if isinstance(given, Component | type) or not isinstance(
        given, str | Path | Mapping
    ):
        given = recipes.plain(given)
    if isinstance(given, Mapping):
        return _by_name(dict(recipes.plain(given)))
    text = str(given)
    name, equals, spec = text.partition("=")
    if equals and name.isidentifier():
        [(_, values)] = _settings_of(spec)
        return [(name, values)]
    if text in Benchmark.known_kinds() or _is_import_path(text):
        return [(text.rpartition(":")[2], {"kind": text})]
    if text.endswith((".yaml", ".yml")) or text.lstrip().startswith("{"):
        return _by_name(recipes.parsed(text, "--on"))
    return [(_file_name(text), {"kind": "prompts", "prompts": text})]


def _by_name(values: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if "kind" in values:
        return [(str(values["kind"]), values)]
    if "prompts" in values:
        return [("prompts", {"kind": "prompts", **values})]
    return [
        (name, dict(inner) if isinstance(inner, Mapping) else {"kind": inner})
        for name, inner in values.items()
    ]


def _is_import_path(text: str) -> bool:
    module, colon, name = text.partition(":")
    return (
        bool(colon) and name.isidentifier() and module.replace(".", "").isidentifier()
    )


def _file_name(text: str) -> str:
    """What a file's set is called: its name without folder and suffix."""
    return Path(text.partition("#")[0]).stem or text
