"""The report's drawings, as plain plotly data: a curve with its band, a long series, a heat map, bars, dots.

Plain dictionaries and not `plotly.graph_objects`, which takes a second to import; the tests validate them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.ratings.base import Rating
from equipoise.report.facts import Curve, Series
from equipoise.report.section import Figure, Table, known, label, number

MOST_POINTS = 1200  # of a series; more are averaged in equal bins, since a screen has no more columns
MOST_TICKS = 40  # names, markers or boundaries on an axis; of more names, every second or third …
MOST_WRITTEN = 10  # players up to which a heat map's cells carry their numbers


def names_axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """An axis with a name at 0, 1, 2 …: names as ticks, because plotly would merge equal categories and read dates."""
    places = range(0, len(names), -(-len(names) // MOST_TICKS) or 1)
    return {"tickvals": list(places), "ticktext": [label(names[i]) for i in places], "zeroline": False, **more}


def _downwards(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """A vertical axis of names, the first on top."""
    return names_axis(names, range=[len(names) - 0.5, -0.5], **more)


def _tall(names: Sequence[str]) -> int:
    return min(max(110 + 34 * len(names), 200), 1400)


def _runs(curve: Curve) -> list[list[int]]:
    """Indices in stretches without a gap in mean or interval."""
    runs: list[list[int]] = [[]]
    for i, values in enumerate(zip(curve.mean, curve.low, curve.high, strict=True)):
        if np.isfinite(values).all():
            runs[-1].append(i)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _band(curve: Curve, run: list[int]) -> dict[str, Any]:
    """The interval over one stretch: a closed area, or a bar where the stretch is a single point."""
    x, low, high = ([values[i] for i in run] for values in (curve.x, curve.low, curve.high))
    if len(run) == 1:
        middle = curve.mean[run[0]]
        error = {"type": "data", "symmetric": False, "array": [high[0] - middle], "arrayminus": [middle - low[0]]}
        return {"x": x, "y": [middle], "mode": "markers", "marker": {"color": "@blue", "size": 7},
                "error_y": {**error, "color": "@blue", "thickness": 1.5}, "hoverinfo": "skip"}  # fmt: skip
    return {"x": x + x[::-1], "y": high + low[::-1], "mode": "lines", "fill": "toself", "fillcolor": "@blue/0.16",
            "line": {"width": 0}, "hoverinfo": "skip"}  # fmt: skip


def _said(curve: Curve, i: int) -> tuple[str, str]:
    """Mean and interval of the curve's i-th point, to read."""
    unit = "%" if curve.unit == "%" else ""
    mean = number(curve.mean[i], unit)
    if not curve.low or known(curve.low[i]) is None:
        return mean, "–"
    return mean, f"{number(curve.low[i], unit)} to {number(curve.high[i], unit)}"


def curve_figure(curve: Curve, x_title: str = "generation") -> Figure:
    """A measure over generations with its interval as a band."""
    points = [_said(curve, i) for i in range(len(curve.x))]
    unit = "" if curve.unit == "%" else label(curve.unit)
    hover = [
        f"{x_title} {x:g}<br><b>{mean}</b> {unit}<br>{interval}"
        for x, (mean, interval) in zip(curve.x, points, strict=True)
    ]
    mode = "lines+markers" if len(curve.x) <= MOST_TICKS else "lines"
    line = {"x": list(curve.x), "y": [known(y) for y in curve.mean], "mode": mode, "hovertext": hover,
            "hoverinfo": "text", "line": {"color": "@blue", "width": 2.5}, "marker": {"color": "@blue", "size": 7},
            "connectgaps": False}  # fmt: skip
    span = max(curve.x, default=0) - min(curve.x, default=0)
    layout = {
        "xaxis": {"title": {"text": x_title}, **({"dtick": 1} if span <= 14 else {})},
        "yaxis": {"title": {"text": unit}, **({"tickformat": ".0%"} if curve.unit == "%" else {})},
        "showlegend": False,
    }
    rows = tuple((f"{x:g}", *said) for x, said in zip(curve.x, points, strict=True))
    table = Table((x_title, "value" if curve.unit in ("", "%") else f"value, {curve.unit}", "95 % interval"), rows)
    bands = [_band(curve, run) for run in _runs(curve)] if curve.low else []
    return Figure(curve.name, [*bands, line], layout, note=curve.note, table=table)


def binned(x: np.ndarray, y: np.ndarray, most: int = MOST_POINTS) -> tuple[np.ndarray, np.ndarray, int]:
    """The series averaged over `size` neighbours at a time so that at most `most` points remain: (x, y, size)."""
    size = -(-len(x) // most) if len(x) > most else 1
    starts = np.arange(0, len(x), size)
    count = np.diff(np.append(starts, len(x)))
    return np.add.reduceat(x, starts) / count, np.add.reduceat(y, starts) / count, size


def _boundaries(at_G: Sequence[float], length: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Dotted lines where a generation's training began, and its number where there is room for it."""
    lines = [
        {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
         "line": {"color": "@faint", "width": 1, "dash": "dot"}}
        for at in at_G
    ]  # fmt: skip
    words, last = [], -np.inf
    for i, at in enumerate(at_G):
        if at - last >= length / 24:
            last = at
            words.append({"x": at, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": "left", "text": str(i + 1),
                          "showarrow": False, "font": {"size": 11, "color": "@muted"}})  # fmt: skip
    return lines, words


def series_figure(series: Series) -> Figure:
    """A measure over optimizer steps, with dotted lines where the training of one of a few generations began."""
    finite = np.isfinite(np.asarray(series.y, float))
    x, y, size = binned(np.asarray(series.x, float)[finite], np.asarray(series.y, float)[finite])
    marked = series.boundaries if len(series.boundaries) <= MOST_TICKS else ()
    lines, words = _boundaries(marked, float(np.ptp(x)) if len(x) else 0.0)
    trace = {"x": x.tolist(), "y": y.tolist(), "mode": "lines", "line": {"color": "@blue", "width": 1.5},
             "hovertemplate": "step %{x:.0f}<br><b>%{y:.4g}</b><extra></extra>"}  # fmt: skip
    layout = {"xaxis": {"title": {"text": "optimizer step"}}, "yaxis": {"title": {"text": ""}}, "shapes": lines,
              "annotations": words, "showlegend": False}  # fmt: skip
    missing = int((~finite).sum())
    notes = [
        f"each point is the mean of {size} steps" if size > 1 else "",
        f"steps without a finite value, left out: {missing}" if missing else "",
        "dotted lines: a generation's training begins" if marked else "",
    ]
    return Figure(series.name, [trace], layout, note="; ".join(note for note in notes if note))


def heat_map(title: str, names: Sequence[str], value_NN: np.ndarray, written: list[list[str]], hover: list[list[str]]
             ) -> Figure:  # fmt: skip
    """A square of numbers around zero: blue above, orange below, empty where there is none."""
    n = len(names)
    finite = np.abs(value_NN[np.isfinite(value_NN)])
    reach = max(float(finite.max()) if finite.size else 0.0, 1e-6)
    places = list(range(n))
    trace = {
        "type": "heatmap", "x": places, "y": places, "z": [[known(v) for v in row] for row in value_NN.tolist()],
        "zmin": -reach, "zmax": reach, "xgap": 2, "ygap": 2, "hoverongaps": False, "hoverinfo": "text",
        "hovertext": hover, "colorscale": [[0, "@low"], [0.5, "@neutral"], [1, "@high"]], "textfont": {"color": "@ink"},
        "colorbar": {"thickness": 10, "outlinewidth": 0, "len": 0.9},
        **({"text": written, "texttemplate": "%{text}"} if n <= MOST_WRITTEN else {}),
    }  # fmt: skip
    layout = {
        "xaxis": names_axis(names, side="top", showgrid=False, title={"text": "… meets"}),
        "yaxis": _downwards(names, showgrid=False, title={"text": "what this player gets"}),
    }
    table = Table(("", *names), tuple((name, *row) for name, row in zip(names, written, strict=True)))
    return Figure(title, [trace], layout, height=min(150 + 56 * n, 760), wide=True, table=table if n <= 24 else None)


def bars(title: str, weights: Sequence[tuple[str, float]], note: str = "") -> Figure:
    """Shares, one bar a name, the first on top."""
    names = [name for name, _ in weights]
    trace = {
        "type": "bar", "orientation": "h", "y": list(range(len(names))), "x": [known(w) for _, w in weights],
        "marker": {"color": "@blue"}, "hoverinfo": "text", "text": [number(w, "%") for _, w in weights],
        "textposition": "outside", "cliponaxis": False,
        "hovertext": [f"{label(name)}<br><b>{number(w, '%')}</b>" for name, w in weights],
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "share"}, "tickformat": ".0%", "range": [0, 1.14],
                  "tickvals": [0, 0.25, 0.5, 0.75, 1]},
        "yaxis": _downwards(names, showgrid=False),
        "showlegend": False, "bargap": 0.35,
    }  # fmt: skip
    table = Table(("player", "share"), tuple((name, number(w, "%")) for name, w in weights))
    return Figure(title, [trace], layout, note=note, height=_tall(names), table=table)


def dots(title: str, ratings: Sequence[Rating], unit: str = "") -> Figure:
    """Ratings with their intervals, the first on top."""
    names = [rating.name for rating in ratings]
    said = [
        (
            number(r.value, digits=1),
            "–" if known(r.low) is None else f"{number(r.low, digits=1)} to {number(r.high, digits=1)}",
        )
        for r in ratings
    ]
    trace = {
        "x": [known(r.value) for r in ratings], "y": list(range(len(names))), "mode": "markers",
        "marker": {"color": "@blue", "size": 9}, "hoverinfo": "text",
        "hovertext": [f"{label(names[i])}<br><b>{mean}</b><br>{between}" for i, (mean, between) in enumerate(said)],
        "error_x": {"type": "data", "symmetric": False, "color": "@blue", "thickness": 2, "width": 5,
                    "array": [known(r.high - r.value) for r in ratings],
                    "arrayminus": [known(r.value - r.low) for r in ratings]},
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": label(unit)}},
        "yaxis": _downwards(names),
        "showlegend": False,
    }
    table = Table(("player", "rating", "95 % interval"), tuple((n, *s) for n, s in zip(names, said, strict=True)))
    return Figure(title, [trace], layout, height=_tall(names), table=table)
