"""Results on named sets: recorded, logged, and as a criterion of choice."""

from collections.abc import Sequence

import msgspec

from equipoise.component import fixed_settings
from equipoise.errors import RunError
from equipoise.evaluation.last_test import Criterion
from equipoise.evaluation.sets.base import Benchmark
from equipoise.ledger.benchmark_results import STAGE, recorded_results, stage_key
from equipoise.ledger.database import to_json
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores
from equipoise.ledger.ledger import Ledger
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId, record_id


def record(
    run: RunDirectory,
    player: PlayerId,
    result: BenchmarkResult,
    items: Sequence[ItemScores] = (),
    seconds: float = 0.0,
) -> BenchmarkResult:
    """Record a result measured elsewhere, with each item's scores where they are known.

    The same again changes nothing; another for the same set, player and source is shown in place of
    the earlier. Needs a run open for writing. Raises RunError for a result without a name or a
    source, or of a player that the run does not have.
    """
    if not result.name or not result.source:
        raise RunError("an imported result needs the name of its set and a source")
    if player.name not in run.settings["players"]:
        known = ", ".join(run.settings["players"])
        raise RunError(f"{run.folder}: no player '{player.name}'; known: {known}")
    result = msgspec.structs.replace(result, player=str(player))
    digest = record_id(to_json(result.facts()))[:12]
    key = stage_key(result.name, player, f"{result.source}/{digest}")
    if not run.ledger.has_finished(key):
        log(run, key, result)
        with run.ledger.transaction():
            run.ledger.add_benchmark_scores(key, items)
            facts = result.facts()
            run.ledger.finish(key, player.generation, STAGE, facts, seconds)
    return result


def log(run: RunDirectory, stage: str, result: BenchmarkResult) -> None:
    """A line of metrics with the means of a result."""
    generation = PlayerId.parse(result.player).generation
    means = {
        f"{result.name}/{metric}": value.mean
        for metric, value in result.metrics.items()
        if value.mean is not None
    }
    run.metric(stage, generation=generation, player=result.player, **means)


def set_criterion(ledger: Ledger, name: str, named_set: Benchmark) -> Criterion:
    """Every player's headline on a named set of the run, to choose the best of them by."""
    settings = fixed_settings(named_set.settings())
    of_set = []
    for _, result in recorded_results(ledger, every=True):
        own = fixed_settings(result.settings)
        # A harness adds what it found, such as the version of its task.
        if result.name == name and {**own, **settings} == own:
            of_set.append(result)
    scores = {PlayerId.parse(result.player): result.score.interval for result in of_set}
    lower = any(result.headline in result.lower_is_better for result in of_set)
    return Criterion(scores, name, lower)
