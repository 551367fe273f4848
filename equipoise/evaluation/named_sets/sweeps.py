"""Sweeps: a set measured with several values of a setting, as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from equipoise.evaluation.named_sets.records import AgainstStart, BenchmarkResult
from equipoise.report.curves import lines_figure
from equipoise.report.elements import Curve
from equipoise.report.section import Figure, Table


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
        columns = list(dict.fromkeys(varied(r)[last] for r in self.results))
        cells: dict[tuple[str, ...], dict[str, str]] = {}
        for result in self.results:
            settings = varied(result)
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
                x = float(varied(result)[key])
            except ValueError:
                return None
            points.setdefault(result.player, []).append((x, result))
        units = {result.unit(result.headline) for result in self.results}
        unit = units.pop() if len(units) == 1 else ""
        curves = [_curve(name, unit, line) for name, line in points.items()]
        return lines_figure(f"{self.name} by {key}", curves, key, unit)


def sweeps(results: Sequence[AgainstStart]) -> Iterator[Sweep]:
    """Every sweep among the results, in their order."""
    groups: dict[tuple[str, tuple[str, ...], str], list[BenchmarkResult]] = {}
    for result, *_ in results:
        if settings := varied(result):
            name = result.name.partition("[")[0]
            groups.setdefault((name, tuple(settings), result.source), []).append(result)
    for (name, keys, _), members in groups.items():
        yield Sweep(name, keys, tuple(members))


def varied(result: BenchmarkResult) -> dict[str, str]:
    """Which settings a sweep changed to what; empty for other results."""
    return dict(result.settings.get("varied") or {})


def _curve(name: str, unit: str, line: list[tuple[float, BenchmarkResult]]) -> Curve:
    line.sort(key=lambda point: point[0])
    intervals = [result.score.interval for _, result in line]
    return Curve(
        name,
        unit,
        tuple(x for x, _ in line),
        tuple(interval.mean for interval in intervals),
        tuple(interval.low for interval in intervals),
        tuple(interval.high for interval in intervals),
    )
