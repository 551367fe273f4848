"""The page's section on benchmarks: sets and generations with their intervals, the differences from
the start, and every metric.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from equipoise.blocks.figures import dots, group_figure, lines_figure
from equipoise.blocks.section import Change, Curves, Figure, Headline, Section, Table
from equipoise.evaluation.measures import interval_curve
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import AgainstStart, BenchmarkResult, unit_of
from equipoise.ratings.base import Rating
from equipoise.types import PlayerId

WIDEST = 6  # players that have a column each
UNSCORED = 0.02  # share of the answers above which the section says so

Measured = tuple[str, str, str]  # set, judge, source: what results of players share


def benchmarks_section(results: Sequence[AgainstStart]) -> Section:
    """Everything that was measured on named sets; `results` in the order of the page."""
    if not results:
        return Section(
            "benchmarks", "Benchmarks", reason="no named set was measured (equipoise evaluate)"
        )
    single = [row for row in results if not sweep_settings(row.result)]
    blocks = [
        *([_overview(single)] if single else []),
        *_difference_figures(single),
        *_curves(single),
        *_sweep_blocks(results),
        _every_metric(results),
        *_groups(single),
    ]
    return Section("benchmarks", "Benchmarks", tuple(blocks), _lead(results))


def _sweep_blocks(results: Sequence[AgainstStart]) -> Iterator[Table | Figure]:
    for sweep in sweeps(results):
        yield from filter(None, (sweep.table(), sweep.figure()))


def benchmark_headlines(results: Sequence[AgainstStart]) -> Iterator[Headline]:
    """Each player's newest result on each set, and its difference from the start."""
    newest = _newest(results)
    for result, start, differences in newest:
        note = f"{result.n:,} items"
        if start is not None and result.headline in differences:
            difference = difference_text(differences[result.headline], result.unit(result.headline))
            note = f"{difference} over {start.player}; {note}"
        yield Headline(
            f"{_distinct_name(result, newest)} ({words(result.headline)}) of {result.player}",
            estimate_text(result.score, result.unit(result.headline)),
            note,
        )


def benchmark_changes(results: Sequence[AgainstStart]) -> Iterator[Change]:
    """Each set's headline at each player's start and at its newest, where both are known."""
    newest = _newest(results)
    players = {PlayerId.parse(row.result.player).name for row in newest}
    for result, start, _ in newest:
        if start is not None:
            whose = f" of {PlayerId.parse(result.player).name}" if len(players) > 1 else ""
            yield Change(
                _distinct_name(result, newest) + whose,
                start.score.interval,
                result.score.interval,
                result.unit(result.headline),
                result.headline not in result.lower_is_better,
            )


def _distinct_name(result: BenchmarkResult, shown: Iterable[AgainstStart]) -> str:
    """The set's name, with its judge where others judged it, too."""
    judges = {row.result.judge for row in shown if row.result.name == result.name}
    return f"{result.name} by {result.judge}" if result.judge and len(judges) > 1 else result.name


def _newest(results: Sequence[AgainstStart]) -> Collection[AgainstStart]:
    """The newest result of each set and player, sweeps aside."""
    newest: dict[tuple[Measured, str], AgainstStart] = {}
    for row in results:
        if not sweep_settings(row.result):
            newest[comparison_key(row.result), PlayerId.parse(row.result.player).name] = row
    return newest.values()


def comparison_key(result: BenchmarkResult) -> Measured:
    """The key that comparable results of different players share."""
    return (result.name, result.judge, result.source)


def words(metric: str) -> str:
    """A metric's name to read."""
    return metric.replace("_", " ")


def estimate_text(estimate: Estimate, unit: str) -> str:
    """`42.3 % (38.0 to 46.6)`; `–` where nothing is known."""
    return estimate.interval.text(unit)


def difference_text(estimate: Estimate, unit: str) -> str:
    """`+4.1 points (+1.0 to +7.2)` of shares, else in the metric's own unit."""
    interval = estimate.interval
    if math.isnan(interval.mean):
        return "–"
    if unit != "%":
        sign = "+" if interval.mean >= 0 else ""
        return f"{sign}{interval.text()}"
    mean, low, high = (100 * v for v in (interval.mean, interval.low, interval.high))
    if math.isnan(low):
        return f"{mean:+.1f} points (no two items differ)"
    return f"{mean:+.1f} points ({low:+.1f} to {high:+.1f})"


def _lead(results: Sequence[AgainstStart]) -> str:
    sentences = [
        "Named sets, asked of players as they are; nothing was trained on them. "
        "Intervals are 95 %, items counting as clusters; a difference from the start is "
        "paired, item by item."
    ]
    judges = sorted({row.result.judge for row in results if row.result.asks_a_model})
    if judges:
        sentences.append(
            f"Scores by {', '.join(judges)} are the opinion of a model, worth as much as "
            "its agreement with people: measure that before such a number is compared "
            "with one by another judge."
        )
    if any(row.result.part == "dev" for row in results):
        sentences.append("A set marked dev may have chosen the player that it scores.")
    unscored = [
        f"{result.name} of {result.player}: {result.unscored:,} of {result.answers:,}"
        for result, *_ in results
        if result.answers and result.unscored / result.answers > UNSCORED
    ]
    if unscored:
        sentences.append(f"Answers without a score, which count nowhere: {'; '.join(unscored)}.")
    sentences += [
        f"{result.name} of {result.player}: {result.note}." for result, *_ in results if result.note
    ]
    return " ".join(sentences)


def _overview(results: Sequence[AgainstStart]) -> Table:
    """Sets × players, the headline metric; of many players the first and newest of each name."""
    players = _shown_players(results)
    rows = []
    for name, alike in _alike(results):
        cells = {r.player: estimate_text(r.score, r.unit(r.headline)) for r in alike}
        rows.append((name, words(alike[0].headline), *(cells.get(p, "–") for p in players)))
    return Table(("set", "metric", *players), tuple(rows), title="Sets and generations")


def _alike(results: Sequence[AgainstStart]) -> list[tuple[str, list[BenchmarkResult]]]:
    """(name, the results that compare): of one set, asked alike on the same items."""
    groups: dict[tuple[Measured, str], list[BenchmarkResult]] = {}
    for result, *_ in results:
        groups.setdefault((comparison_key(result), result.key), []).append(result)
    several = Counter(measured for measured, _ in groups)
    return [
        (_set_name(alike[0]) + f", {alike[0].n:,} items" * (several[measured] > 1), alike)
        for (measured, _), alike in groups.items()
    ]


def _shown_players(results: Sequence[AgainstStart]) -> list[str]:
    ids = sorted({PlayerId.parse(row.result.player) for row in results})
    if len(ids) <= WIDEST:
        return [str(player) for player in ids]
    ends: dict[str, list[PlayerId]] = {}
    for player in ids:
        ends.setdefault(player.name, []).append(player)
    kept = (player for line in ends.values() for player in dict.fromkeys((line[0], line[-1])))
    return [str(player) for player in kept]


def _set_name(result: BenchmarkResult) -> str:
    """The set's name with what distinguishes it: judge, foreign source, use."""
    about = [result.judge] if result.judge else []
    if not result.source.startswith("equipoise"):
        about.append(result.source)
    if result.part == "dev":
        about.append("dev")
    return f"{result.name} ({', '.join(about)})" if about else result.name


# -- differences from the start


def _difference_figures(results: Sequence[AgainstStart]) -> Iterator[Figure]:
    """Differences of each player's newest generation from its start, set by set: one figure for
    shares; other units have only their row in the table.
    """
    compared = [row for row in results if row.result.headline in row.differences]
    shares = [row for row in _newest(compared) if row.result.unit(row.result.headline) == "%"]
    by_player: dict[str, list[AgainstStart]] = {}
    for row in shares:
        by_player.setdefault(row.result.player, []).append(row)
    for player, rows in by_player.items():
        start = rows[0].start.player if rows[0].start else "the start"
        yield dots(
            f"{player} over {start}, paired",
            [_points(row) for row in rows],
            "percentage points",
            columns=("set", "difference"),
            zero=True,
        )


def _points(row: AgainstStart) -> Rating:
    interval = row.differences[row.result.headline].interval
    values = (100 * v for v in (interval.mean, interval.low, interval.high))
    return Rating(f"{_set_name(row.result)}, {words(row.result.headline)}", *values)


# -- curves


def _curves(results: Sequence[AgainstStart]) -> Iterator[Figure]:
    """The headline metric of every set over the generations, where there are several."""
    for name, alike in _alike(results):
        lines: dict[str, list[tuple[float, BenchmarkResult]]] = {}
        for result in alike:
            player = PlayerId.parse(result.player)
            lines.setdefault(player.name, []).append((float(player.generation), result))
        title = f"{name}: {words(alike[0].headline)}"
        group = _group(title, {each: line for each, line in lines.items() if len(line) > 1})
        if group.curves:
            yield group_figure(group)


def _group(title: str, lines: Mapping[str, list[tuple[float, BenchmarkResult]]]) -> Curves:
    """A curve a name through the headline metrics of (x, result)."""
    results = [result for line in lines.values() for _, result in line]
    units = {result.unit(result.headline) for result in results}
    unit = units.pop() if len(units) == 1 else ""
    curves = []
    for name, line in lines.items():
        ordered = sorted(line, key=lambda point: point[0])
        points = [(x, result.score.interval) for x, result in ordered]
        curves.append(interval_curve(name, unit, points))
    return Curves(title, unit, tuple(curves))


# -- everything in tables


def _every_metric(results: Sequence[AgainstStart]) -> Table:
    rows = []
    for result, _, differences in results:
        names = [result.headline, *(n for n in result.metrics if n != result.headline)]
        for name in names:
            estimate, unit = result.metrics[name], result.unit(name)
            difference = differences.get(name)
            rows.append(
                (
                    _set_name(result),
                    result.player,
                    words(name) + (" ↓" if name in result.lower_is_better else ""),
                    estimate_text(estimate, unit),
                    difference_text(difference, unit) if difference else "–",
                    f"{estimate.n:,}",
                )
            )
    columns = ("set", "player", "metric", "95 % interval", "over the start", "values")
    return Table(columns, tuple(rows), title="Every metric (↓: less is better)")


def _groups(results: Sequence[AgainstStart]) -> Iterator[Table]:
    """The parts of each set that has some: the newest player's headline metric."""
    newest: dict[Measured, BenchmarkResult] = {}
    for result, *_ in results:
        if result.groups:
            newest[comparison_key(result)] = result
    for result in newest.values():
        rows = tuple(
            (group, estimate_text(of_group[result.headline], unit_of(of_group[result.headline])))
            for group, of_group in result.groups.items()
            if result.headline in of_group
        )
        title = f"Parts of {_set_name(result)}, {result.player}"
        yield Table(("part", words(result.headline)), rows, title=title)


@dataclass(frozen=True)
class Sweep:
    """The results of one set with several values of some settings.

    `keys` are the settings that changed; the values of the last are the columns.
    """

    name: str
    keys: tuple[str, ...]
    results: tuple[BenchmarkResult, ...]

    def table(self) -> Table:
        """Players, and the values of all settings but the last, a row each."""
        *others, last = self.keys
        columns = list(dict.fromkeys(sweep_settings(r)[last] for r in self.results))
        cells: dict[tuple[str, ...], dict[str, str]] = {}
        for result in self.results:
            settings = sweep_settings(result)
            row = (result.player, *(settings[key] for key in others))
            text = result.score.interval.text(result.unit(result.headline))
            cells.setdefault(row, {})[settings[last]] = text
        rows = tuple(
            (*row, *(by_value.get(value, "–") for value in columns))
            for row, by_value in cells.items()
        )
        heads = ("player", *others, *(f"{last} = {value}" for value in columns))
        metric = self.results[0].headline.replace("_", " ")
        return Table(heads, rows, title=f"{self.name} ({metric}) by {', '.join(self.keys)}")

    def figure(self) -> Figure | None:
        """The headline over the values, a line a player; None where more than one setting changed,
        or values are no numbers.
        """
        if len(self.keys) != 1:
            return None
        [key] = self.keys
        points: dict[str, list[tuple[float, BenchmarkResult]]] = {}
        for result in self.results:
            try:
                x = float(sweep_settings(result)[key])
            except ValueError:
                return None
            points.setdefault(result.player, []).append((x, result))
        group = _group(f"{self.name} by {key}", points)
        return lines_figure(group.name, group.curves, key, group.unit)


def sweeps(results: Sequence[AgainstStart]) -> Iterator[Sweep]:
    """Every sweep among the results, in their order; each judge's apart, unless it was swept."""
    groups: dict[tuple[str, tuple[str, ...], str], dict[str, list[BenchmarkResult]]] = {}
    for result, *_ in results:
        if settings := sweep_settings(result):
            name, swept = result.name.partition("[")[0], {key.split(".")[0] for key in settings}
            by_judge = groups.setdefault((name, tuple(settings), result.source), {})
            by_judge.setdefault("" if "judge" in swept else result.judge, []).append(result)
    for (name, keys, _), by_judge in groups.items():
        for judge, members in by_judge.items():
            yield Sweep(f"{name} by {judge}" if len(by_judge) > 1 else name, keys, tuple(members))


def sweep_settings(result: BenchmarkResult) -> dict[str, str]:
    """Setting -> its value in a sweep; empty for other results."""
    return dict(result.settings.get("varied") or {})
