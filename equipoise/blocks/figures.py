"""The report's drawings, as plain plotly data: a long series, a heat map, bars, dots; curves are in
`curves`.

Plain dictionaries and not `plotly.graph_objects`, which takes a second to import; the tests
validate them there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.blocks.section import (
    Curve,
    Curves,
    Figure,
    Series,
    Table,
    finite_or_none,
    label,
    number,
)
from equipoise.ratings.base import Rating

MOST_POINTS = 1200  # of a series, as a screen has no more columns; more are averaged
MOST_TICKS = 40  # names, markers or boundaries on an axis; of more names, every second or third …
MOST_NAMES = 24  # in a legend, which would leave no room; of more, names show on hover
ROUNDING = 1e-9  # numbers that differ by less are drawn as equal
MOST_WRITTEN = 10  # players up to which a heat map's cells carry their numbers


def names_axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """An axis with a name at 0, 1, 2 …: names as ticks, because plotly would merge equal categories
    and read dates.
    """
    places = range(0, len(names), -(-len(names) // MOST_TICKS) or 1)
    return {
        "tickvals": list(places),
        "ticktext": [label(names[i]) for i in places],
        "zeroline": False,
        **more,
    }


def downwards(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """A vertical axis of names, the first on top."""
    return names_axis(names, range=[len(names) - 0.5, -0.5], **more)


def _tall(names: Sequence[str]) -> int:
    return min(max(110 + 34 * len(names), 200), 1400)


def bin_series(
    x: np.ndarray, y: np.ndarray, most: int = MOST_POINTS
) -> tuple[np.ndarray, np.ndarray, int]:
    """The series averaged over `size` neighbours at a time so that at most `most` points remain:
    (x, y, size).
    """
    size = -(-len(x) // most) if len(x) > most else 1
    starts = np.arange(0, len(x), size)
    count = np.diff(np.append(starts, len(x)))
    return np.add.reduceat(x, starts) / count, np.add.reduceat(y, starts) / count, size


def boundary_marks(
    at_G: Sequence[float], length: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Dotted lines where a generation's training began, and its number where there is room."""
    lines = [
        {
            "type": "line",
            "x0": at,
            "x1": at,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "line": {"color": "@faint", "width": 1, "dash": "dot"},
        }
        for at in at_G
    ]
    words, last = [], -np.inf
    for i, at in enumerate(at_G):
        if at - last >= length / 24:
            last = at
            words.append(
                {
                    "x": at,
                    "y": 1,
                    "yref": "paper",
                    "yanchor": "bottom",
                    "xanchor": "left",
                    "text": str(i + 1),
                    "showarrow": False,
                    "font": {"size": 11, "color": "@muted"},
                }
            )
    return lines, words


def series_figure(series: Series) -> Figure:
    """A measure over optimizer steps, with dotted lines where the training of one of a few
    generations began.
    """
    finite = np.isfinite(np.asarray(series.y, float))
    x, y, size = bin_series(
        np.asarray(series.x, float)[finite], np.asarray(series.y, float)[finite]
    )
    marked = series.boundaries if len(series.boundaries) <= MOST_TICKS else ()
    lines, words = boundary_marks(marked, float(np.ptp(x)) if len(x) else 0.0)
    trace = {
        "x": x.tolist(),
        "y": y.tolist(),
        "mode": "lines",
        "line": {"color": "@blue", "width": 1.5},
        "hovertemplate": "step %{x:.0f}<br><b>%{y:.4g}</b><extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "optimizer step"}},
        "yaxis": {"title": {"text": ""}},
        "shapes": lines,
        "annotations": words,
        "showlegend": False,
    }
    missing = int((~finite).sum())
    notes = [
        f"each point is the mean of {size} steps" if size > 1 else "",
        f"steps without a finite value, left out: {missing}" if missing else "",
        "dotted lines: a generation's training begins" if marked else "",
    ]
    return Figure(series.name, [trace], layout, note="; ".join(note for note in notes if note))


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    value_RC: np.ndarray,
    written: list[list[str]],
    hover: list[list[str]],
    titles: tuple[str, str],
    around_zero: bool = True,
) -> Figure:
    """A grid of numbers, empty where there is none.

    Around zero: blue above, orange below, as deep as the largest is far from 0. Else from pale to
    blue, from the smallest to the largest. Where all are the same there is no scale. `titles` are
    those of the rows' and the columns' axes.
    """
    value_V = value_RC[np.isfinite(value_RC)]
    low, high = (float(value_V.min()), float(value_V.max())) if value_V.size else (0.0, 0.0)
    ends = (-max(-low, high), max(-low, high)) if around_zero else (low, high)
    differ = ends[1] - ends[0] > ROUNDING
    if not differ:  # nothing to shade, and no scale of millionths
        ends = (ends[0] - 1.0, ends[1] + 1.0) if around_zero else (ends[0], ends[0] + 1.0)
    scale = (
        [[0, "@low"], [0.5, "@neutral"], [1, "@high"]]
        if around_zero
        else [[0, "@neutral"], [1, "@high"]]
    )
    few = max(len(rows), len(columns)) <= MOST_WRITTEN
    trace = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "z": [[finite_or_none(v) for v in row] for row in value_RC.tolist()],
        "zmin": ends[0],
        "zmax": ends[1],
        "showscale": differ,
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "hoverinfo": "text",
        "hovertext": hover,
        "colorscale": scale,
        "textfont": {"color": "@ink"},
        "colorbar": {"thickness": 10, "outlinewidth": 0, "len": 0.9},
        **({"text": written, "texttemplate": "%{text}"} if few else {}),
    }
    layout = {
        "xaxis": names_axis(columns, side="top", showgrid=False, title={"text": label(titles[1])}),
        "yaxis": downwards(rows, showgrid=False, title={"text": label(titles[0])}),
    }
    table = Table(
        ("", *columns), tuple((name, *row) for name, row in zip(rows, written, strict=True))
    )
    small = max(len(rows), len(columns)) <= 24
    height = min(150 + 56 * len(rows), 760)
    return Figure(title, [trace], layout, height=height, wide=True, table=table if small else None)


def bars(title: str, weights: Sequence[tuple[str, float]], note: str = "") -> Figure:
    """Shares, one bar a name, the first on top."""
    names = [name for name, _ in weights]
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(names))),
        "x": [finite_or_none(w) for _, w in weights],
        "marker": {"color": "@blue"},
        "hoverinfo": "text",
        "text": [number(w, "%") for _, w in weights],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": [f"{label(name)}<br><b>{number(w, '%')}</b>" for name, w in weights],
    }
    layout = {
        "xaxis": {
            "title": {"text": "share"},
            "tickformat": ".0%",
            "range": [0, 1.14],
            "tickvals": [0, 0.25, 0.5, 0.75, 1],
        },
        "yaxis": downwards(names, showgrid=False),
        "showlegend": False,
        "bargap": 0.35,
    }
    table = Table(("player", "share"), tuple((name, number(w, "%")) for name, w in weights))
    return Figure(title, [trace], layout, note=note, height=_tall(names), table=table)


def dots(
    title: str,
    ratings: Sequence[Rating],
    unit: str = "",
    columns: tuple[str, str] = ("player", "rating"),
    zero: bool = False,
) -> Figure:
    """Ratings, or other numbers, with their intervals, the first on top.

    `columns` name what is rated and the number, in the table; `zero`: the axis shows 0, with a
    line.
    """
    names = [rating.name for rating in ratings]
    said = [
        (
            number(r.value, digits=1),
            "–"
            if finite_or_none(r.low) is None
            else f"{number(r.low, digits=1)} to {number(r.high, digits=1)}",
        )
        for r in ratings
    ]
    trace = {
        "x": [finite_or_none(r.value) for r in ratings],
        "y": list(range(len(names))),
        "mode": "markers",
        "marker": {"color": "@blue", "size": 9},
        "hoverinfo": "text",
        "hovertext": [
            f"{label(names[i])}<br><b>{mean}</b><br>{between}"
            for i, (mean, between) in enumerate(said)
        ],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "color": "@blue",
            "thickness": 2,
            "width": 5,
            "array": [finite_or_none(r.high - r.value) for r in ratings],
            "arrayminus": [finite_or_none(r.value - r.low) for r in ratings],
        },
    }
    layout = {
        "xaxis": {
            "title": {"text": label(unit)},
            **({"zeroline": True, "rangemode": "tozero"} if zero else {}),
        },
        "yaxis": downwards(names),
        "showlegend": False,
    }
    table = Table(
        (*columns, "95 % interval"), tuple((n, *s) for n, s in zip(names, said, strict=True))
    )
    return Figure(title, [trace], layout, height=_tall(names), table=table)


COLOURS = ("blue", "orange", "green", "red", "purple", "teal", "pink", "brown")
DASHES = (
    "solid",
    "dash",
    "dot",
    "dashdot",
)  # of more lines than colours, every eighth has the same colour
_TALL, _PLOT = (400, 290)  # pixels of the figure of several curves, and of the part within its axes
_LINE = 15  # pixels that one label needs
_FAR = 36  # pixels that a label may lie above or below its line's end


def finite_runs(curve: Curve) -> list[list[int]]:
    """Indices in stretches without a gap in mean or interval."""
    runs: list[list[int]] = [[]]
    for i, values in enumerate(zip(curve.mean, curve.low, curve.high, strict=True)):
        if np.isfinite(values).all():
            runs[-1].append(i)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def interval_band(
    curve: Curve, run: list[int], colour: str = "blue", depth: float = 0.16, **more: Any
) -> dict[str, Any]:
    """The interval over one stretch: a closed area, or a bar over a single point."""
    x, low, high = ([values[i] for i in run] for values in (curve.x, curve.low, curve.high))
    if len(run) == 1:
        middle = curve.mean[run[0]]
        error = {
            "type": "data",
            "symmetric": False,
            "array": [high[0] - middle],
            "arrayminus": [middle - low[0]],
        }
        return {
            "x": x,
            "y": [middle],
            "mode": "markers",
            "marker": {"color": f"@{colour}", "size": 7},
            "error_y": {**error, "color": f"@{colour}", "thickness": 1.5},
            "hoverinfo": "skip",
            **more,
        }
    return {
        "x": x + x[::-1],
        "y": high + low[::-1],
        "mode": "lines",
        "fill": "toself",
        "fillcolor": f"@{colour}/{depth}",
        "line": {"width": 0},
        "hoverinfo": "skip",
        **more,
    }


def point_texts(curve: Curve, i: int) -> tuple[str, str]:
    """Mean and interval of the curve's i-th point, to read."""
    unit = "%" if curve.unit == "%" else ""
    mean = number(curve.mean[i], unit)
    if not curve.low or finite_or_none(curve.low[i]) is None:
        return mean, "–"
    return mean, f"{number(curve.low[i], unit)} to {number(curve.high[i], unit)}"


def curve_figure(curve: Curve, x_title: str = "generation") -> Figure:
    """A measure over generations with its interval as a band."""
    points = [point_texts(curve, i) for i in range(len(curve.x))]
    unit = "" if curve.unit == "%" else label(curve.unit)
    hover = [
        f"{x_title} {x:g}<br><b>{mean}</b> {unit}<br>{interval}"
        for x, (mean, interval) in zip(curve.x, points, strict=True)
    ]
    mode = "lines+markers" if len(curve.x) <= MOST_TICKS else "lines"
    line = {
        "x": list(curve.x),
        "y": [finite_or_none(y) for y in curve.mean],
        "mode": mode,
        "hovertext": hover,
        "hoverinfo": "text",
        "line": {"color": "@blue", "width": 2.5},
        "marker": {"color": "@blue", "size": 7},
        "connectgaps": False,
    }
    span = max(curve.x, default=0) - min(curve.x, default=0)
    layout = {
        "xaxis": {"title": {"text": x_title}, **({"dtick": 1} if span <= 14 else {})},
        "yaxis": {"title": {"text": unit}, **({"tickformat": "~%"} if curve.unit == "%" else {})},
        "showlegend": False,
    }
    rows = tuple((f"{x:g}", *said) for x, said in zip(curve.x, points, strict=True))
    table = Table(
        (x_title, "value" if curve.unit in ("", "%") else f"value, {curve.unit}", "95 % interval"),
        rows,
    )
    bands = [interval_band(curve, run) for run in finite_runs(curve)] if curve.low else []
    return Figure(curve.name, [*bands, line], layout, note=curve.note, table=table)


def lines_figure(
    title: str, curves: Sequence[Curve], x_title: str = "generation", unit: str = "", note: str = ""
) -> Figure:
    """Several curves of one measure, named where they end if there is room, each with its band if
    they are few.
    """
    few = len(curves) <= len(COLOURS)
    traces: list[dict[str, Any]] = []
    for i, curve in enumerate(curves):
        colour, group = COLOURS[i % len(COLOURS)], {"legendgroup": str(i)}
        if curve.low and few:
            traces += [
                interval_band(curve, run, colour, 0.1, showlegend=False, **group)
                for run in finite_runs(curve)
            ]
        dash = DASHES[i // len(COLOURS) % len(DASHES)]
        traces.append({**line_trace(curve, x_title, colour, dash), **group})
    x = sorted({at for curve in curves for at in curve.x})
    ends = end_labels(curves)
    span = x[-1] - x[0] if x else 0
    room = 14 + 7 * max((len(end["text"]) for end in ends), default=0)
    layout = {
        "xaxis": {
            "title": {"text": x_title},
            **({"dtick": 1} if span <= 14 else {}),
            **({"range": [x[0] - 0.05 * span, x[-1] + 0.05 * span]} if span else {}),
        },
        "yaxis": {"title": {"text": ""}, "tickformat": "~%"}
        if unit == "%"
        else {"title": {"text": label(unit)}},
        "annotations": ends,
        "showlegend": 1 < len(curves) <= MOST_NAMES,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 12, "r": room, "t": 22, "b": 12},
    }
    bands = (
        ""
        if few or not any(curve.low for curve in curves)
        else "intervals are in the table and on hover"
    )
    by_x = [{at: point_text(curve, j) for j, at in enumerate(curve.x)} for curve in curves]
    rows = tuple((f"{at:g}", *(cells.get(at, "–") for cells in by_x)) for at in x)
    table = Table((x_title, *(curve.name for curve in curves)), rows)
    notes = "; ".join(text for text in (note, bands) if text)
    return Figure(title, traces, layout, note=notes, height=_TALL, wide=True, table=table)


def scatter_figure(
    title: str, clouds: Sequence[Curve], x_title: str, y_title: str, unit: str = ""
) -> Figure:
    """Points of several players, one colour each; `unit` is that of x, a curve's own that of y."""
    traces = [
        {
            "x": list(cloud.x),
            "y": [finite_or_none(y) for y in cloud.mean],
            "name": label(cloud.name),
            "mode": "markers",
            "marker": {"color": f"@{COLOURS[i % len(COLOURS)]}", "size": 8},
            "hoverinfo": "text",
            "hovertext": [
                f"<b>{label(cloud.name)}</b><br>{label(x_title)} {number(x, unit)}<br>"
                f"{label(y_title)} {point_text(cloud, j)}"
                for j, x in enumerate(cloud.x)
            ],
        }
        for i, cloud in enumerate(clouds)
    ]
    layout = {
        "xaxis": {
            "title": {"text": label(x_title)},
            **({"tickformat": "~%"} if unit == "%" else {}),
        },
        "yaxis": {"title": {"text": label(y_title)}},
        "showlegend": 1 < len(clouds) <= MOST_NAMES,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }
    rows = tuple(
        (cloud.name, number(x, unit), point_text(cloud, j))
        for cloud in clouds
        for j, x in enumerate(cloud.x)
    )
    table = Table(("player", x_title, y_title), rows)
    return Figure(title, traces, layout, height=_TALL, table=table)


def group_figure(group: Curves) -> Figure:
    """The curves of a measure: a single one under its own title, several as named lines."""
    if len(group.curves) != 1:
        return lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
    [curve] = group.curves
    title = f"{group.name} of {curve.name}" if curve.name else group.name
    return curve_figure(replace(curve, name=title, note=group.note))


def line_trace(curve: Curve, x_title: str, colour: str, dash: str) -> dict[str, Any]:
    """One curve of several, as plotly's data."""
    return {
        "x": list(curve.x),
        "y": [finite_or_none(y) for y in curve.mean],
        "name": label(curve.name),
        "mode": "lines+markers" if len(curve.x) <= MOST_TICKS else "lines",
        "connectgaps": False,
        "hovertext": [
            f"<b>{label(curve.name)}</b><br>{x_title} {x:g}<br>{point_text(curve, i)}"
            for i, x in enumerate(curve.x)
        ],
        "hoverinfo": "text",
        "line": {"color": f"@{colour}", "width": 2, "dash": dash},
        "marker": {"color": f"@{colour}", "size": 6},
    }


def point_text(curve: Curve, i: int) -> str:
    """Mean and interval of the curve's i-th point in one cell."""
    mean, between = point_texts(curve, i)
    return mean if between == "–" else f"{mean} ({between})"


def end_labels(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """The curves' names beside their last points, moved apart where they would overlap; none if
    there is no room.
    """
    every = [
        y
        for curve in curves
        for side in (curve.mean, curve.low, curve.high)
        for y in side
        if np.isfinite(y)
    ]
    last = max((x for curve in curves for x in curve.x), default=0)
    present = [
        (curve.mean[-1], i) for i, curve in enumerate(curves) if curve.x and curve.x[-1] == last
    ]
    ends = sorted((y, i) for y, i in present if np.isfinite(y))
    if len(curves) < 2 or not ends or len(ends) * _LINE > _PLOT:
        return []
    pixels = _PLOT / (np.ptp(every) or 1.0)
    at = np.array([y * pixels for y, _ in ends])
    place = at.copy()
    for _ in range(200):  # labels that overlap push each other apart, evenly, until none does
        short = _LINE - np.diff(place)
        if short.max(initial=0.0) < 0.5:
            break
        push = np.clip(short, 0, None) / 2
        place[:-1] -= push
        place[1:] += push
    shift = place - at
    if np.abs(shift).max() > _FAR:
        return []
    return [
        {
            "x": last,
            "y": y,
            "xanchor": "left",
            "xshift": 8,
            "yshift": round(float(up)),
            "showarrow": False,
            "text": label(curves[i].name, 24),
            "font": {"size": 12, "color": f"@{COLOURS[i % len(COLOURS)]}"},
        }
        for (y, i), up in zip(ends, shift, strict=True)
    ]
