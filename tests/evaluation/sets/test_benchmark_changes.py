"""What a run says at its end of the named sets: at the start and now."""

from msgspec.structs import replace

from equipoise.evaluation.sets.results_section import (
    benchmark_changes,
    benchmark_headlines,
    benchmarks_section,
    sweeps,
)
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import AgainstStart, BenchmarkResult
from equipoise.runs import recipe_loader


def result(player: str, mean: float, **more) -> BenchmarkResult:
    metrics = {"score": Estimate(mean, mean - 0.1, mean + 0.1, 50)}
    return BenchmarkResult(
        name="greedy",
        benchmark="prompts",
        player=player,
        headline="score",
        metrics=metrics,
        n=50,
        **more,
    )


def test_a_set_is_shown_at_the_start_and_of_the_newest_generation():
    start, middle, end = (result(f"policy@{t}", 0.5 + 0.1 * t) for t in range(3))
    rows = [AgainstStart(start, None, {})]
    rows += [AgainstStart(later, start, {}) for later in (middle, end)]
    (change,) = benchmark_changes(rows)
    assert (change.name, change.unit) == ("greedy", "%")
    assert change.before is not None
    assert change.after is not None
    assert (change.before.mean, change.after.mean) == (0.5, 0.7)
    assert change.higher_is_better


def test_of_several_players_each_has_its_headline_and_its_change():
    rows = []
    for name, mean in (("ann", 0.5), ("bob", 0.3)):
        start, end = (result(f"{name}@{t}", mean + 0.1 * t) for t in range(2))
        rows += [AgainstStart(start, None, {}), AgainstStart(end, start, {})]
    assert [change.name for change in benchmark_changes(rows)] == ["greedy of ann", "greedy of bob"]
    labels = [line.label for line in benchmark_headlines(rows)]
    assert labels == ["greedy (score) of ann@1", "greedy (score) of bob@1"]


def test_a_set_without_a_start_and_a_sweep_are_no_change():
    assert not list(benchmark_changes([AgainstStart(result("policy@0", 0.5), None, {})]))
    start = result("policy@0", 0.5)
    swept = result("policy@1", 0.6, settings={"varied": {"temperature": "0"}})
    assert not list(benchmark_changes([AgainstStart(swept, start, {})]))


def test_a_set_of_which_less_is_better_says_so():
    start, end = (result(f"policy@{t}", 0.5, lower_is_better=("score",)) for t in range(2))
    (change,) = benchmark_changes([AgainstStart(end, start, {})])
    assert not change.higher_is_better


def test_a_null_takes_a_recipes_set_away():
    for override in ("evaluate.sets.greedy=null", "evaluate.sets=null"):
        assert not recipe_loader.load("quickstart", [override]).evaluate.sets
    assert list(recipe_loader.load("quickstart").evaluate.sets) == ["greedy"]


def test_sweeps_by_two_judges_are_two_tables():
    rows = [
        AgainstStart(
            result("policy@0", mean, judge=judge, settings={"varied": {"temperature": "0"}}),
            None,
            {},
        )
        for judge, mean in (("exact", 0.5), ("shorter", 0.7))
    ]
    first, second = sweeps(rows)
    assert "by exact" in first.name
    assert "by shorter" in second.name
    assert [sweep.table().rows[0][1][:6] for sweep in (first, second)] == ["50.0 %", "70.0 %"]
    over = {"varied": {"judge.samples": "1"}}  # each value is another judge
    rows = [row._replace(result=replace(row.result, settings=over)) for row in rows]
    (sweep,) = sweeps(rows)
    assert sweep.name == "greedy"


def test_results_on_other_items_share_no_row_and_no_curve():
    few = replace(result("policy@0", 0.7, key="few", source="equipoise"), n=10)
    whole = result("policy@1", 0.5, key="all", source="equipoise")
    rows = [AgainstStart(few, None, {}), AgainstStart(whole, None, {})]
    overview, *others = benchmarks_section(rows).blocks
    assert [row[0] for row in overview.rows] == ["greedy, 10 items", "greedy, 50 items"]
    assert [row[2:].count("–") for row in overview.rows] == [1, 1]
    assert [block.title for block in others] == ["Every metric (↓: less is better)"]
