"""Results on named sets as the ledger has them: read, compared with the start, as rows."""

from collections.abc import Iterator
from typing import NamedTuple

from equipoise import __version__
from equipoise.ledger.frames import Row, columns
from equipoise.ledger.item_scores import AgainstStart, BenchmarkResult, paired_differences
from equipoise.ledger.ledger import Ledger
from equipoise.types import PlayerId

STAGE = "benchmark"  # the stage whose facts are a `BenchmarkResult`
SOURCE = f"equipoise {__version__}"


class RecordedResult(NamedTuple):
    """A result, and the key of the stage that it was recorded under."""

    stage: str
    result: BenchmarkResult


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
