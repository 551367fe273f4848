"""Measures a run's players, a model or an endpoint on named sets; nothing is trained."""

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.api.extending import change_settings
from equipoise.api.model_targets import Model, player_of
from equipoise.blocks.terminal import show_notes
from equipoise.component import fixed_settings, nearest
from equipoise.errors import ConfigError, RunError, Stopped
from equipoise.evaluation.sets.base import Benchmark
from equipoise.judges.base import Judge
from equipoise.ledger.benchmark_results import STAGE
from equipoise.ledger.item_scores import BenchmarkResult
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.runs.monitor import Monitor
from equipoise.runs.named_sets.measure_set import measure_set
from equipoise.runs.named_sets.set_plan import Sets, check_sets
from equipoise.runs.named_sets.sets import Sweep, as_trained, named_sets
from equipoise.runs.open_run import OpenRun
from equipoise.system.effects import effects_of
from equipoise.system.user_parts import only_reading
from equipoise.types import PlayerId

LONGEST_PATH = 250  # characters
SETS_FILE = re.compile(r"\.(jsonl?|ya?ml|csv|tsv|parquet|txt|arrow)(#\w+)?$")
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
    below = as_trained(run) if trained else None
    told = run.effects().notes(quiet=True)  # when it was opened
    sets = sets_announced(on, judge, settings, sweep, below, told)
    wanted = [players] if isinstance(players, str) else players
    try:
        return measure_sets(run, players_of(run, wanted), sets, monitor)
    except KeyboardInterrupt:
        raise Stopped(
            "stopped; everything recorded so far is kept, and the same command goes on"
        ) from None


def sets_announced(
    on: Any,
    judge: Any,
    settings: recipe_loader.Overrides = (),
    sweep: Sweep = (),
    below: Mapping[str, Any] | None = None,
    told: Collection[str] = (),
) -> dict[str, Benchmark]:
    """`named_sets`; what they run of the user's, and where they send texts, is shown before any of
    it is imported. `told`: notes that were shown already.
    """

    def made() -> dict[str, Benchmark]:
        by = judge and recipe_loader.component(Judge, judge, None, "--judge").as_it_is()
        return named_sets(listed_sets(on), by, settings, sweep, below)

    with only_reading(files=True):
        notes: list[str] = []
        for named_set in made().values():
            notes += effects_of(named_set, Path.cwd()).notes(quiet=True)
    show_notes([note for note in dict.fromkeys(notes) if note not in told])
    return made()


def listed_sets(on: Any) -> list[Any]:
    """The sets that `on` gives: one, a list of several, or rows or texts, which are one set.

    Raises ConfigError for an empty list.
    """
    if not isinstance(on, list | tuple):
        return [[on]] if are_texts([on]) else [on]
    if not on:
        raise ConfigError("on: names no set, and no prompt")
    if are_rows(on) or are_texts(on):
        return [list(on)]
    return list(on)


def are_rows(on: Sequence[Any]) -> bool:
    """True for a list of rows with prompts, in place of a list of sets."""
    return all(isinstance(each, Mapping) and PROMPTS.intersection(each) for each in on)


def are_texts(on: Sequence[Any]) -> bool:
    """True for a list of texts that are prompts, of several words each, and no names of sets."""
    return all(isinstance(each, str) and is_prompt(each) for each in on)


def is_prompt(text: str) -> bool:
    """True for a text of several words that names no file and no set."""
    parts = text.split()
    if len(parts) < 2 or text.lstrip().startswith("{") or SETS_FILE.search(text):
        return False
    if len(text) < LONGEST_PATH and Path(text).exists():
        return False
    name, equals, _ = text.partition("=")
    if equals and name.isidentifier():
        return False
    kinds = Benchmark.known_kinds()
    return not all(part.strip(",") in kinds for part in parts)


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
KEPT = Path("runs", "evaluate")  # where models' answers are kept


def run_for_model(
    model: Model, out: str | Path | None, overrides: recipe_loader.Overrides, option: str = "--out"
) -> Path:
    """The folder of a run without learners, for a model, an endpoint's address or a player's
    settings.

    A run of the same settings is used again, one in which nothing was measured is replaced. Args:
    out: None: below runs/evaluate; option: with which the user named it. Raises ConfigError for a
    model that cannot be used, RunError where the folder holds another one.
    """
    config = recipe_loader.load(model_settings(model, overrides))
    folder = KEPT / config.name if out is None else Path(out)
    if is_run(folder):
        with RunDirectory.read(folder) as run:
            empty = is_unused(run)
        if is_run_of(config, folder):
            take_up_settings(config, folder)
            return folder
        if not empty:
            raise RunError(f"{folder}: holds a run of other settings; choose another {option}")
    with new_run(config, folder, overwrite=is_run(folder), option=option):
        return folder


def is_run_of(config: RunConfig, folder: Path) -> bool:
    """True if the run in a folder is of the same model at the same address, with the same settings
    but for those that change no result.
    """
    with RunDirectory.read(folder) as run:
        there = run.config
    return identity(there) == identity(config)


def identity(config: RunConfig) -> tuple[Any, str]:
    """Settings and address, which tell the run of a model from that of another one."""
    address = getattr(config.players.get(NAME), "base_url", "")
    return fixed_settings(config.model_dump(mode="json")), address


def take_up_settings(config: RunConfig, folder: Path) -> None:
    """Have the run that is used again go on with the model's key, limits and budget as they are
    given now.
    """
    with RunDirectory.read(folder) as run:
        before = run.config.players[NAME].model_dump(mode="json")
    now = config.players[NAME].model_dump(mode="json")
    changed = {}
    for key, value in now.items():
        if before.get(key) != value:
            changed[f"players.{NAME}.{key}"] = value
    if changed:
        with RunDirectory.open(folder) as run:
            change_settings(run, changed)


def folder_of_model(config: RunConfig, keep: Path | None = None) -> Path:
    """The folder for what a model answers: by its name, and where another one of that name lies
    there by a hash of its settings, too.
    """
    folder = (keep or KEPT) / config.name
    if not is_run(folder) or is_run_of(config, folder):
        return folder
    text = json.dumps(identity(config), sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return folder.with_name(f"{folder.name}_{digest}")


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


def model_settings(model: Model, overrides: recipe_loader.Overrides) -> dict[str, Any]:
    """The configuration of the run that is made for a model. Raises ConfigError."""
    player = player_of(model)
    recipe_loader.override(player, overrides)
    if player["kind"] == "endpoint" and "model" not in player:
        address = player.get("base_url", "it")
        raise ConfigError(
            f"{address}: an endpoint needs the model's name there: {address}#NAME, or -s "
            "player.model=NAME"
        )
    return {
        "name": Path(str(player.get("model", player["kind"]))).name,
        "generations": 0,
        "players": {NAME: player},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": "answers",
        "judge": "exact",
        "evaluate": "sets",
        "commit_every": 64,  # a batch of a local player, of which a crash can cost four
    }
