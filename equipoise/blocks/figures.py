"""The report's drawings, as plain data in plotly's words: a long series, a heat map, bars, dots,
curves. `charts.js` draws them; the tests validate them by plotly.
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
    """An axis with a name at 0, 1, 2 …: names as ticks, because equal names are different
    rows.
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


def height_of(names: Sequence[str]) -> int:
    """Pixels of a figure with a line for each name."""
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
    lines = []
    words = []
    last = -np.inf
    for generation, at in enumerate(at_G, 1):
        lines.append(
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
        )
        if at - last < length / 24:
            continue
        last = at
        words.append(
            {
                "x": at,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "xanchor": "left",
                "text": str(generation),
                "showarrow": False,
                "font": {"size": 11, "color": "@muted"},
            }
        )
    return lines, words


def series_figure(series: Series) -> Figure:
    """A measure over optimizer steps, with dotted lines where the training of one of a few
    generations began.
    """
    all_x = np.asarray(series.x, float)
    all_y = np.asarray(series.y, float)
    finite = np.isfinite(all_y)
    x, y, size = bin_series(all_x[finite], all_y[finite])
    marked: Sequence[float] = ()
    if len(series.boundaries) <= MOST_TICKS:
        marked = series.boundaries
    length = float(np.ptp(x)) if len(x) else 0.0
    lines, words = boundary_marks(marked, length)
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
    notes = []
    if size > 1:
        notes.append(f"each point is the mean of {size} steps")
    missing = int((~finite).sum())
    if missing:
        notes.append(f"steps without a finite value, left out: {missing}")
    if marked:
        notes.append("dotted lines: a generation's training begins")
    return Figure(series.name, [trace], layout, note="; ".join(notes))


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    value_RC: np.ndarray,
    written: list[list[str]],
    hover: list[list[str]],
    titles: tuple[str, str],
    around_zero: bool = True,
    most: float | None = None,
) -> Figure:
    """A grid of numbers, empty where there is none.

    Around zero: blue above, orange below, as deep as the largest is far from 0, or as `most`. Else
    from pale to blue, from the smallest to the largest. Where all are the same there is no scale.
    `titles` are those of the rows' and the columns' axes.
    """
    value_V = value_RC[np.isfinite(value_RC)]
    low = float(value_V.min()) if value_V.size else 0.0
    high = float(value_V.max()) if value_V.size else 0.0
    scale: list[list[Any]] = [[0, "@neutral"], [1, "@high"]]
    if around_zero:
        scale = [[0, "@low"], [0.5, "@neutral"], [1, "@high"]]
        high = max(-low, high) if most is None else most
        low = -high
    differ = high - low > ROUNDING
    if not differ:  # nothing to shade, and no scale of millionths
        high = low + 1.0
        if around_zero:
            low, high = -1.0, 1.0
    largest = max(len(rows), len(columns))
    trace = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "z": [[finite_or_none(value) for value in row] for row in value_RC.tolist()],
        "zmin": low,
        "zmax": high,
        "showscale": differ,
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "hoverinfo": "text",
        "hovertext": hover,
        "colorscale": scale,
        "textfont": {"color": "@ink"},
        "colorbar": {"thickness": 10, "outlinewidth": 0, "len": 0.9},
    }
    if largest <= MOST_WRITTEN:
        trace["text"] = written
        trace["texttemplate"] = "%{text}"
    layout = {
        "xaxis": names_axis(columns, side="top", showgrid=False, title={"text": label(titles[1])}),
        "yaxis": downwards(rows, showgrid=False, title={"text": label(titles[0])}),
    }
    table = None
    if largest <= 24:
        cells = [(name, *row) for name, row in zip(rows, written, strict=True)]
        table = Table(("", *columns), tuple(cells))
    height = min(150 + 56 * len(rows), 760)
    return Figure(title, [trace], layout, height=height, wide=True, table=table)


def bars(title: str, weights: Sequence[tuple[str, float]], note: str = "") -> Figure:
    """Shares, one bar a name, the first on top."""
    names = [name for name, _ in weights]
    shares = [number(weight, "%") for _, weight in weights]
    rows = tuple(zip(names, shares, strict=True))
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(names))),
        "x": [finite_or_none(weight) for _, weight in weights],
        "marker": {"color": "@blue"},
        "hoverinfo": "text",
        "text": shares,
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": [f"{label(name)}<br><b>{share}</b>" for name, share in rows],
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
    table = Table(("player", "share"), rows)
    return Figure(title, [trace], layout, note=note, height=height_of(names), table=table)


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
    rows = []
    hover = []
    for rating in ratings:
        mean = number(rating.value, digits=1)
        between = "–"
        if finite_or_none(rating.low) is not None:
            between = f"{number(rating.low, digits=1)} to {number(rating.high, digits=1)}"
        rows.append((rating.name, mean, between))
        hover.append(f"{label(rating.name)}<br><b>{mean}</b><br>{between}")
    trace = {
        "x": [finite_or_none(rating.value) for rating in ratings],
        "y": list(range(len(names))),
        "mode": "markers",
        "marker": {"color": "@blue", "size": 9},
        "hoverinfo": "text",
        "hovertext": hover,
        "error_x": {
            "type": "data",
            "symmetric": False,
            "color": "@blue",
            "thickness": 2,
            "width": 5,
            "array": [finite_or_none(rating.high - rating.value) for rating in ratings],
            "arrayminus": [finite_or_none(rating.value - rating.low) for rating in ratings],
        },
    }
    axis: dict[str, Any] = {"title": {"text": label(unit)}}
    if zero:
        axis |= {"zeroline": True, "rangemode": "tozero"}
    layout = {"xaxis": axis, "yaxis": downwards(names), "showlegend": False}
    table = Table((*columns, "95 % interval"), tuple(rows))
    return Figure(title, [trace], layout, height=height_of(names), table=table)


COLOURS = ("blue", "orange", "green", "red", "purple", "teal", "pink", "brown")
DASHES = (
    "solid",
    "dash",
    "dot",
    "dashdot",
)  # of more lines than colours, every eighth has the same colour
TALL = 400  # pixels of the figure of several curves
PLOT = 290  # pixels of the part within its axes
LINE = 15  # pixels that one label needs
FAR = 36  # pixels that a label may lie above or below its line's end


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
    is_share = curve.unit == "%"
    unit = "" if is_share else label(curve.unit)
    rows = []
    hover = []
    for i, x in enumerate(curve.x):
        mean, interval = point_texts(curve, i)
        rows.append((f"{x:g}", mean, interval))
        hover.append(f"{x_title} {x:g}<br><b>{mean}</b> {unit}<br>{interval}")
    line = {
        "x": list(curve.x),
        "y": [finite_or_none(y) for y in curve.mean],
        "mode": "lines+markers" if len(curve.x) <= MOST_TICKS else "lines",
        "hovertext": hover,
        "hoverinfo": "text",
        "line": {"color": "@blue", "width": 2.5},
        "marker": {"color": "@blue", "size": 7},
        "connectgaps": False,
    }
    x_axis: dict[str, Any] = {"title": {"text": x_title}}
    span = max(curve.x, default=0) - min(curve.x, default=0)
    if span <= 14:
        x_axis["dtick"] = 1
    y_axis: dict[str, Any] = {"title": {"text": unit}}
    if is_share:
        y_axis["tickformat"] = "~%"
    layout = {"xaxis": x_axis, "yaxis": y_axis, "showlegend": False}
    value = "value"
    if curve.unit and not is_share:
        value = f"value, {curve.unit}"
    table = Table((x_title, value, "95 % interval"), tuple(rows))
    traces = []
    if curve.low:
        traces = [interval_band(curve, run) for run in finite_runs(curve)]
    traces.append(line)
    return Figure(curve.name, traces, layout, note=curve.note, table=table)


def lines_figure(
    title: str, curves: Sequence[Curve], x_title: str = "generation", unit: str = "", note: str = ""
) -> Figure:
    """Several curves of one measure, named where they end if there is room, each with its band if
    they are few.
    """
    few = len(curves) <= len(COLOURS)
    traces: list[dict[str, Any]] = []
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        dash = DASHES[i // len(COLOURS) % len(DASHES)]
        group = str(i)
        if curve.low and few:
            for run in finite_runs(curve):
                band = interval_band(curve, run, colour, 0.1, showlegend=False, legendgroup=group)
                traces.append(band)
        traces.append({**line_trace(curve, x_title, colour, dash), "legendgroup": group})

    x = sorted(set().union(*(curve.x for curve in curves)))
    x_axis: dict[str, Any] = {"title": {"text": x_title}}
    span = x[-1] - x[0] if x else 0
    if span <= 14:
        x_axis["dtick"] = 1
    if span:
        x_axis["range"] = [x[0] - 0.05 * span, x[-1] + 0.05 * span]
    y_axis: dict[str, Any] = {"title": {"text": label(unit)}}
    if unit == "%":
        y_axis = {"title": {"text": ""}, "tickformat": "~%"}
    ends = end_labels(curves)
    longest = max((len(end["text"]) for end in ends), default=0)
    layout = {
        "xaxis": x_axis,
        "yaxis": y_axis,
        "annotations": ends,
        "showlegend": 1 < len(curves) <= MOST_NAMES,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 12, "r": 14 + 7 * longest, "t": 22, "b": 12},
    }
    notes = [note] if note else []
    if not few and any(curve.low for curve in curves):
        notes.append("intervals are in the table and on hover")
    cells_of = []
    for curve in curves:
        cells_of.append({at: point_text(curve, j) for j, at in enumerate(curve.x)})
    rows = []
    for at in x:
        rows.append((f"{at:g}", *(cells.get(at, "–") for cells in cells_of)))
    table = Table((x_title, *(curve.name for curve in curves)), tuple(rows))
    return Figure(title, traces, layout, note="; ".join(notes), height=TALL, wide=True, table=table)


def scatter_figure(
    title: str, clouds: Sequence[Curve], x_title: str, y_title: str, unit: str = ""
) -> Figure:
    """Points of several players, one colour each; `unit` is that of x, a curve's own that of y."""
    traces = []
    rows = []
    for i, cloud in enumerate(clouds):
        hover = []
        for j, x in enumerate(cloud.x):
            x_text = number(x, unit)
            y_text = point_text(cloud, j)
            rows.append((cloud.name, x_text, y_text))
            hover.append(
                f"<b>{label(cloud.name)}</b><br>{label(x_title)} {x_text}<br>"
                f"{label(y_title)} {y_text}"
            )
        trace = {
            "x": list(cloud.x),
            "y": [finite_or_none(y) for y in cloud.mean],
            "name": label(cloud.name),
            "mode": "markers",
            "marker": {"color": f"@{COLOURS[i % len(COLOURS)]}", "size": 8},
            "hoverinfo": "text",
            "hovertext": hover,
        }
        traces.append(trace)
    x_axis: dict[str, Any] = {"title": {"text": label(x_title)}}
    if unit == "%":
        x_axis["tickformat"] = "~%"
    layout = {
        "xaxis": x_axis,
        "yaxis": {"title": {"text": label(y_title)}},
        "showlegend": 1 < len(clouds) <= MOST_NAMES,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }
    table = Table(("player", x_title, y_title), tuple(rows))
    return Figure(title, traces, layout, height=TALL, table=table)


def group_figure(group: Curves) -> Figure:
    """The curves of a measure: a single one under its own title, several as named lines."""
    if len(group.curves) != 1:
        return lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
    [curve] = group.curves
    title = f"{group.name} of {curve.name}" if curve.name else group.name
    return curve_figure(replace(curve, name=title, note=group.note))


def line_trace(curve: Curve, x_title: str, colour: str, dash: str) -> dict[str, Any]:
    """One curve of several, as the figure's data."""
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
    drawn: list[float] = []
    reached: list[float] = []
    for curve in curves:
        drawn += [*curve.mean, *curve.low, *curve.high]
        reached += curve.x
    last = max(reached, default=0)
    ends = []
    for i, curve in enumerate(curves):
        if curve.x and curve.x[-1] == last and np.isfinite(curve.mean[-1]):
            ends.append((curve.mean[-1], i))
    ends.sort()
    if len(curves) < 2 or not ends or len(ends) * LINE > PLOT:
        return []
    pixels = PLOT / (np.ptp([y for y in drawn if np.isfinite(y)]) or 1.0)
    at = np.array([y * pixels for y, _ in ends])
    place = at.copy()
    for _ in range(200):  # labels that overlap push each other apart, evenly, until none does
        short = LINE - np.diff(place)
        if short.max(initial=0.0) < 0.5:
            break
        push = np.clip(short, 0, None) / 2
        place[:-1] -= push
        place[1:] += push
    shift = place - at
    if np.abs(shift).max() > FAR:
        return []
    labels = []
    for (y, i), up in zip(ends, shift, strict=True):
        labels.append(
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
        )
    return labels
