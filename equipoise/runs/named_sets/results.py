"""Results of benchmarks in a run's ledger: recorded, imported, read, compared with the start."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from equipoise import __version__
from equipoise.component import fixed_settings
from equipoise.errors import RunError
from equipoise.evaluation.last_test import Criterion
from equipoise.evaluation.sets.base import Benchmark
from equipoise.ledger.database import to_json
from equipoise.ledger.item_scores import (
    AgainstStart,
    BenchmarkResult,
    ItemScores,
    paired_differences,
)
from equipoise.ledger.ledger import Ledger
from equipoise.report.frames import Row, columns
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId, record_id

STAGE = "benchmark"  # the stage whose facts are a `BenchmarkResult`
SOURCE = f"equipoise {__version__}"


class RecordedResult(NamedTuple):
    """A result, and the key of the stage that it was recorded under."""

    stage: str
    result: BenchmarkResult


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
    if run.ledger.stage_facts(key) is None:
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


def stage_key(name: str, player: PlayerId, digest: str) -> str:
    """The key of the stage in which a set of this name was measured."""
    return f"{STAGE}/{name}/{player}/{digest}"


def recorded_results(ledger: Ledger, *, every: bool = False) -> list[RecordedResult]:
    """The newest result of every set, judge, player and source; sets by first measurement."""
    newest: dict[tuple[str, ...], RecordedResult] = {}
    order: dict[str, int] = {}
    for key, _, _, facts, _ in ledger.stages(STAGE):
        result = BenchmarkResult.read(facts)
        order.setdefault(result.name, len(order))
        measured = (result.name, result.judge, result.player, result.source, result.key * every)
        newest[measured] = RecordedResult(key, result)
    return sorted(
        newest.values(),
        key=lambda recorded: (order[recorded.result.name], PlayerId.parse(recorded.result.player)),
    )


def results(ledger: Ledger) -> list[BenchmarkResult]:
    """As `recorded_results`, the results alone."""
    return [recorded.result for recorded in recorded_results(ledger)]


def against_start(ledger: Ledger, *, every: bool = False) -> Iterator[AgainstStart]:
    """Every newest result beside that of its player's generation 0 on the same items."""
    starts = {
        _of_player(result): (key, result)
        for key, result in recorded_results(ledger, every=True)
        if PlayerId.parse(result.player).generation == 0
    }
    for key, result in recorded_results(ledger, every=every):
        player = PlayerId.parse(result.player)
        stage, start = starts.get(_of_player(result), ("", None))
        if start is None or player.generation == 0:
            yield AgainstStart(result, None, {})
            continue
        scores, others = ledger.benchmark_scores(key), ledger.benchmark_scores(stage)
        yield AgainstStart(result, start, paired_differences(scores, others))


def set_criterion(ledger: Ledger, name: str, named_set: Benchmark) -> Criterion:
    """Every player's headline on a named set of the run, to choose the best of them by."""
    settings = fixed_settings(named_set.settings())
    of_set = [
        result
        for _, result in recorded_results(ledger, every=True)
        if result.name == name and fixed_settings(result.settings) == settings
    ]
    scores = {PlayerId.parse(result.player): result.score.interval for result in of_set}
    lower = any(result.headline in result.lower_is_better for result in of_set)
    return Criterion(scores, name, lower)


def _of_player(result: BenchmarkResult) -> tuple[str, ...]:
    """The key that the results of all generations of a player on a set have in common."""
    name = PlayerId.parse(result.player).name
    return (result.name, result.judge, name, result.source, result.key)


BENCHMARKS = columns(
    "set benchmark generation:int player name metric headline:bool mean:float low:float high:float "
    "n:int items:int unscored:int difference:float difference_low:float difference_high:float "
    "part judge source"
)


def benchmark_rows(ledger: Ledger) -> Iterator[Row]:
    """Rows of a set, player and metric: mean, 95 % interval, paired difference from the start."""
    for result, _, differences in against_start(ledger):
        player = PlayerId.parse(result.player)
        for metric, value in result.metrics.items():
            difference = differences.get(metric)
            yield {
                "set": result.name,
                "benchmark": result.benchmark,
                "generation": player.generation,
                "player": result.player,
                "name": player.name,
                "metric": metric,
                "headline": metric == result.headline,
                "mean": value.mean,
                "low": value.low,
                "high": value.high,
                "n": value.n,
                "items": result.n,
                "unscored": result.unscored,
                "difference": difference and difference.mean,
                "difference_low": difference and difference.low,
                "difference_high": difference and difference.high,
                "part": result.part,
                "judge": result.judge or None,
                "source": result.source,
            }
