"""Measure generations by another program, a harness, and import scores that one has written."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError, RunError
from equipoise.evaluation.harnesses.base import Harness, HarnessModel, Prepared, read_scores
from equipoise.evaluation.sets.lm_eval_set import LmEvalSet
from equipoise.ledger.item_scores import BenchmarkResult
from equipoise.models.adapters import holds_adapter, resolve
from equipoise.models.device import choose_device
from equipoise.models.loading import load_config
from equipoise.players.base import Player
from equipoise.players.local import Local
from equipoise.players.population import Population
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets.results import record
from equipoise.system.effects import code_hash
from equipoise.types import PlayerId, record_id

STAGE = "harness"  # the stage whose facts are a harness's results of a player
FOLDER = "harness"  # below a run: a harness's own results, and the model's replies


def measure_by_harness(
    run: RunDirectory, players: Sequence[PlayerId], harness: Harness, set_name: str = ""
) -> list[BenchmarkResult]:
    """Score each player on the harness's tasks; recorded as it comes, and not measured twice.

    `set_name` is of the named set that the harness is; "": results are called as its tasks. Raises
    ConfigError before anything is measured: for a harness or task that is not there, and for
    players that no harness can load.
    """
    prepared = harness.prepared
    population = Population(run.players_anywhere(), run.folder / "players", run.ledger)
    for player in players:
        local_settings(population.players, player)
    results: list[BenchmarkResult] = []
    for player in players:
        with _model(population, player) as model:
            results += _measure(run, player, harness, prepared, model, set_name)
    return results


def _measure(
    run: RunDirectory,
    player: PlayerId,
    harness: Harness,
    prepared: Prepared,
    model: HarnessModel,
    set_name: str,
) -> list[BenchmarkResult]:
    precision = (model.dtype, model.products, model.attention)
    settings = sorted(prepared.essentials.items())
    code = code_hash(harness)  # of a harness of the user's own
    made_by = [code] if code else []
    digest = record_id(prepared.source, settings, precision, *made_by)[:12]
    key = f"{STAGE}/{harness.kind}/{player}/{digest}"
    if set_name:
        key += f"/{set_name}"
    facts = run.ledger.stage_facts(key)
    if facts is not None:
        return [BenchmarkResult.read(values) for values in facts["results"]]
    started = time.perf_counter()
    folder = run.folder / FOLDER
    with run.files.inner(FOLDER, make=True):
        pass
    measured = harness.measure(model, folder / str(player))
    name = f"{harness.kind}-{player}-{digest}.json"
    text = json.dumps(measured.document, indent=1, ensure_ascii=False)
    with run.files.inner(FOLDER) as results_folder:
        results_folder.write(name, text)
    of_tasks = measured.scores
    if isinstance(harness, LmEvalSet):
        of_tasks = harness.in_this_set(set_name, of_tasks)
    results = [record(run, player, scores.result, scores.items) for scores in of_tasks]
    facts = {"results": [result.facts() for result in results], "file": name}
    seconds = time.perf_counter() - started
    run.ledger.finish(key, player.generation, STAGE, facts, seconds)
    return results


def import_scores(
    run: RunDirectory,
    player: str,
    files: Sequence[Path],
    source: str,
    model: str = "",
    name: str = "",
) -> list[BenchmarkResult]:
    """Record beside the run the scores of a player that a harness or an official judge wrote.

    Args: as `Run.import_scores`; source: one of `sources.READERS`. Raises ConfigError, DataError
    and RunError before anything is recorded.
    """
    identity = _generation(run, player)
    read = [scores for file in files for scores in read_scores(file, source, model)]
    if name and len(read) > 1:
        raise ConfigError(f"--name: there are {len(read)} results; import them one by one")
    for result in (scores.result for scores in read):
        if 0 < result.answers == result.unscored:
            raise DataError(f"{result.name}: no answer is scored; {next(iter(result.reasons), '')}")
    results = []
    for scores in read:
        result = scores.result
        if name:
            result = msgspec.structs.replace(result, name=name)
        results.append(record(run, identity, result, scores.items))
    return results


def _generation(run: RunDirectory, player: str) -> PlayerId:
    """The generation, with or without its weights; RunError if the run never had it."""
    name, _, age = player.partition("@")
    known = [PlayerId(each) for each in run.settings["players"]]
    known += [birth.player for birth in run.ledger.players()]
    own = sorted({each for each in known if each.name == name})
    if not own:
        hint = nearest(name, list(run.settings["players"]))
        raise RunError(f"{run.folder}: no player '{name}'; {hint}")
    if not age:
        return own[-1]
    for each in own:
        if str(each.generation) == age:
            return each
    there = ", ".join(str(each.generation) for each in own)
    raise RunError(f"{run.folder}: no generation '{age}' of {name}; there are {there}")


# -- a generation as another program loads it


def local_settings(players: Mapping[str, Player], player: PlayerId) -> Local:
    """The player's settings. Raises ConfigError for one that no harness can load."""
    settings = players[player.name]
    if not isinstance(settings, Local):
        raise ConfigError(
            f"{player}: a harness loads weights, and this player is of kind "
            f"{settings.kind}; for an endpoint give the harness its address "
            "(docs/evaluate.md)"
        )
    if settings.quantization is not None:
        raise ConfigError(
            f"{player}: plays on its base in {settings.quantization}, and a harness would load all "
            "of it; measure it here (`equipoise evaluate`), or give the harness what `equipoise "
            "merge` writes"
        )
    return settings


@contextmanager
def _model(population: Population, player: PlayerId) -> Iterator[HarnessModel]:
    settings = local_settings(population.players, player)
    weights = population.weights(player)
    base = resolve(settings.model)
    is_adapter = weights is not None and holds_adapter(weights, settings.lora)
    whole = weights is not None and not is_adapter
    device = choose_device(settings.device)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="equipoise-"))
        settings.encoding().save(folder, dated=True)  # with the player's template
        yield HarnessModel(
            model=str(weights) if whole else base,
            adapter=str(weights) if is_adapter else None,
            tokenizer=folder,
            dtype=_dtype(settings, device.type),
            products="bfloat16" if settings.precision == "bf16" else None,
            device=str(device),
            attention=settings.attention,
            template_options=settings.chat_options,
        )


def _dtype(settings: Local, device: str) -> str:
    """The type of the weights as the player itself would load them."""
    if settings.dtype != "auto":
        return settings.dtype
    own = None if device == "cpu" else load_config(settings.model).dtype
    return "float32" if own is None else str(own).removeprefix("torch.")
